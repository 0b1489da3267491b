"""Decides the tasks of a build from a snapshot. Pure: no dataset, no clock, no runner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyroaring import FrozenBitMap

from lancewright.build.groups import cut_contiguous, split_at_gaps
from lancewright.build.merge_policy import SEGMENTS_MAX, MergePolicy, choose_segment_count
from lancewright.build.sizes import (
    estimate_bytes_per_row,
    estimate_plugin_memory,
    estimate_task_memory,
    estimate_value_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lancewright.build.spec import IndexSpec
    from lancewright.kinds.registry import AnyKind
    from lancewright.model.index import Segment
    from lancewright.model.snapshot import Fragment, TableSnapshot
    from lancewright.table.conflict import BuiltSegment

# More tasks than slots: an uneven task does not leave the other slots idle, and a resumed build has less to repeat.
TASKS_PER_SLOT = 2
KEPT_BYTES_PER_TASK_MAX = 1 << 30
ROWS_PER_TASK_MAX = 64_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentGroup:
    """A contiguous run of fragments that becomes one segment."""

    fragments: tuple[int, ...]
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPlan:
    """The tasks of one index: groups to build, and segments an earlier attempt finished."""

    spec: IndexSpec
    wanted: FrozenBitMap
    groups: tuple[FragmentGroup, ...]
    reused: tuple[BuiltSegment, ...]
    merge_policy: MergePolicy
    mergeable: bool
    estimated_bytes: int
    segments_expected: int
    task_memory_bytes: int
    ranged: bool = False
    rewrites: tuple[tuple[Segment, ...], ...] = ()

    @property
    def rows(self) -> int:
        """Rows the tasks read."""
        return sum(group.rows for group in self.groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildPlan:
    """Everything a build is going to do, for one version of a table."""

    table: str
    version: int
    parallelism: int
    indexes: tuple[IndexPlan, ...]

    @property
    def tasks(self) -> int:
        """Build and rewrite tasks, over all indexes: those of one sort share one job."""
        return sum(len(index.groups) + len(index.rewrites) for index in self.indexes)

    @property
    def rows(self) -> int:
        """Rows read, counting a row once for each index."""
        return sum(index.rows for index in self.indexes)

    @property
    def estimated_bytes(self) -> int:
        """Bytes the finished segments are expected to take."""
        return sum(index.estimated_bytes for index in self.indexes)

    @property
    def task_memory_bytes(self) -> int:
        """Memory the largest task is expected to need."""
        return max((index.task_memory_bytes for index in self.indexes), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDemand:
    """What one index needs: the fragments it shall cover, and the segments that cover some of them already.

    ``rewrites`` are groups of segments the table has: each becomes one segment, and no row is read for it.
    ``may_be_nothing``: the index has other segments, so it needs no empty one to be seen.
    """

    spec: IndexSpec
    kind: AnyKind
    wanted: FrozenBitMap
    reused: tuple[BuiltSegment, ...] = ()
    segments: int | None = None
    rewrites: tuple[tuple[Segment, ...], ...] = ()
    may_be_nothing: bool = False
    rows_per_task_min: int = 0


def plan_index(snapshot: TableSnapshot, demand: IndexDemand, parallelism: int) -> IndexPlan:
    """Plan one index over the ``wanted`` fragments, building only what ``reused`` does not cover."""
    spec, kind, wanted, reused = demand.spec, demand.kind, demand.wanted, demand.reused
    have = FrozenBitMap().union(*(candidate.segment.covered for candidate in reused))
    rewrites = tuple(group for group in demand.rewrites if _covered(group).isdisjoint(have))
    left = wanted - have.union(*(_covered(group) for group in rewrites))
    todo = [place for place, fragment in enumerate(snapshot.fragments) if fragment.id in left]
    mergeable = kind.merges(spec.column)
    count = _count(demand, [snapshot.fragments[place] for place in todo], parallelism)
    groups = _cut_groups(snapshot.fragments, todo, count, whole=kind.single_segment) if spec.train else ()
    if not groups and not reused and not demand.may_be_nothing:
        # An untrained or empty index is still one segment: it makes the name, the kind and the options visible.
        groups = (FragmentGroup(fragments=(), rows=0),)
    rows = sum(group.rows for group in groups)
    policy = MergePolicy(segments=demand.segments)
    size = rows * _bytes_per_row(spec)
    ranged = spec.is_ranged
    expected = choose_segment_count(size, policy) if mergeable else len(groups) + len(reused)
    return IndexPlan(
        spec=spec,
        wanted=wanted,
        groups=groups,
        reused=reused,
        merge_policy=policy,
        mergeable=mergeable and not kind.single_segment and not ranged,
        ranged=ranged,
        rewrites=rewrites,
        estimated_bytes=size,
        segments_expected=len(rewrites)
        + (1 + len(reused) if ranged else max(1, min(expected, len(groups) + len(reused)))),
        task_memory_bytes=_largest_task(spec, groups),
    )


def _count(demand: IndexDemand, fragments: Sequence[Fragment], parallelism: int) -> int:
    count = count_tasks(demand, fragments, parallelism)
    if not demand.rows_per_task_min:
        return count
    rows = sum(fragment.rows for fragment in fragments)
    return min(count, max(1, rows // demand.rows_per_task_min))


def _covered(group: tuple[Segment, ...]) -> FrozenBitMap:
    return FrozenBitMap().union(*(segment.covered for segment in group))


def _bytes_per_row(spec: IndexSpec) -> int:
    keys = sum(estimate_bytes_per_row(spec.kind, column.type) for column in spec.key_columns)
    return keys + sum(estimate_value_bytes(column.type) for column in spec.kept)


def _largest_task(spec: IndexSpec, groups: Sequence[FragmentGroup]) -> int:
    if not groups:
        return 0
    if spec.plugin is not None:
        return estimate_plugin_memory(max(group.rows for group in groups), _bytes_per_row(spec))
    return estimate_task_memory(
        spec.kind, spec.column.type, max(group.rows for group in groups), spec.parameters
    )


def count_tasks(demand: IndexDemand, fragments: Sequence[Fragment], parallelism: int) -> int:
    """How many segments are built at first: never more than fragments, and one where the kind cannot be cut."""
    if demand.kind.single_segment or not fragments:
        return min(1, len(fragments))
    mergeable, segments = demand.kind.merges(demand.spec.column), demand.segments
    if not mergeable and segments is not None:
        return min(segments, len(fragments))
    rows = sum(fragment.rows for fragment in fragments)
    # What cannot be merged stays in as many segments as there are tasks, however many slots would take one.
    by_slots = parallelism * TASKS_PER_SLOT if mergeable else min(parallelism, SEGMENTS_MAX)
    rows_max = min(ROWS_PER_TASK_MAX, demand.kind.rows_max)
    if demand.spec.kept:  # they are sorted in memory
        rows_max = min(rows_max, max(1, KEPT_BYTES_PER_TASK_MAX // _bytes_per_row(demand.spec)))
    wanted = max(by_slots, -(-rows // rows_max))
    # As many tasks for each segment: three segments made of four tasks would be one of twice the size of the others.
    parts = segments or 1
    return min(len(fragments), -(-wanted // parts) * parts)


def _cut_groups(
    fragments: Sequence[Fragment], todo: Sequence[int], count: int, *, whole: bool
) -> tuple[FragmentGroup, ...]:
    runs = cut_contiguous([fragments[place].rows for place in todo], count)
    places = [[todo[position] for position in run] for run in runs]
    # What is right only as one segment stays one, even around fragments that others put in between.
    pieces = (
        [tuple(run) for run in places] if whole else [piece for run in places for piece in split_at_gaps(run)]
    )
    return tuple(
        FragmentGroup(
            fragments=tuple(fragments[place].id for place in piece),
            rows=sum(fragments[place].rows for place in piece),
        )
        for piece in pieces
    )
