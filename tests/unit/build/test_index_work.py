"""What of a build still holds when the table moved on: before its commit, and after one that Lance rebased."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyroaring import FrozenBitMap

from lancewright.build.index_work import (
    IndexWork,
    adopt_segments,
    begin_work,
    find_untrusted,
    is_made_by_other,
    move_work,
    segments_to_remove,
    work_left,
)
from lancewright.build.resolve import resolve_requests
from lancewright.errors import ConflictError
from lancewright.model.computed import ComputedColumn
from lancewright.model.request import IndexRequest
from lancewright.table.conflict import Rewrite
from lancewright.table.history import History
from support.values import built, column, fragment, segment, snapshot

if TYPE_CHECKING:
    from lancewright.model.snapshot import TableSnapshot

NOTHING = History()
# Two neighbours became one, by a compaction that Lance follows for segments built before it.
COMPACTED = History(rewrites=(Rewrite(old=FrozenBitMap([2, 3]), new=FrozenBitMap([9])),))


def table(*ids: int, version: int = 1, rewritten: int | None = None, **changes: object) -> TableSnapshot:
    fragments = [fragment(id_, path="new.lance" if id_ == rewritten else "") for id_ in ids]
    return snapshot(fragments, version=version, **changes)


def no_expressions(sql: str) -> pa.DataType:
    raise AssertionError(sql)


def start(before: TableSnapshot, *groups: tuple[int, ...], kind: str = "btree", **asked: object) -> IndexWork:
    """The work of one index with these groups of fragments built."""
    (entry,) = resolve_requests(
        before, [IndexRequest(column="id", kind=kind, name="ix", **asked)], no_expressions
    )
    return replace(begin_work(entry, before), built=tuple(built(before, group) for group in groups))


def test_an_expression_follows_a_column_that_was_renamed_while_it_was_built() -> None:
    work = start(table(1, 2))
    key = ComputedColumn(path="abs(id)", type=pa.int64(), fields=(("id", 0),))
    spec = replace(work.resolved.spec, keys=(key, column("id", field_id=0)))
    names = {("number",): column("number", field_id=0), ("id",): column("id", field_id=1)}

    moved = move_work(
        replace(work, resolved=replace(work.resolved, spec=spec)),
        table(1, 2, version=2, columns=names),
        NOTHING,
    )

    assert [one.path for one in moved.resolved.spec.key_columns] == ["abs(number)", "number"]


def committed(work: IndexWork, after: TableSnapshot, *coverage: set[int]) -> TableSnapshot:
    """The table with the work's segments in it, covering what Lance left them."""
    shown = [
        replace(one.segment, fragments=FrozenBitMap(live))
        for one, live in zip(work.built, coverage, strict=True)
    ]
    return replace(after, segments=tuple(shown))


def covered(work: IndexWork) -> list[list[int]]:
    return [sorted(one.covered) for one in work.stays]


# --- after a commit ---


def test_nothing_is_left_when_lance_kept_every_fragment() -> None:
    work = start(table(0, 1, 2, 3), (0, 1), (2, 3))
    after = committed(work, table(0, 1, 2, 3, 4, version=3), {0, 1}, {2, 3})

    assert work_left(work, after, NOTHING) is None


def test_a_segment_that_lost_a_fragment_is_swapped_and_the_whole_ones_stay() -> None:
    work = start(table(0, 1, 2, 3), (0, 1), (2, 3))
    after = committed(work, table(0, 1, 2, 3, version=3, rewritten=2), {0, 1}, {3})

    left = work_left(work, after, History(columns_rewritten=True))

    assert left is not None
    assert covered(left) == [[0, 1]]
    assert sorted(left.missing) == [2, 3]
    assert segments_to_remove(left, after) == (after.segments[1],)


def test_a_rewritten_fragment_that_lance_left_in_the_coverage_is_found() -> None:
    work = start(table(0, 1, 2, 3), (0, 1), (2, 3))
    after = committed(work, table(0, 1, 2, 3, version=3, rewritten=2), {0, 1}, {2, 3})

    left = work_left(work, after, History(columns_rewritten=True))

    assert left is not None
    assert covered(left) == [[0, 1]]


def test_a_deferred_compaction_that_lance_followed_costs_nothing() -> None:
    work = start(table(0, 1, 2, 3), (0, 1), (2, 3))
    after = committed(work, table(0, 1, 9, version=3), {0, 1}, {9})

    assert work_left(work, after, COMPACTED) is None


