"""Plans how a filter is answered: which index answers which part, on which fragments, and what is scanned. Pure.

Fragments are put into classes by which indexes cover them, and every class is planned by itself, so that a gap in one
index costs only the fragments in the gap. Which rows are found never depends on estimates, only how.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyroaring import FrozenBitMap

from lancewright.kinds.lance_native.trusted import Precision
from lancewright.model.computed import base_columns, computed_columns
from lancewright.model.predicate import And, Constant, Not, Or, columns_of
from lancewright.query.costs import Reading, Widths, is_worthwhile
from lancewright.query.kind_index import is_kind_index
from lancewright.query.matching import Answer, Matching, find_answer
from lancewright.query.notes import explain_candidate
from lancewright.query.plan import IndexNote, Portion, QueryPlan
from lancewright.query.trust import Candidate, has_deferred_compaction, judge_index

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lancewright.model.predicate import Predicate
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.query.settings import ScanSettings
    from lancewright.query.statistics import IndexStatistics
    from lancewright.query.trust import Doubt


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInput:
    """What a plan is made from besides the snapshot: the filter in negation normal form, and what is known of indexes.

    ``doubts`` names indexes that an update may have spoiled.
    """

    predicate: Predicate | None
    widths: Widths
    statistics: IndexStatistics
    settings: ScanSettings
    doubts: Mapping[str, Doubt] = field(default_factory=dict)


def plan_query(snapshot: TableSnapshot, asked: PlanInput) -> QueryPlan:
    """Plan one filter on one snapshot."""
    live = FrozenBitMap(fragment.id for fragment in snapshot.fragments)
    judged = [judge_index(snapshot, index, asked.doubts, live) for index in snapshot.indexes]
    candidates = [one for one in judged if isinstance(one, Candidate)]
    portions = tuple(_plan_portions(snapshot, asked, candidates, live))
    return QueryPlan(
        table=snapshot.uri,
        version=snapshot.version,
        table_rows=snapshot.rows,
        table_fragments=len(snapshot.fragments),
        predicate=asked.predicate,
        portions=portions,
        notes=tuple(
            one if isinstance(one, IndexNote) else explain_candidate(one, asked, portions) for one in judged
        ),
    )


def _plan_portions(
    snapshot: TableSnapshot, asked: PlanInput, candidates: Sequence[Candidate], live: FrozenBitMap
) -> Iterator[Portion]:
    predicate = asked.predicate
    if predicate is None or predicate == Constant(value=True):
        yield Portion(fragments=live, rows=snapshot.rows)
        return
    if isinstance(predicate, Constant):
        return
    columns = set(columns_of(predicate))
    relevant = (
        [one for one in candidates if not columns.isdisjoint(one.columns)]
        if asked.settings.use_indexes
        else []
    )
    for fragments, covering in _classes(live, relevant):
        rows = sum(snapshot.fragments_by_id[fragment].rows for fragment in fragments)
        if not rows:
            continue
        matching = Matching(
            covering=covering,
            rows=rows,
            statistics=asked.statistics,
            settings=asked.settings,
            zones_usable=not has_deferred_compaction(snapshot),
        )
        native = asked.settings.use_indexes and _lance_may_use_indexes(snapshot, predicate, covering)
        yield _plan_class(
            predicate, matching, asked.widths, Portion(fragments=fragments, rows=rows, native_indexes=native)
        )


def _plan_class(predicate: Predicate, matching: Matching, widths: Widths, portion: Portion) -> Portion:
    """Probe the class when that is cheaper than to scan it, and when what is found fits the driver."""
    answer = find_answer(predicate, matching)
    ask = answer is not None and _is_worth_asking(answer, matching, widths)
    return Portion(
        fragments=portion.fragments,
        rows=portion.rows,
        probe=answer.probe if answer is not None and ask else None,
        residual=answer.residual if answer is not None and ask else predicate,
        estimate=None if answer is None else answer.estimate,
        native_indexes=portion.native_indexes and not ask,
    )


def _is_worth_asking(answer: Answer, matching: Matching, widths: Widths) -> bool:
    estimate = answer.estimate
    reading = Reading(
        rows=estimate.rows, runs=estimate.runs, of_rows=matching.rows, settled=answer.residual is None
    )
    fits = estimate.runs <= matching.settings.probe_rows_max
    return fits and is_worthwhile(estimate, reading, widths, matching.settings)


def _classes(
    live: FrozenBitMap, candidates: Sequence[Candidate]
) -> list[tuple[FrozenBitMap, tuple[Candidate, ...]]]:
    """Fragments by the set of indexes that cover them."""
    classes: list[tuple[FrozenBitMap, tuple[Candidate, ...]]] = [(live, ())]
    for candidate in candidates:
        classes = [
            part
            for fragments, covering in classes
            for part in (
                (fragments & candidate.covered, (*covering, candidate)),
                (fragments - candidate.covered, covering),
            )
            if part[0]
        ]
    return classes


def _lance_may_use_indexes(
    snapshot: TableSnapshot, predicate: Predicate, covering: tuple[Candidate, ...]
) -> bool:
    """True when an index that only Lance can read helps it to scan.

    Lance asks every index of the filter's columns then, so none may be among them that answers wrongly, or that is large
    and was passed over on purpose.
    """
    columns = set(base_columns(columns_of(predicate), computed_columns(snapshot)))
    covering = tuple(candidate for candidate in covering if candidate.of_kind is None)
    names = {
        index.name
        for index in snapshot.indexes
        if not columns.isdisjoint(index.columns) and not is_kind_index(index)
    }
    by_column = {candidate.column: candidate for candidate in covering}
    if not names or names != {candidate.name for candidate in covering} or len(by_column) < len(names):
        return False
    asked = [
        by_column[path].precision(atom)
        for atom in _atoms(predicate)
        for path in columns_of(atom)
        if path in by_column
    ]
    return all(precision is Precision.IN_TASKS for precision in asked)


def _atoms(predicate: Predicate) -> Iterator[Predicate]:
    match predicate:
        case And(children=children) | Or(children=children):
            for child in children:
                yield from _atoms(child)
        case Not(child=And() | Or() as child):
            yield from _atoms(child)
        case _:
            yield predicate
