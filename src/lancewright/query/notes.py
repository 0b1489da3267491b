"""Answers, for every index of a table, whether a query uses it, and if not, why. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewright.kinds.contract import Answer
from lancewright.kinds.lance_native.trusted import Precision
from lancewright.model.predicate import And, Comparison, Not, Opaque, Or, columns_of, conjoin, to_lance_sql
from lancewright.query.answering import is_negative
from lancewright.query.kind_matching import find_failure, find_offers
from lancewright.query.plan import (
    Both,
    Either,
    Estimate,
    IndexNote,
    KindProbe,
    NativeProbe,
    Reason,
    ZoneProbe,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lancewright.model.index import IndexState
    from lancewright.model.predicate import Predicate
    from lancewright.query.kind_index import KindIndex
    from lancewright.query.plan import Portion, Probe
    from lancewright.query.planner import PlanInput
    from lancewright.query.trust import Candidate

_CONDITION_LENGTH_MAX = 200


def explain_candidate(candidate: Candidate, asked: PlanInput, portions: Sequence[Portion]) -> IndexNote:
    """Say whether an index that may be asked is asked."""
    predicate = asked.predicate
    if not asked.settings.use_indexes:
        return _note(candidate, Reason.DISABLED, "indexes are switched off for this query")
    if candidate.of_kind is not None:
        return _explain_of_kind(candidate, candidate.of_kind, predicate, portions)
    atoms = [atom for atom in _atoms(predicate) if columns_of(atom) == (candidate.column,)]
    if not atoms:
        return _note(candidate, Reason.COLUMN_NOT_ASKED, "the filter has no condition on its column alone")
    if candidate.name in asked.statistics.broken:
        return _note(candidate, Reason.BROKEN_SEGMENT, asked.statistics.broken[candidate.name])
    conditions = [
        part for portion in portions if portion.probe for part in _conditions(portion.probe, candidate)
    ]
    if conditions:
        exact = any(_is_exact(portion.probe, candidate) for portion in portions if portion.probe)
        reason, words = (Reason.USED, "") if exact else (Reason.INEXACT_PREFILTER, _why_checked(candidate))
        return _note(candidate, reason, words, conditions[0], _own_estimate(candidate, asked, atoms))
    return _unused(candidate, predicate, atoms, portions)


def shorten(condition: str) -> str:
    """One line of bounded length: a list may have thousands of values."""
    line = " ".join(condition.split())
    return line if len(line) <= _CONDITION_LENGTH_MAX else f"{line[: _CONDITION_LENGTH_MAX - 1]}…"


def _own_estimate(candidate: Candidate, asked: PlanInput, atoms: Sequence[Predicate]) -> Estimate | None:
    """What this index alone is expected to name."""
    together = conjoin(atoms) if all(isinstance(atom, Comparison) for atom in atoms) else atoms[0]
    return asked.statistics.estimate(candidate.name, together)


def _explain_of_kind(
    candidate: Candidate, index: KindIndex, predicate: Predicate | None, portions: Sequence[Portion]
) -> IndexNote:
    atoms = [atom for atom in _atoms(predicate) if not set(columns_of(atom)).isdisjoint(candidate.columns)]
    if not atoms:
        return _note(candidate, Reason.COLUMN_NOT_ASKED, "the filter has no condition on its columns")
    conditions = [
        part for portion in portions if portion.probe for part in _conditions(portion.probe, candidate)
    ]
    if conditions:
        offers = [offer for group in _and_groups(predicate) for offer in find_offers(index, group)]
        estimate = offers[0].estimate if offers else None
        exact = any(_is_exact(portion.probe, candidate) for portion in portions if portion.probe)
        reason, words = (
            (Reason.USED, "") if exact else (Reason.INEXACT_PREFILTER, "the rows it names are checked")
        )
        return _note(candidate, reason, words, conditions[0], estimate)
    return _explain_unused_of_kind(candidate, index, predicate, portions)


def _explain_unused_of_kind(
    candidate: Candidate, index: KindIndex, predicate: Predicate | None, portions: Sequence[Portion]
) -> IndexNote:
    atoms = [atom for atom in _atoms(predicate) if not set(columns_of(atom)).isdisjoint(candidate.columns)]
    groups = list(_and_groups(predicate))
    offers = [offer for group in groups for offer in find_offers(index, group)]
    failures = [failure for group in groups if (failure := find_failure(index, group)) is not None]
    if failures:
        return _note(candidate, Reason.PLUGIN_FAILED, failures[0])
    condition = shorten(to_lance_sql(atoms[0]))
    if offers:
        covering = [portion for portion in portions if not portion.fragments.isdisjoint(candidate.covered)]
        return _note(candidate, *_passed_over(predicate, covering), condition, offers[0].estimate)
    if all(candidate.column not in columns_of(atom) for atom in atoms):
        return _note(
            candidate,
            Reason.NO_LEADING_KEY,
            f"there is no condition on {candidate.column}, its first column",
            condition,
        )
    return _note(
        candidate,
        Reason.OPERATOR_UNSUPPORTED,
        f"a {candidate.kind} does not answer this condition",
        condition,
    )


def _and_groups(predicate: Predicate | None) -> Iterator[tuple[Predicate, ...]]:
    """What is offered to a kind at a time: the parts of each AND, and leaves that stand alone."""
    match predicate:
        case None:
            return
        case And(children=children):
            yield children
            for child in children:
                if isinstance(child, And | Or):
                    yield from _and_groups(child)
        case Or(children=children):
            for child in children:
                yield from _and_groups(child)
        case _:
            yield (predicate,)


def _unused(
    candidate: Candidate, predicate: Predicate | None, atoms: Sequence[Predicate], portions: Sequence[Portion]
) -> IndexNote:
    precisions = [candidate.precision(atom) for atom in atoms]
    answered = [atom for atom, precision in zip(atoms, precisions, strict=True) if precision is not None]
    condition = shorten(to_lance_sql(answered[0] if answered else atoms[0]))
    if candidate.doubted and answered and all(is_negative(atom) for atom in answered):
        return _note(
            candidate,
            Reason.STALE,
            "values may have been updated between its segments, so what it leaves out is not the opposite; rebuild it",
            condition,
        )
    if not answered:
        return _note(candidate, *_unanswered(candidate, atoms), condition)
    covering = [portion for portion in portions if not portion.fragments.isdisjoint(candidate.covered)]
    if Precision.IN_TASKS in precisions:
        return _note(candidate, *_in_tasks(covering), condition)
    estimates = [portion.estimate for portion in covering if portion.estimate is not None]
    return _note(
        candidate, *_passed_over(predicate, covering), condition, estimates[0] if estimates else None
    )


def _unanswered(candidate: Candidate, atoms: Sequence[Predicate]) -> tuple[Reason, str]:
    faults = [fault for fault in map(candidate.fault, atoms) if fault is not None]
    if faults:
        return Reason.NOT_TRUSTED, f"{faults[0].cause}, so it is not asked this"
    if any(isinstance(atom, Not) and candidate.precision(atom.child) for atom in atoms):
        return (
            Reason.INEXACT_UNDER_NOT,
            "the index gives more rows than asked; what it leaves out is not the opposite",
        )
    if any(_is_withheld(atom) for atom in atoms):
        return (
            Reason.LITERAL_NOT_CASTABLE,
            "it is compared with a constant that has no exact counterpart in the column's type",
        )
    return Reason.OPERATOR_UNSUPPORTED, f"a {candidate.kind} does not answer this condition"


def _in_tasks(covering: Sequence[Portion]) -> tuple[Reason, str]:
    if any(portion.native_indexes for portion in covering):
        return Reason.USED_IN_TASKS, "Lance asks it in each task while it scans"
    return (
        Reason.OTHER_INDEX_CHOSEN,
        "Lance asks every index of the filter's columns in a task or none, and one of them must not be asked there",
    )


def _passed_over(predicate: Predicate | None, covering: Sequence[Portion]) -> tuple[Reason, str]:
    if any(portion.probe is not None for portion in covering):
        return Reason.CHEAPER_INDEX, "another index finds fewer rows, or the same for less"
    if any(portion.estimate is not None for portion in covering):
        return Reason.TOO_MANY_ROWS, "so many rows are found faster by a scan"
    if isinstance(predicate, Or) or any(isinstance(part, Or) for part in _parts(predicate)):
        return Reason.OR_BRANCH_UNINDEXED, "another branch of the OR has no index, so all rows are read"
    return Reason.OPERATOR_UNSUPPORTED, "no index answers the filter on these fragments"


def _note(
    candidate: Candidate,
    reason: Reason,
    explanation: str,
    condition: str = "",
    estimate: Estimate | None = None,
) -> IndexNote:
    return IndexNote(
        index=candidate.name,
        kind=candidate.kind,
        reason=reason,
        explanation="; ".join(filter(None, (explanation, _set_aside(candidate.index)))),
        condition=condition,
        segments=len(candidate.index.segments),
        skipped=len(candidate.index.skipped),
        estimate=estimate,
    )


def _why_checked(candidate: Candidate) -> str:
    if candidate.doubted:
        return (
            "values may have been updated between its segments, so the rows it names are checked; rebuild it"
        )
    return "it names runs of rows, which are checked"


def _set_aside(index: IndexState) -> str:
    """Say which segments an index has beside those that are asked."""
    if not index.skipped:
        return ""
    return f"{len(index.skipped)} of its segments cannot be read: {index.skipped[0].explanation}"


def _is_withheld(atom: Predicate) -> bool:
    return atom.withheld if isinstance(atom, Opaque) else isinstance(atom, Not) and _is_withheld(atom.child)


def _is_exact(probe: Probe, candidate: Candidate) -> bool:
    match probe:
        case NativeProbe(indexes=indexes):
            return candidate.name in indexes and not candidate.doubted
        case KindProbe(index=index, probe=lookup, keys=keys):
            own = candidate.of_kind
            asked = own is not None and index == candidate.name
            exact = lookup is None or lookup.answer is Answer.EXACT
            return asked and exact and own is not None and not own.names_unseen_rows(keys)
        case ZoneProbe():
            return False
        case Both(parts=parts) | Either(parts=parts):
            return any(_is_exact(part, candidate) for part in parts)


def _conditions(probe: Probe, candidate: Candidate) -> Iterator[str]:
    """What a probe asks an index for."""
    match probe:
        case NativeProbe(predicate=predicate, indexes=indexes):
            if candidate.name in indexes:
                atoms = [atom for atom in _atoms(predicate) if columns_of(atom) == (candidate.column,)]
                yield shorten(", ".join(to_lance_sql(atom) for atom in atoms))
        case ZoneProbe(predicate=predicate, index=index) | KindProbe(predicate=predicate, index=index):
            if candidate.name == index:
                yield shorten(to_lance_sql(predicate))
        case Both(parts=parts) | Either(parts=parts):
            for part in parts:
                yield from _conditions(part, candidate)


def _parts(predicate: Predicate | None) -> tuple[Predicate, ...]:
    return predicate.children if isinstance(predicate, And) else ()


def _atoms(predicate: Predicate | None) -> Iterator[Predicate]:
    match predicate:
        case None:
            return
        case And(children=children) | Or(children=children):
            for child in children:
                yield from _atoms(child)
        case _:
            yield predicate
