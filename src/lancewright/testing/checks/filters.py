"""A lookup names the rows that are TRUE: all of them, and no others where it says so."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from lancewright.testing.checks.asking import ask, compare, offers_of
from lancewright.testing.expecting import expect
from lancewright.testing.oracle import true_rows

if TYPE_CHECKING:
    from lancewright.testing.laboratory import Laboratory

_GROUPS = 60


def check_answers_are_those_of_the_oracle(laboratory: Laboratory) -> None:
    """EXACT is equal, AT_MOST is not less; NULLs, NaN and other odd values included."""
    offered = 0
    for case in laboratory.harness.cases:
        built = laboratory.build(case, laboratory.rows(case, 250))
        offered += sum(compare(built, laboratory.group(case)) for _ in range(_GROUPS))
    expect(offered or not laboratory.harness.filters, "something is offered")


def check_every_bound_is_right(laboratory: Laboratory) -> None:
    """Each comparison with each value there is, and beyond them."""
    for case in laboratory.harness.cases:
        built = laboratory.build(case, laboratory.rows(case, 120))
        for predicate in laboratory.bounds(case):
            compare(built, [predicate])


def check_rows_keep_their_numbers_when_others_are_deleted(laboratory: Laboratory) -> None:
    """Rows come with holes: a kind that counts for itself is wrong."""
    for case in laboratory.harness.cases:
        deleted = laboratory.random.choice(200, 70, replace=False).tolist()
        built = laboratory.build(case, laboratory.rows(case, 200), deleted=deleted)
        for _ in range(_GROUPS // 3):
            compare(built, laboratory.group(case))


def check_a_segment_is_skipped_only_without_rows(laboratory: Laboratory) -> None:
    """Skip looks at the summary alone, and must never be wrong."""
    for case in laboratory.harness.cases:
        for count in (1, 3, 30):
            built = laboratory.build(case, laboratory.rows(case, count, 0.05))
            summary = built.index.segments[0].details.summary
            for _ in range(_GROUPS // 3):
                for offer in offers_of(built, laboratory.group(case)):
                    probe = offer.probe.probe
                    if (
                        probe is None
                        or offer.probe.negated
                        or not built.kind.skip(built.spec, probe, summary)
                    ):
                        continue
                    lost = true_rows(offer.probe.predicate, built.named()) & built.live
                    unseen = built.index.names_unseen_rows(offer.probe.keys)
                    expect(not lost or unseen, f"a segment with rows {sorted(lost)[:5]} is not skipped")


def check_estimates_are_sane(laboratory: Laboratory) -> None:
    """Neither negative nor not a number."""
    for case in laboratory.harness.cases:
        built = laboratory.build(case, laboratory.rows(case, 100))
        details = built.index.segments[0].details
        for _ in range(_GROUPS // 6):
            for offer in offers_of(built, laboratory.group(case)):
                if offer.probe.probe is None:
                    continue
                cost = built.kind.cost(built.spec, offer.probe.probe, details.summary, details.rows)
                expect(cost is None or (cost.rows >= 0 and cost.bytes >= 0), f"{cost} is an estimate")


def check_probes_survive_a_pickle(laboratory: Laboratory) -> None:
    """A probe may be planned here and looked up there."""
    for case in laboratory.harness.cases:
        built = laboratory.build(case, laboratory.rows(case, 60))
        for _ in range(_GROUPS // 6):
            for offer in offers_of(built, laboratory.group(case)):
                expect(pickle.loads(pickle.dumps(offer.probe)) == offer.probe, "a probe is equal to its copy")  # noqa: S301 - made here
                ask(built, offer)
