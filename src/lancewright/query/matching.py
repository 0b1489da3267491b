"""Answers how indexes find the rows of a condition on fragments that the same indexes cover. Pure.

An answer is a probe, which names all rows for which the condition is TRUE and perhaps others, and a residual, which is
left to check on the rows named. NOT stands only before leaves here, so TRUE rows are all that has to be known: of an AND they
are the rows TRUE in every part, of an OR those TRUE in any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancewright.kinds.lance_native.trusted import Precision
from lancewright.model.predicate import And, Comparison, Operator, Or, columns_of, conjoin, conjuncts
from lancewright.query.answering import is_negative
from lancewright.query.kind_matching import find_offers
from lancewright.query.plan import Both, Either, Estimate, NativeProbe, Probe, ZoneProbe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lancewright.model.predicate import Predicate
    from lancewright.query.settings import ScanSettings
    from lancewright.query.statistics import IndexStatistics
    from lancewright.query.trust import Candidate

# What a condition is taken to leave of the rows when nothing is known of its index.
_UNKNOWN_SHARE = 0.01
_POSTING_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """The indexes that cover a class of fragments, its rows, and what is known of the indexes.

    ``zones_usable``: the row addresses in zone maps are those of this version.
    """

    covering: tuple[Candidate, ...]
    rows: int
    statistics: IndexStatistics
    settings: ScanSettings
    zones_usable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Where the rows are found, what is left to check on them, and what it is expected to cost."""

    probe: Probe
    residual: Predicate | None
    estimate: Estimate


def find_answer(predicate: Predicate, matching: Matching) -> Answer | None:
    """The answer of indexes to a condition; None when they have none."""
    match predicate:
        case And():
            return _answer_all(predicate, matching)
        case Or(children=children):
            answers = [find_answer(child, matching) for child in children]
            found = [answer for answer in answers if answer is not None]
            return _answer_any(predicate, found, matching) if len(found) == len(answers) else None
        case _:
            return _answer_group(predicate, matching)


def find_candidate(atom: Predicate, matching: Matching) -> Candidate | None:
    """The index to ask for an atom: one that answers exactly before one that does not."""
    asked = columns_of(atom)
    # Of two that answer exactly, the one that is not doubted.
    found: dict[Precision, Candidate] = {}
    for candidate in sorted(matching.covering, key=lambda one: one.doubted):
        precision = candidate.precision(atom)
        if (
            precision is not None
            and (candidate.column,) == asked
            and candidate.name not in matching.statistics.broken
            and not (candidate.doubted and is_negative(atom))
        ):
            found.setdefault(precision, candidate)
    zones = found.get(Precision.AT_MOST) if matching.zones_usable else None
    return found.get(Precision.EXACT) or zones


@dataclass(frozen=True, slots=True, kw_only=True)
class _Option:
    """An answer to some parts of an AND, given by their places."""

    parts: frozenset[int]
    answer: Answer


def _answer_all(predicate: And, matching: Matching) -> Answer | None:
    """Ask for the most selective parts, and for others as long as they save more than they cost."""
    parts = predicate.children
    options = sorted(
        _options(parts, matching),
        key=lambda option: (option.answer.estimate.rows, option.answer.estimate.index_bytes),
    )
    if not options:
        return None
    chosen = options[:1]
    rows = options[0].answer.estimate.rows
    for option in options[1:]:
        if option.parts <= _settled(chosen):
            continue
        estimate = option.answer.estimate
        share = min(1.0, estimate.rows / max(1, matching.rows))
        saved = rows * (1 - share) * matching.settings.random_read_bytes
        if estimate.index_bytes * matching.settings.index_byte_weight <= saved:
            chosen.append(option)
            rows *= share
    answers = [option.answer for option in chosen]
    return Answer(
        probe=_both([answer.probe for answer in answers]),
        residual=_residual(parts, chosen),
        estimate=Estimate(
            rows=rows,
            runs=min(rows, *(answer.estimate.runs for answer in answers)),
            index_bytes=sum(answer.estimate.index_bytes for answer in answers),
            pages=sum(answer.estimate.pages for answer in answers),
        ),
    )


def _options(parts: Sequence[Predicate], matching: Matching) -> Iterator[_Option]:
    """What Lance's indexes answer of each column, and what other kinds answer of all parts together."""
    for places in _groups(parts):
        answer = find_answer_of_group(conjoin(parts[place] for place in places), matching, native=True)
        if answer is not None:
            yield _Option(parts=frozenset(places), answer=answer)
    yield from _options_of_kinds(parts, matching)


def _options_of_kinds(parts: Sequence[Predicate], matching: Matching) -> Iterator[_Option]:
    for candidate in matching.covering:
        if candidate.of_kind is None or candidate.name in matching.statistics.broken:
            continue
        for offer in find_offers(candidate.of_kind, parts):
            residual = None if offer.settled else conjoin(parts[place] for place in sorted(offer.parts))
            estimate = _scale(offer.estimate, candidate, matching)
            yield _Option(
                parts=offer.parts, answer=Answer(probe=offer.probe, residual=residual, estimate=estimate)
            )


def _settled(chosen: Sequence[_Option]) -> frozenset[int]:
    return frozenset().union(*(option.parts for option in chosen if option.answer.residual is None))


