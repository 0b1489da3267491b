"""Plans a lookup of many keys: which index is asked with them, which fragments are scanned. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyroaring import FrozenBitMap

from lancewright.kinds.plugins import PLUGINS
from lancewright.query.kind_index import KindIndex, is_kind_index, judge_kind_index
from lancewright.query.lookup.worker import LookupSettings, LookupWork, look_up_part
from lancewright.query.search.kind_plan import segment_parts
from lancewright.query.search.notes import SearchNote, SearchReason
from lancewright.query.search.request import RowsPrefilter
from lancewright.query.search.vector_planner import group_fragments, group_segments
from lancewright.runtime.task import Job, Task
from lancewright.table.vector_search import RowFilter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lancewright.model.columns import Column
    from lancewright.model.row_set import RowSet
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.query.lookup.matching import KeySet
    from lancewright.query.prefilter import AnsweredFilter
    from lancewright.query.search.plan import FragmentGroup, SegmentGroup
    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LookupPlan:
    """How keys are looked up on one version of a table. ``named``: the only rows that may equal one, where indexes of Lance's say so.

    ``asked`` is what these said, also when they could not.
    """

    snapshot: TableSnapshot
    columns: tuple[Column, ...]
    index: KindIndex | None
    segment_groups: tuple[SegmentGroup, ...]
    fragment_groups: tuple[FragmentGroup, ...]
    notes: tuple[SearchNote, ...]
    unusable: tuple[SearchNote, ...] = ()
    named: RowSet | None = None
    asked: AnsweredFilter | None = None


def plan_lookup(
    snapshot: TableSnapshot, columns: tuple[Column, ...], name: str | None, parallelism: int
) -> LookupPlan:
    """Choose at most one index over just these columns, the one that covers most."""
    usable, unusable = _judge(snapshot, columns, name)
    rows = snapshot.fragments_by_id
    usable.sort(key=lambda one: (-sum(rows[fragment].rows for fragment in one.covered), one.name))
    best = usable[0] if usable else None
    covered = FrozenBitMap() if best is None else best.covered
    outside = tuple(fragment.id for fragment in snapshot.fragments if fragment.id not in covered)
    segments = () if best is None else best.segments
    return LookupPlan(
        snapshot=snapshot,
        columns=columns,
        index=best,
        segment_groups=group_segments(segment_parts(snapshot, segments), parallelism),
        fragment_groups=group_fragments(snapshot, outside, parallelism) if outside else (),
        notes=(_used(best, columns), *_scanned(snapshot, outside, best), *unusable),
        unusable=unusable,
    )


def restrict_lookup(plan: LookupPlan, asked: AnsweredFilter, parallelism: int) -> LookupPlan:
    """The plan of a lookup without an index of its own, where only the rows that other indexes named are to be read."""
    plan = replace(plan, asked=asked)
    if not isinstance(asked.prefilter, RowsPrefilter):
        return plan
    named = asked.prefilter.rows
    fragments = tuple(named.fragments)
    column = plan.columns[0].path
    note = SearchNote(
        reason=SearchReason.FILTER_ANSWERED,
        subject=column,
        explanation=f"indexes named the {len(named):,} rows with one of the keys",
    )
    return replace(
        plan,
        fragment_groups=group_fragments(plan.snapshot, fragments, parallelism) if fragments else (),
        notes=(note, *plan.unusable),
        named=named,
    )


def lookup_job(table: TableRef, plan: LookupPlan, keys: KeySet, *, strict: bool) -> Job:
    """What all tasks share. The keys go with it: to each task once."""
    snapshot, index = plan.snapshot, plan.index
    names = [column.path for column in plan.columns]
    settings = LookupSettings(
        table=table.pinned(snapshot.version),
        columns=plan.columns,
        keys=keys,
        stable_row_ids=snapshot.stable_row_ids,
        moved=bool(snapshot.deferred),
        strict=strict,
        plugin=None if index is None else PLUGINS.ref(index.kind.name),
        spec=None if index is None else index.spec,
        order=() if index is None else tuple(names.index(path) for path in index.columns),
    )
    return Job(worker=look_up_part, settings=settings)


def lookup_tasks(plan: LookupPlan) -> Iterator[Task]:
    """One task for each group of segments, and of fragments."""
    segments = {} if plan.index is None else {one.segment.uuid: one for one in plan.index.segments}
    works: list[tuple[SegmentGroup | FragmentGroup, LookupWork]] = [
        *(
            (group, LookupWork(segments=tuple(segments[uuid] for uuid in group.uuids), fragments=()))
            for group in plan.segment_groups
        ),
        *(
            (group, LookupWork(segments=(), fragments=group.fragments, rows=_share(plan, group)))
            for group in plan.fragment_groups
        ),
    ]
    for number, (group, work) in enumerate(works):
        yield Task(
            id=f"lookup-{number}",
            payload=work,
            label="ask segments" if work.segments else "scan fragments",
            fragments=group.fragments,
            rows=group.rows,
        )


def _judge(
    snapshot: TableSnapshot, columns: tuple[Column, ...], name: str | None
) -> tuple[list[KindIndex], tuple[SearchNote, ...]]:
    """The indexes over just these columns that look up many keys, and why others cannot."""
    live = FrozenBitMap(fragment.id for fragment in snapshot.fragments)
    wanted = {column.path for column in columns}
    usable: list[KindIndex] = []
    unusable: list[SearchNote] = []
    for index in snapshot.indexes:
        is_meant = name is None or index.name == name
        if not is_meant or not is_kind_index(index) or index.keys or set(index.columns) != wanted:
            continue
        judged = judge_kind_index(snapshot, index, live)
        if isinstance(judged, KindIndex):
            usable += [judged] if judged.kind.looks_up_many else []
            continue
        reason, explanation = judged
        unusable.append(
            SearchNote(reason=SearchReason(reason.value), subject=index.name, explanation=explanation)
        )
    return usable, tuple(unusable)


def _share(plan: LookupPlan, group: FragmentGroup) -> RowFilter:
    return RowFilter(allowed=None if plan.named is None else plan.named.only(group.fragments))


def _used(index: KindIndex | None, columns: tuple[Column, ...]) -> SearchNote:
    names = ", ".join(column.path for column in columns)
    if index is None:
        words = "no index of kind key or composite is over just these columns: every row is looked at"
        return SearchNote(reason=SearchReason.NO_INDEX, subject=names, explanation=words)
    words = f"{index.kind.name}, {len(index.segments)} segments, one probe each"
    return SearchNote(reason=SearchReason.USED, subject=index.name, explanation=words)


def _scanned(
    snapshot: TableSnapshot, fragments: tuple[int, ...], index: KindIndex | None
) -> tuple[SearchNote, ...]:
    if not fragments or index is None:
        return ()
    rows = sum(snapshot.fragments_by_id[fragment].rows for fragment in fragments)
    words = f"{len(fragments)} fragments with {rows:,} rows outside the index are scanned"
    return (SearchNote(reason=SearchReason.NOT_COVERED, subject=index.name, explanation=words),)