def test_a_deferred_compaction_across_segments_costs_those_segments() -> None:
    work = start(table(0, 1, 2, 3, 4), (0, 1, 2), (3,), (4,))
    after = committed(work, table(0, 1, 9, 4, version=3), {0, 1}, set(), {4})

    left = work_left(work, after, COMPACTED)

    assert left is not None
    assert covered(left) == [[4]]
    assert sorted(left.missing) == [0, 1, 9]


def test_a_deferred_compaction_after_a_rewrite_is_not_trusted() -> None:
    work = start(table(0, 1, 2, 3), (0, 1), (2, 3))
    after = committed(work, table(0, 1, 9, version=3), {0, 1}, {9})

    left = work_left(work, after, replace(COMPACTED, columns_rewritten=True))

    assert left is not None
    assert covered(left) == [[0, 1]]


def test_a_kind_that_cannot_follow_a_deferred_compaction_is_not_left_to_lance() -> None:
    before = table(0, 1, 2, 3, columns={("id",): column("id", type_=pa.string())})
    work = start(before, (0, 1), (2, 3), kind="fm")
    after = table(0, 1, 9, version=3, columns=before.columns)

    assert sorted(find_untrusted(work, after, COMPACTED)) == [2, 3]
    assert sorted(find_untrusted(work, after, NOTHING)) == []


def test_where_nothing_is_known_of_what_happened_no_fragment_that_is_gone_is_trusted() -> None:
    work = start(table(0, 1, 2, 3), (0, 1), (2, 3))
    unknown = History(rows_moved=True, columns_rewritten=True, complete=False)

    assert sorted(find_untrusted(work, table(0, 1, 9, version=3), unknown)) == [2, 3]


# --- before the next attempt ---


def test_a_trimmed_segment_is_not_kept_where_lance_would_mix_old_postings_in() -> None:
    work = start(table(0, 1, 2, 3), (0, 1), (2, 3))

    moved = move_work(work, table(0, 1, 2, 3, version=3, rewritten=2), NOTHING)

    assert [sorted(one.segment.covered) for one in moved.built] == [[0, 1]]
    assert sorted(moved.uncovered) == [2, 3]


def test_the_parts_of_a_lost_segment_are_taken_up_again() -> None:
    before = table(0, 1, 2, 3)
    after = table(0, 1, 2, 3, version=3, rewritten=2)
    work = move_work(start(before, (0, 1, 2, 3)), after, NOTHING)

    work = adopt_segments(work, after, [built(before, group) for group in ((0, 1), (2, 3))], NOTHING)

    assert [sorted(one.segment.covered) for one in work.built] == [[0, 1]]
    assert sorted(work.uncovered) == [2, 3]


def test_what_a_visible_segment_covers_is_not_covered_twice() -> None:
    before = table(0, 1, 2, 3)
    work = start(before, (0, 1), (2, 3))
    after = committed(work, table(0, 1, 2, 3, version=3, rewritten=2), {0, 1}, {3})
    left = work_left(work, after, History(columns_rewritten=True))
    assert left is not None

    adopted = adopt_segments(left, after, [built(before, group) for group in ((0, 1), (3,))], NOTHING)

    assert [sorted(one.segment.covered) for one in adopted.built] == [[3]]
    assert sorted(adopted.uncovered) == [2]


def test_after_a_step_back_a_segment_built_without_deleted_rows_is_not_kept() -> None:
    before = snapshot([fragment(0), fragment(1, deleted=3, stamp="1-7")])
    work = start(before, (0,), (1,))
    unknown = History(rows_moved=True, columns_rewritten=True, complete=False)

    moved = move_work(work, table(0, 1, version=5), unknown)

    assert [sorted(one.segment.covered) for one in moved.built] == [[0]]


@pytest.mark.parametrize(
    ("after", "message"),
    [
        (table(0, 1, columns={}), "dropped or changed"),
        (snapshot(()), "emptied"),
        (table(0, 1, segments=(segment([0]),)), "created an index named 'ix'"),
    ],
)
def test_a_request_that_makes_no_sense_any_more_is_a_conflict(after: TableSnapshot, message: str) -> None:
    work = start(table(0, 1), (0, 1))

    with pytest.raises(ConflictError, match=message):
        move_work(work, after, NOTHING)


def test_an_index_made_by_another_writer_is_enough_only_for_who_asked_so() -> None:
    after = table(0, 1, segments=(segment([0]),))

    assert is_made_by_other(start(table(0, 1), if_not_exists=True), after)
    assert not is_made_by_other(start(table(0, 1)), after)