def _residual(parts: Sequence[Predicate], chosen: Sequence[_Option]) -> Predicate | None:
    """What is left to check: what no option answers, and what an option leaves of its parts."""
    left = frozenset(range(len(parts))) - _settled(chosen)
    found: list[tuple[int, Predicate]] = []
    for option in chosen:
        if option.answer.residual is not None and option.parts & left:
            found.append((min(option.parts), option.answer.residual))
            left -= option.parts
    found += [(place, parts[place]) for place in left]
    return conjoin(part for _, part in sorted(found, key=lambda entry: entry[0])) if found else None


def find_answer_of_group(group: Predicate, matching: Matching, *, native: bool = False) -> Answer | None:
    """The answer to a part of an AND: a range over one column is asked for as one condition.

    With ``native`` a leaf or range is only asked of Lance's indexes, because other kinds are asked for the AND as a whole.
    """
    if _is_range(group) or (native and not isinstance(group, And | Or)):
        return _answer_natively(group, matching) if native else _answer_group(group, matching)
    return find_answer(group, matching)


def _answer_any(predicate: Or, answers: Sequence[Answer], matching: Matching) -> Answer:
    rows = sum(answer.estimate.rows for answer in answers)
    return Answer(
        probe=_either([answer.probe for answer in answers]),
        residual=predicate if any(answer.residual is not None for answer in answers) else None,
        estimate=Estimate(
            rows=min(float(matching.rows), rows),
            runs=sum(answer.estimate.runs for answer in answers),
            index_bytes=sum(answer.estimate.index_bytes for answer in answers),
            pages=sum(answer.estimate.pages for answer in answers),
        ),
    )


def _answer_group(group: Predicate, matching: Matching) -> Answer | None:
    """Ask one index for a leaf, or for a range over its column: the one expected to name the fewest rows."""
    native = _answer_natively(group, matching)
    parts = conjuncts(group)
    whole = frozenset(range(len(parts)))
    others = [option.answer for option in _options_of_kinds(parts, matching) if option.parts == whole]
    answers = [*([] if native is None else [native]), *others]
    return min(
        answers,
        key=lambda answer: (answer.estimate.rows, answer.residual is not None, answer.estimate.index_bytes),
        default=None,
    )


def _answer_natively(group: Predicate, matching: Matching) -> Answer | None:
    candidate = find_candidate(conjuncts(group)[0], matching) if conjuncts(group) else None
    if candidate is None:
        return None
    estimate = _estimate(candidate, group, matching)
    if candidate.kind == "zonemap":
        return Answer(
            probe=ZoneProbe(predicate=group, index=candidate.name), residual=group, estimate=estimate
        )
    probe = NativeProbe(predicate=group, indexes=frozenset({candidate.name}))
    return Answer(probe=probe, residual=group if candidate.doubted else None, estimate=estimate)


def _estimate(candidate: Candidate, condition: Predicate, matching: Matching) -> Estimate:
    return _scale(matching.statistics.estimate(candidate.name, condition), candidate, matching)


def _scale(known: Estimate | None, candidate: Candidate, matching: Matching) -> Estimate:
    """An estimate for all that an index covers, taken to the fragments in question."""
    if known is None:
        rows = matching.rows * _UNKNOWN_SHARE
        return Estimate(rows=rows, runs=rows, index_bytes=rows * _POSTING_BYTES)
    share = min(1.0, matching.rows / max(1, candidate.covered_rows))
    return Estimate(
        rows=known.rows * share, runs=known.runs * share, index_bytes=known.index_bytes, pages=known.pages
    )


def _groups(parts: Sequence[Predicate]) -> list[list[int]]:
    """The places of the parts of an AND, those comparisons put together that make a range of one column."""
    groups: dict[object, list[int]] = {}
    for number, part in enumerate(parts):
        groups.setdefault(part.column if _bounds(part) else number, []).append(number)  # type: ignore[union-attr] # a comparison
    return list(groups.values())


def _is_range(group: Predicate) -> bool:
    return isinstance(group, And) and all(_bounds(part) for part in group.children)


def _bounds(part: Predicate) -> bool:
    return isinstance(part, Comparison) and part.operator is not Operator.NOT_EQUAL


def _both(probes: Sequence[Probe]) -> Probe:
    """All conditions that Lance answers as one question: it intersects them itself."""
    native, others = _split(probes)
    parts = (*_merged(native, conjoin(probe.predicate for probe in native)), *others)
    return parts[0] if len(parts) == 1 else Both(parts=parts)


def _either(probes: Sequence[Probe]) -> Probe:
    native, others = _split(probes)
    predicates = tuple(probe.predicate for probe in native)
    joined = predicates[0] if len(predicates) == 1 else Or(children=predicates)
    parts = (*_merged(native, joined), *others) if native else tuple(others)
    return parts[0] if len(parts) == 1 else Either(parts=parts)


def _split(probes: Sequence[Probe]) -> tuple[list[NativeProbe], list[Probe]]:
    native = [probe for probe in probes if isinstance(probe, NativeProbe)]
    return native, [probe for probe in probes if not isinstance(probe, NativeProbe)]


def _merged(native: Sequence[NativeProbe], predicate: Predicate) -> tuple[NativeProbe, ...]:
    if not native:
        return ()
    return (
        NativeProbe(predicate=predicate, indexes=frozenset().union(*(probe.indexes for probe in native))),
    )


def _conjoin_some(parts: Sequence[Predicate | None]) -> Predicate | None:
    left = [part for part in parts if part is not None]
    return conjoin(left) if left else None
