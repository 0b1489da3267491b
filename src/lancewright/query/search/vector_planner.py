"""Plans a search for nearest vectors: index or not, which segments go together, what is searched exactly. Pure.

One task per group of segments, because a task that opens an index at all pays for every segment it opens.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyroaring import FrozenBitMap

from lancewright.build.groups import cut_contiguous
from lancewright.errors import InvalidRequestError
from lancewright.kinds.lance_native.column_types import vector_type
from lancewright.model.coverage import measure_coverage
from lancewright.model.vector_details import vector_metric
from lancewright.query.search.columns import choose_metric, find_indexes, find_vector_column
from lancewright.query.search.notes import SearchNote, SearchReason
from lancewright.query.search.plan import FragmentGroup, SegmentGroup, SegmentPart, VectorPlan
from lancewright.query.search.request import RowsPrefilter, SqlPrefilter
from lancewright.query.search.trust import older_than_compaction, trusts_scalar_indexes
from lancewright.table.vector_search import NearestOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lancewright.model.columns import Column
    from lancewright.model.index import IndexState
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.query.search.request import Prefilter, Scope, VectorTuning

# A task of fewer rows is over before a second one has started: 200,000 vectors of 128 floats are searched in 0.1 s.
SCANNED_ROWS_MIN = 100_000


def plan_vector_search(
    snapshot: TableSnapshot, scope: Scope, tuning: VectorTuning, parallelism: int
) -> VectorPlan:
    """Choose at most one index, group its segments, and cut the other fragments into groups."""
    column = find_vector_column(snapshot, scope.column)
    index, notes = _choose_index(snapshot, column, scope, tuning.metric)
    parts: tuple[SegmentPart, ...] = ()
    if index is not None:
        parts, told = _usable_parts(snapshot, index)
        notes += told
    parts = tuple(part for part in parts if may_hold(part.fragments, scope.prefilter))
    claimed = FrozenBitMap(fragment for part in parts for fragment in part.fragments)
    scanned, told = _scanned_fragments(snapshot, index, claimed, scope)
    options = _options(column, index, tuning)
    plan = VectorPlan(
        snapshot=snapshot,
        options=options,
        index=index,
        segment_groups=group_segments(parts, parallelism),
        fragment_groups=group_fragments(snapshot, scanned, parallelism),
        notes=(*notes, *told, *note_filter(snapshot, scope.prefilter)),
        sql=scope.prefilter.sql if isinstance(scope.prefilter, SqlPrefilter) else None,
        use_scalar_index=asks_scalar_indexes(snapshot, scope.prefilter),
        has_graph=index is not None and "hnsw" in index.kind,
        is_quantized=index is not None and _is_estimate(column, index, options.metric),
        strict=scope.strict,
    )
    return rescore(plan) if plan.segment_groups and plan.fragment_groups else plan


def rescore(plan: VectorPlan) -> VectorPlan:
    """The plan with every candidate measured exactly: estimated and exact distances do not rank beside each other."""
    if plan.rescored:
        return plan
    note = SearchNote(
        reason=SearchReason.RESCORED,
        subject=plan.index.name if plan.index is not None else "",
        explanation="its distances are estimates; its candidates are measured again, to rank beside exact ones",
    )
    return replace(plan, options=replace(plan.options, refine_factor=1), notes=(*plan.notes, note))


def choose_named(indexes: Sequence[IndexState], scope: Scope, column: Column) -> tuple[IndexState, ...]:
    """The indexes that may be used: all on the column, or the one that is named."""
    if scope.index is None:
        return tuple(indexes)
    named = tuple(index for index in indexes if index.name == scope.index)
    if not named:
        names = ", ".join(index.name for index in indexes) or "none"
        raise InvalidRequestError(
            f"There is no such index {scope.index!r} on {column.path}",
            f"The indexes it can be searched with: {names}.",
        )
    return named


def note_filter(snapshot: TableSnapshot, prefilter: Prefilter) -> tuple[SearchNote, ...]:
    """Say how the rows that meet the condition are found."""
    if prefilter is None:
        return ()
    if isinstance(prefilter, RowsPrefilter):
        words = f"indexes named the {len(prefilter.rows):,} rows that meet it"
        return (_note(SearchReason.FILTER_ANSWERED, "where", words),)
    if asks_scalar_indexes(snapshot, prefilter):
        return (_note(SearchReason.FILTER_IN_TASKS, "where", "Lance asks an index for it in each task"),)
    words = "no index names all rows that meet it for sure: it is checked on the rows"
    return (_note(SearchReason.FILTER_CHECKED, "where", words),)


def asks_scalar_indexes(snapshot: TableSnapshot, prefilter: Prefilter) -> bool:
    """True when Lance may answer a search's condition from the table's scalar indexes."""
    return (
        isinstance(prefilter, SqlPrefilter) and prefilter.native_indexes and trusts_scalar_indexes(snapshot)
    )


def _choose_index(
    snapshot: TableSnapshot, column: Column, scope: Scope, metric: str | None
) -> tuple[IndexState | None, tuple[SearchNote, ...]]:
    choose_metric(column, metric)
    if not scope.use_index:
        return None, (_note(SearchReason.DISABLED, column.path, "use_index=False: every row is looked at"),)
    indexes = choose_named(find_indexes(snapshot, column, text=False), scope, column)
    notes = tuple(note for note in (_why_not(snapshot, index, metric) for index in indexes) if note)
    refused = {note.subject for note in notes}
    fitting = [index for index in indexes if index.name not in refused]
    if not fitting:
        if scope.fast:
            raise InvalidRequestError(
                f"fast=True searches indexed rows only, and no usable index is on {column.path}",
                "Build one with create_index, or leave fast= out.",
            )
        return None, notes or (
            _note(SearchReason.NO_INDEX, column.path, "no vector index: every row is looked at"),
        )
    # The one that leaves the fewest rows to scan; between equals the name decides.
    best, *others = sorted(
        fitting, key=lambda index: (-measure_coverage(snapshot, index).covered_rows, index.name)
    )
    left = tuple(
        _note(SearchReason.OTHER_INDEX_CHOSEN, index.name, f"{best.name} covers as many rows or more")
        for index in others
    )
    used = _note(SearchReason.USED, best.name, f"{best.kind}, {len(best.segments)} segments")
    return best, (used, *left, *notes)


def _why_not(snapshot: TableSnapshot, index: IndexState, metric: str | None) -> SearchNote | None:
    if not index.segments:
        why = index.skipped[0].explanation if index.skipped else "it has no segment"
        return _note(SearchReason.NO_PLUGIN, index.name, why)
    own = _metric_of(index)
    if own is None and metric is None:
        return _note(
            SearchReason.METRIC_UNKNOWN,
            index.name,
            "an old Lance wrote it and not its metric; pass metric= to use it",
        )
    if own is not None and metric is not None and own != metric:
        return _note(SearchReason.METRIC_DIFFERS, index.name, f"it is built for {own}, asked was {metric}")
    if not measure_coverage(snapshot, index).covered:
        return _note(
            SearchReason.NO_COVERAGE, index.name, "it covers no fragment of this version; rebuild it"
        )
    return None


def _usable_parts(
    snapshot: TableSnapshot, index: IndexState
) -> tuple[tuple[SegmentPart, ...], tuple[SearchNote, ...]]:
    broken = {segment.uuid for segment in older_than_compaction(snapshot, index)}
    known = snapshot.fragments_by_id
    parts = tuple(
        SegmentPart(
            uuid=entry.uuid,
            fragments=tuple(entry.live),
            rows=sum(known[fragment].rows for fragment in entry.live),
        )
        for entry in measure_coverage(snapshot, index).segments
        if entry.live and entry.uuid not in broken
    )
    if not broken:
        return parts, ()
    why = (
        f"{len(broken)} segments are older than a deferred compaction, after which Lance cannot walk their graphs; "
        "their fragments are searched exactly until the index is rebuilt"
    )
    return parts, (_note(SearchReason.NOT_TRUSTED, index.name, why),)


def _scanned_fragments(
    snapshot: TableSnapshot, index: IndexState | None, claimed: FrozenBitMap, scope: Scope
) -> tuple[tuple[int, ...], tuple[SearchNote, ...]]:
    rest = tuple(
        fragment.id
        for fragment in snapshot.fragments
        if fragment.id not in claimed and may_hold((fragment.id,), scope.prefilter)
    )
    if index is None:
        return rest, ()
    # Rows of a segment that cannot be asked are indexed rows: fast= leaves only the others out.
    covered = measure_coverage(snapshot, index).covered
    outside = tuple(fragment for fragment in rest if fragment not in covered)
    if not outside:
        return rest, ()
    rows = sum(snapshot.fragments_by_id[fragment].rows for fragment in outside)
    what = f"{len(outside)} fragments with {rows:,} rows outside the index"
    if scope.fast:
        inside = tuple(fragment for fragment in rest if fragment in covered)
        return inside, (_note(SearchReason.LEFT_OUT, index.name, f"fast=True: {what} are not searched"),)
    return rest, (
        _note(
            SearchReason.NOT_COVERED, index.name, f"{what} are searched exactly ({_gaps(snapshot, index)})"
        ),
    )


def _gaps(snapshot: TableSnapshot, index: IndexState) -> str:
    return ", ".join(sorted({gap.reason.value for gap in measure_coverage(snapshot, index).gaps}))


def _options(column: Column, index: IndexState | None, tuning: VectorTuning) -> NearestOptions:
    own = None if index is None else _metric_of(index)
    return NearestOptions(
        column=column.path,
        metric=own or choose_metric(column, tuning.metric),
        k=tuning.k,
        nprobes=tuning.nprobes,
        refine_factor=tuning.refine_factor,
        ef=tuning.ef,
        lower_bound=tuning.lower_bound,
        upper_bound=tuning.upper_bound,
    )


def _is_estimate(column: Column, index: IndexState, metric: str) -> bool:
    """For cosine, a flat index keeps vectors of length one, which in half precision are not the column's any more."""
    type_ = vector_type(column)
    is_half = type_ is not None and pa.types.is_float16(type_.value_type)
    return not index.kind.endswith("_flat") or (metric == "cosine" and is_half)


