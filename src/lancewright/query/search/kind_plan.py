"""Plans a ranked search through a kind of our own: which segments go together in a task, what is ranked without them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancewright.errors import InvalidRequestError
from lancewright.query.search.kind_choice import Choice, choose_ranker
from lancewright.query.search.kind_worker import KindSettings, KindWork, rank_part
from lancewright.query.search.notes import SearchNote, SearchReason
from lancewright.query.search.plan import FragmentGroup, SegmentGroup, SegmentPart
from lancewright.query.search.rankers import BUILT_ROWS_MAX, has_scores, too_many_rows
from lancewright.query.search.request import RowsPrefilter, SqlPrefilter
from lancewright.query.search.vector_planner import (
    asks_scalar_indexes,
    group_fragments,
    group_segments,
    may_hold,
    note_filter,
)
from lancewright.runtime.task import Job, Task
from lancewright.table.vector_search import RowFilter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lancewright.kinds.segment.judging import KindSegment
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.query.search.kind_request import KindRequest
    from lancewright.query.search.request import Prefilter
    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KindPlan:
    """How rows are ranked on one version of a table."""

    snapshot: TableSnapshot
    choice: Choice
    k: int
    segment_groups: tuple[SegmentGroup, ...]
    fragment_groups: tuple[FragmentGroup, ...]
    notes: tuple[SearchNote, ...]
    prefilter: Prefilter = None
    strict: bool = False

    @property
    def descending(self) -> bool:
        """True when the greatest score is best."""
        return self.choice.probes[0].descending

    @property
    def needs_statistics(self) -> bool:
        """True when all parts are asked for statistics first."""
        return any(probe.needs_statistics for probe in self.choice.probes)


def plan_kind_search(snapshot: TableSnapshot, request: KindRequest, parallelism: int) -> KindPlan:
    """Choose what ranks, group its segments, and cut the other fragments into groups."""
    scope, choice = request.scope, choose_ranker(snapshot, request)
    if scope.fast and not choice.segments:
        raise InvalidRequestError(
            "fast=True searches indexed rows only, and no usable index ranks by this",
            "Build one with create_index, or leave fast= out.",
        )
    asked = tuple(one for one in choice.segments if may_hold(one.covered, scope.prefilter))
    covered = choice.covered
    outside = tuple(
        fragment.id
        for fragment in snapshot.fragments
        if fragment.id not in covered and may_hold((fragment.id,), scope.prefilter)
    )
    left = tuple(fragment for fragment in outside if scope.fast and fragment not in choice.claimed)
    ranked = tuple(fragment for fragment in outside if fragment not in left)
    _refuse_too_many(snapshot, choice, ranked)
    return KindPlan(
        snapshot=snapshot,
        choice=choice,
        k=request.k,
        segment_groups=group_segments(segment_parts(snapshot, asked), parallelism),
        fragment_groups=group_fragments(snapshot, ranked, parallelism) if ranked else (),
        notes=(
            *choice.notes,
            *_told(snapshot, choice, left, SearchReason.LEFT_OUT),
            *_told(snapshot, choice, ranked, SearchReason.NOT_COVERED),
            *note_filter(snapshot, scope.prefilter),
        ),
        prefilter=scope.prefilter,
        strict=scope.strict,
    )


def segment_parts(snapshot: TableSnapshot, segments: Iterable[KindSegment]) -> tuple[SegmentPart, ...]:
    """Segments that answer for any fragment, as parts to be grouped."""
    rows = snapshot.fragments_by_id
    return tuple(
        SegmentPart(
            uuid=one.segment.uuid,
            fragments=tuple(one.covered),
            rows=sum(rows[fragment].rows for fragment in one.covered),
        )
        for one in segments
        if one.covered
    )


def kind_job(table: TableRef, plan: KindPlan, statistics: tuple[tuple[bytes, ...], ...] | None = None) -> Job:
    """What all tasks share."""
    choice, snapshot = plan.choice, plan.snapshot
    settings = KindSettings(
        table=table.pinned(snapshot.version),
        plugin=choice.plugin,
        spec=choice.spec,
        columns=choice.columns,
        probes=choice.probes,
        k=plan.k,
        stable_row_ids=snapshot.stable_row_ids,
        moved=bool(snapshot.deferred),
        strict=plan.strict,
        statistics=statistics,
    )
    return Job(worker=rank_part, settings=settings)


def kind_tasks(plan: KindPlan) -> Iterator[Task]:
    """One task for each group."""
    segments = {one.segment.uuid: one for one in plan.choice.segments}
    works: list[tuple[SegmentGroup | FragmentGroup, tuple[KindSegment, ...]]] = [
        *((group, tuple(segments[uuid] for uuid in group.uuids)) for group in plan.segment_groups),
        *((group, ()) for group in plan.fragment_groups),
    ]
    for number, (group, asked) in enumerate(works):
        yield Task(
            id=f"ranked-{number}",
            payload=KindWork(
                segments=asked,
                fragments=() if asked else group.fragments,
                filter=_row_filter(plan, group.fragments),
            ),
            label="search segments" if asked else "search fragments",
            fragments=group.fragments,
            rows=group.rows,
        )


def _row_filter(plan: KindPlan, fragments: tuple[int, ...]) -> RowFilter:
    prefilter = plan.prefilter
    return RowFilter(
        sql=prefilter.sql if isinstance(prefilter, SqlPrefilter) else None,
        allowed=prefilter.rows.only(fragments) if isinstance(prefilter, RowsPrefilter) else None,
        use_scalar_index=asks_scalar_indexes(plan.snapshot, prefilter),
    )


def _refuse_too_many(snapshot: TableSnapshot, choice: Choice, fragments: tuple[int, ...]) -> None:
    """A kind that cannot rank rows one by one has a segment built over them for each search: up to so many."""
    rows = sum(snapshot.fragments_by_id[fragment].rows for fragment in fragments)
    if rows > BUILT_ROWS_MAX and not all(has_scores(choice.kind, probe) for probe in choice.probes):
        raise too_many_rows(choice.kind.name, BUILT_ROWS_MAX)


def _told(
    snapshot: TableSnapshot, choice: Choice, fragments: tuple[int, ...], reason: SearchReason
) -> tuple[SearchNote, ...]:
    if not fragments or not choice.segments:
        return ()
    rows = sum(snapshot.fragments_by_id[fragment].rows for fragment in fragments)
    what = f"{len(fragments)} fragments with {rows:,} rows outside the index"
    if reason is SearchReason.LEFT_OUT:
        words = f"fast=True: {what} are not searched"
    elif all(has_scores(choice.kind, probe) for probe in choice.probes):
        words = f"{what} are ranked one by one"
    else:
        words = f"{what} are indexed in memory for this search"
    return (SearchNote(reason=reason, subject=choice.name or "", explanation=words),)
