"""The tasks of a build: which fragments each reads, and how many segments come of it."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import FrozenBitMap

from lancewright.build.merge_policy import SEGMENTS_MAX
from lancewright.build.plan import (
    ROWS_PER_TASK_MAX,
    TASKS_PER_SLOT,
    BuildPlan,
    FragmentGroup,
    IndexDemand,
    plan_index,
)
from lancewright.build.spec import IndexSpec
from lancewright.kinds.registry import find_kind
from support.values import built, column, fragment, snapshot

if TYPE_CHECKING:
    from lancewright.build.plan import IndexPlan
    from lancewright.kinds.lance_native.definition import NativeKind
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.table.conflict import BuiltSegment

MERGEABLE = find_kind("btree")
UNMERGEABLE = replace(MERGEABLE, mergeable=False)
WHOLE = replace(MERGEABLE, mergeable=False, single_segment=True)
KINDS = st.sampled_from([MERGEABLE, UNMERGEABLE, WHOLE])
SEGMENTS = st.none() | st.integers(1, 12)
SLOTS = st.integers(1, 16)


def _spec(*, train: bool = True) -> IndexSpec:
    return IndexSpec(name="ix", kind="btree", column=column("id"), parameters_json="{}", train=train)


def _plan(
    table: TableSnapshot,
    kind: NativeKind = MERGEABLE,
    *,
    wanted: set[int] | None = None,
    reused: tuple[BuiltSegment, ...] = (),
    segments: int | None = None,
    slots: int = 4,
    train: bool = True,
) -> IndexPlan:
    asked = FrozenBitMap(table.fragments_by_id if wanted is None else wanted)
    demand = IndexDemand(spec=_spec(train=train), kind=kind, wanted=asked, reused=reused, segments=segments)
    return plan_index(table, demand, slots)


def _table(*rows: int) -> TableSnapshot:
    return snapshot([fragment(id_, count) for id_, count in enumerate(rows)])


TABLES = st.lists(st.integers(0, 1000), min_size=1, max_size=25).map(lambda rows: _table(*rows))


@st.composite
def _resumed(draw: st.DrawFn) -> tuple[TableSnapshot, set[int], tuple[BuiltSegment, ...]]:
    """A table, the fragments wanted of it, and segments over some of these that an earlier attempt finished."""
    table = draw(TABLES)
    ids = sorted(table.fragments_by_id)
    wanted = draw(st.sets(st.sampled_from(ids), min_size=1))
    left, reused = set(wanted), []
    for _ in range(draw(st.integers(0, 3))):
        if left:
            cover = draw(st.sets(st.sampled_from(sorted(left)), min_size=1))
            left -= cover
            reused.append(built(table, cover))
    return table, wanted, tuple(reused)


@given(_resumed(), KINDS, SEGMENTS, SLOTS)
def test_the_groups_hold_what_is_wanted_and_not_finished_once_and_in_order(
    resumed: tuple[TableSnapshot, set[int], tuple[BuiltSegment, ...]],
    kind: NativeKind,
    segments: int | None,
    slots: int,
) -> None:
    table, wanted, reused = resumed

    plan = _plan(table, kind, wanted=wanted, reused=reused, segments=segments, slots=slots)

    finished = {id_ for entry in reused for id_ in entry.segment.covered}
    assert [id_ for group in plan.groups for id_ in group.fragments] == sorted(wanted - finished)
    assert plan.reused == reused
    assert plan.rows == sum(table.fragments_by_id[id_].rows for id_ in wanted - finished)
    for group in plan.groups:
        assert group.rows == sum(table.fragments_by_id[id_].rows for id_ in group.fragments)


@given(_resumed(), st.sampled_from([MERGEABLE, UNMERGEABLE]), SEGMENTS, SLOTS)
def test_the_fragments_of_a_group_are_neighbours_in_the_table(
    resumed: tuple[TableSnapshot, set[int], tuple[BuiltSegment, ...]],
    kind: NativeKind,
    segments: int | None,
    slots: int,
) -> None:
    table, wanted, reused = resumed

    plan = _plan(table, kind, wanted=wanted, reused=reused, segments=segments, slots=slots)

    for group in plan.groups:
        assert all(right == left + 1 for left, right in pairwise(group.fragments))


@given(TABLES, KINDS, SEGMENTS, SLOTS)
def test_there_are_never_more_segments_than_fragments(
    table: TableSnapshot, kind: NativeKind, segments: int | None, slots: int
) -> None:
    plan = _plan(table, kind, segments=segments, slots=slots)

    assert 1 <= len(plan.groups) <= len(table.fragments)
    assert 1 <= plan.segments_expected <= len(plan.groups)


@given(_resumed(), SLOTS)
def test_a_kind_that_cannot_be_cut_is_one_task_even_around_fragments_of_others(
    resumed: tuple[TableSnapshot, set[int], tuple[BuiltSegment, ...]], slots: int
) -> None:
    table, wanted, _ = resumed

    plan = _plan(table, WHOLE, wanted=wanted, slots=slots)

    assert len(plan.groups) == 1
    assert not plan.mergeable
    assert plan.segments_expected == 1


@given(TABLES, st.integers(1, 12), SLOTS)
def test_a_kind_that_cannot_be_merged_is_built_in_as_many_segments_as_asked(
    table: TableSnapshot, segments: int, slots: int
) -> None:
    plan = _plan(table, UNMERGEABLE, segments=segments, slots=slots)

    assert len(plan.groups) == plan.segments_expected == min(segments, len(table.fragments))


def test_a_kind_that_cannot_be_merged_does_not_get_a_segment_for_each_slot_of_a_large_cluster() -> None:
    table = _table(*[1_000] * 5_000)

    assert len(_plan(table, UNMERGEABLE, slots=3_000).groups) == SEGMENTS_MAX
    assert len(_plan(table, UNMERGEABLE, slots=3_000, segments=200).groups) == 200
    assert len(_plan(table, UNMERGEABLE, slots=5).groups) == 5


def test_a_kind_may_be_mergeable_on_some_columns_only() -> None:
    choosy = replace(MERGEABLE, unmergeable_on=lambda column: column.names == ("id",))
    table = _table(*[10] * 8)

    plan = _plan(table, choosy, slots=4)

    assert not plan.mergeable
    assert len(plan.groups) == plan.segments_expected == 4


@given(TABLES, st.integers(1, 12), SLOTS)
def test_a_kind_that_can_be_merged_is_built_by_all_slots_and_merged_to_what_was_asked(
    table: TableSnapshot, segments: int, slots: int
) -> None:
    plan = _plan(table, MERGEABLE, segments=segments, slots=slots)

    tasks_per_segment = -(-slots * TASKS_PER_SLOT // segments)
    assert len(plan.groups) == min(len(table.fragments), segments * tasks_per_segment)
    assert plan.segments_expected == min(len(plan.groups), segments)
    assert plan.merge_policy.segments == segments
    assert plan.mergeable


@given(TABLES, st.sampled_from([MERGEABLE, UNMERGEABLE]), SEGMENTS, SLOTS)
def test_no_task_reads_more_than_the_average_and_one_fragment(
    table: TableSnapshot, kind: NativeKind, segments: int | None, slots: int
) -> None:
    plan = _plan(table, kind, segments=segments, slots=slots)

    bound = table.rows / len(plan.groups) + max(entry.rows for entry in table.fragments)
    assert max(group.rows for group in plan.groups) <= bound


def test_a_deleted_row_weighs_nothing() -> None:
    table = snapshot([fragment(0, 10, deleted=990), fragment(1, 10), fragment(2, 10), fragment(3, 10)])

    plan = _plan(table, UNMERGEABLE, segments=2)

    assert [group.fragments for group in plan.groups] == [(0, 1), (2, 3)]


def test_a_huge_table_gets_more_tasks_than_slots_ask_for() -> None:
    plan = _plan(_table(*[ROWS_PER_TASK_MAX // 2] * 100), slots=1)

    assert len(plan.groups) == 50
    assert max(group.rows for group in plan.groups) <= ROWS_PER_TASK_MAX


def test_a_build_that_was_finished_has_nothing_left_to_do() -> None:
    table = _table(10, 10)

    plan = _plan(table, reused=(built(table, [0, 1]),))

    assert plan.groups == ()
    assert (plan.rows, plan.task_memory_bytes, plan.segments_expected) == (0, 0, 1)


@pytest.mark.parametrize("kind", [MERGEABLE, UNMERGEABLE, WHOLE])
def test_an_untrained_index_is_one_empty_segment(kind: NativeKind) -> None:
    plan = _plan(_table(10, 10), kind, train=False)

    assert plan.groups == (FragmentGroup(fragments=(), rows=0),)
    assert plan.segments_expected == 1


def test_an_index_of_nothing_is_one_empty_segment() -> None:
    assert _plan(snapshot([]), wanted=set()).groups == (FragmentGroup(fragments=(), rows=0),)


def test_wanted_fragments_that_are_gone_are_not_planned() -> None:
    plan = _plan(_table(10, 10), wanted={0, 1, 77})

    assert [id_ for group in plan.groups for id_ in group.fragments] == [0, 1]


def test_a_plan_adds_up_its_indexes() -> None:
    table = _table(*[1000] * 4)
    one, other = _plan(table), _plan(table, WHOLE)

    plan = BuildPlan(table="t", version=1, parallelism=4, indexes=(one, other))

    assert plan.tasks == len(one.groups) + 1
    assert plan.rows == 8000
    assert plan.estimated_bytes == one.estimated_bytes + other.estimated_bytes
    assert plan.task_memory_bytes == max(one.task_memory_bytes, other.task_memory_bytes) > 0
    assert BuildPlan(table="t", version=1, parallelism=4, indexes=()).task_memory_bytes == 0


def test_the_estimate_grows_with_the_rows_and_the_width_of_the_column() -> None:
    narrow, wide = (
        plan_index(
            _table(1000, 1000),
            IndexDemand(
                spec=replace(_spec(), column=column("id", type_=type_)),
                kind=MERGEABLE,
                wanted=FrozenBitMap([0, 1]),
            ),
            1,
        )
        for type_ in (pa.int8(), pa.string())
    )

    assert 0 < narrow.estimated_bytes < wide.estimated_bytes


def test_ten_thousand_fragments_are_planned_for_thousands_of_slots_in_a_moment() -> None:
    table = _table(*[100_000] * 10_000)

    started = time.process_time()
    plan = _plan(table, slots=3_000)
    seconds = time.process_time() - started

    assert len(plan.groups) == 6_000
    assert seconds < 1.0