def _metric_of(index: IndexState) -> str | None:
    metrics = {vector_metric(segment.details) for segment in index.segments}
    return metrics.pop() if len(metrics) == 1 else None


def may_hold(fragments: Iterable[int], prefilter: Prefilter) -> bool:
    """True when rows of these fragments may meet the condition."""
    if not isinstance(prefilter, RowsPrefilter):
        return True
    return any(fragment in prefilter.rows.fragments for fragment in fragments)


def group_segments(parts: Sequence[SegmentPart], parallelism: int) -> tuple[SegmentGroup, ...]:
    """As many groups as can run at once, the heaviest segments dealt out first, each to the lightest group."""
    groups: list[list[SegmentPart]] = [[] for _ in range(min(parallelism, len(parts)))]
    for part in sorted(parts, key=lambda part: (-part.rows, part.uuid)):
        min(groups, key=lambda group: sum(other.rows for other in group)).append(part)
    return tuple(SegmentGroup(parts=tuple(group)) for group in groups if group)


def group_fragments(
    snapshot: TableSnapshot, fragments: Sequence[int], parallelism: int
) -> tuple[FragmentGroup, ...]:
    """Runs of neighbours, as many as can run at once and are worth a task."""
    weights = [snapshot.fragments_by_id[fragment].rows for fragment in fragments]
    useful = max(1, min(parallelism, sum(weights) // SCANNED_ROWS_MIN))
    return tuple(
        FragmentGroup(
            fragments=tuple(fragments[place] for place in run), rows=sum(weights[place] for place in run)
        )
        for run in cut_contiguous(weights, useful)
    )


def _note(reason: SearchReason, subject: str, explanation: str) -> SearchNote:
    return SearchNote(reason=reason, subject=subject, explanation=explanation)
