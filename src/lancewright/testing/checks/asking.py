"""Asks a segment in memory what an index offers for some conditions, and compares it with the oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewright.kinds.contract import Answer
from lancewright.model.predicate import conjoin, simplify, to_lance_sql, to_negation_normal_form
from lancewright.query.kind_matching import find_failure, find_offers
from lancewright.testing.expecting import expect
from lancewright.testing.oracle import true_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lancewright.model.predicate import Predicate
    from lancewright.query.kind_matching import Offer
    from lancewright.testing.laboratory import Built


def compare(built: Built, group: Sequence[Predicate]) -> int:
    """Hold everything that is offered for an AND against the oracle; return how much was offered."""
    offers = list(offers_of(built, group))
    for offer in offers:
        wanted = true_rows(offer.probe.predicate, built.named()) & built.live
        found = ask(built, offer) & built.live
        where = (
            f"{to_lance_sql(offer.probe.predicate)} on ({', '.join(str(k.type) for k in built.spec.keys)})"
        )
        expect(wanted <= found, f"{where} finds rows {sorted(wanted - found)[:5]} of {len(built.columns[0])}")
        if (
            offer.probe.probe is not None
            and offer.probe.probe.answer is Answer.EXACT
            and not offer.probe.negated
        ):
            # What the kind itself names, without the rows it never saw, which the framework adds to be checked.
            own = frozenset(built.opened().reader.lookup(offer.probe.probe)) & built.live
            expect(own <= wanted, f"{where}, called exact, does not name rows {sorted(own - wanted)[:5]}")
        if offer.settled:
            expect(found <= wanted, f"{where}, called exact, does not find rows {sorted(found - wanted)[:5]}")
    return len(offers)


def offers_of(built: Built, group: Sequence[Predicate]) -> Iterator[Offer]:
    """What the index offers, with conditions in the form a planner has them in."""
    parts = [simplify(to_negation_normal_form(part)) for part in group]
    failure = find_failure(built.index, parts)
    expect(failure is None, f"planning does not fail ({failure})")
    yield from find_offers(built.index, parts)


def ask(built: Built, offer: Offer, *, may_skip: bool = True) -> frozenset[int]:
    """The rows an offer names."""
    probe, opened = offer.probe, built.opened()
    if probe.probe is None:
        return frozenset(opened.nulls(probe.keys[0], negated=probe.negated))
    summary = built.index.segments[0].details.summary
    unseen = built.index.names_unseen_rows(probe.keys)
    if may_skip and not probe.negated and not unseen and built.kind.skip(built.spec, probe.probe, summary):
        return frozenset()
    return frozenset(opened.lookup(probe.probe, probe.keys, negated=probe.negated))


def ask_for(built: Built, predicate: Predicate) -> frozenset[int] | None:
    """The rows the first lookup offered for one condition names; None when none is offered."""
    parts = conjoin([predicate])
    group = getattr(parts, "children", (parts,))
    offer = next((one for one in offers_of(built, group) if one.probe.probe is not None), None)
    return None if offer is None else ask(built, offer)
