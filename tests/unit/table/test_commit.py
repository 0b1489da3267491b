"""A change of segments is checked, and then visible all at once or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewright.errors import ConflictError, InvalidRequestError, LancewrightError, NotFoundError
from lancewright.table.commit import IndexChange, commit_segments, validate_change
from lancewright.table.lance_compat import segment_from_lance
from lancewright.table.location import table_ref
from lancewright.table.snapshot_reader import read_snapshot
from support.values import fragment, segment, snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lancewright.model.index import Segment
    from lancewright.table.location import TableRef

TABLE = snapshot([fragment(id_) for id_ in range(4)])


# --- checking ---


@given(
    st.lists(st.sets(st.integers(0, 3)), max_size=4),
    st.lists(st.sets(st.integers(0, 3)), max_size=4),
    st.data(),
)
def test_a_change_is_accepted_exactly_when_it_leaves_no_fragment_covered_twice(
    there: list[set[int]], added: list[set[int]], data: st.DataObject
) -> None:
    old = [segment(cover) for cover in there]
    new = [segment(cover) for cover in added]
    removed = data.draw(st.lists(st.sampled_from(old), unique_by=id)) if old else []
    table = snapshot(TABLE.fragments, old)
    left = [cover for entry, cover in zip(old, there, strict=True) if entry not in removed]

    claims = [id_ for cover in [*left, *added] for id_ in cover]
    is_valid = not new or len(claims) == len(set(claims))

    change = IndexChange(add=tuple(new), remove=tuple(removed))
    if is_valid:
        validate_change(table, change)
    else:
        with pytest.raises(InvalidRequestError, match="twice"):
            validate_change(table, change)


def test_indexes_of_different_names_may_cover_the_same_fragments() -> None:
    validate_change(TABLE, IndexChange(add=(segment({0, 1}, "a"), segment({0, 1}, "b"))))


def test_removing_needs_no_checks() -> None:
    validate_change(TABLE, IndexChange(remove=(segment({0, 99}, field_ids=(77,)),)))


def test_a_fragment_that_is_gone_is_a_conflict_that_names_it() -> None:
    with pytest.raises(ConflictError, match=r"\[7, 9\]") as caught:
        validate_change(TABLE, IndexChange(add=(segment({0, 7}), segment({9}))))

    assert "'ix'" in caught.value.problem


def test_a_column_that_is_gone_is_a_conflict() -> None:
    with pytest.raises(ConflictError, match="column"):
        validate_change(TABLE, IndexChange(add=(segment({0}, field_ids=(0, 77)),)))


# --- committing ---


@pytest.fixture
def table(tmp_path: Path) -> TableRef:
    """Four fragments of ten rows with the columns key, value and other."""
    rows = pa.table({"key": range(40), "value": range(40), "other": range(40)})
    return table_ref(lance.write_dataset(rows, tmp_path / "t", max_rows_per_file=10).uri)


def _build(table: TableRef, column: str, groups: Sequence[list[int]]) -> tuple[Segment, ...]:
    dataset = lance.dataset(table.uri)
    return tuple(
        segment_from_lance(
            dataset.create_index_uncommitted(
                column, "BTREE", name=f"{column}_idx", replace=True, fragment_ids=group
            )
        )
        for group in groups
    )


def _state(table: TableRef) -> tuple[int, set[str]]:
    now = read_snapshot(table)
    return now.version, {entry.uuid for entry in now.segments}


def _counts(table: TableRef, predicate: str) -> tuple[int, int]:
    dataset = lance.dataset(table.uri)
    plain = dataset.scanner(filter=predicate, use_scalar_index=False).to_table().num_rows
    return plain, dataset.scanner(filter=predicate).to_table().num_rows


def test_segments_of_several_indexes_become_visible_in_one_version(table: TableRef) -> None:
    before = read_snapshot(table)
    added = (*_build(table, "key", [[0, 1], [2, 3]]), *_build(table, "value", [[0, 1, 2, 3]]))

    version = commit_segments(table, before, IndexChange(add=added))

    assert version == before.version + 1
    assert _state(table) == (version, {entry.uuid for entry in added})
    assert _counts(table, "key = 17 OR value > 35") == (5, 5)


def test_whole_sets_of_several_names_are_replaced_in_one_version(table: TableRef) -> None:
    old = (*_build(table, "key", [[0], [1, 2]]), *_build(table, "value", [[0, 1, 2, 3]]))
    commit_segments(table, read_snapshot(table), IndexChange(add=old))
    before = read_snapshot(table)
    new = (*_build(table, "key", [[0, 1], [2, 3]]), *_build(table, "value", [[0], [1, 2, 3]]))

    version = commit_segments(table, before, IndexChange(add=new, remove=before.segments))

    assert _state(table) == (before.version + 1, {entry.uuid for entry in new})
    assert _state(table.pinned(version - 1)) == (before.version, {entry.uuid for entry in old})
    assert _counts(table, "key IN (3, 17, 33) AND value < 30") == (2, 2)


def test_segments_are_removed_without_others_taking_their_place(table: TableRef) -> None:
    added = (*_build(table, "key", [[0, 1, 2, 3]]), *_build(table, "value", [[0, 1, 2, 3]]))
    commit_segments(table, read_snapshot(table), IndexChange(add=added))
    before = read_snapshot(table)

    commit_segments(table, before, IndexChange(remove=before.segments_named("key_idx")))

    assert [index.name for index in read_snapshot(table).indexes] == ["value_idx"]


def test_an_index_of_another_writer_under_the_same_name_is_a_conflict_and_changes_nothing(
    table: TableRef,
) -> None:
    before = read_snapshot(table)
    added = (*_build(table, "key", [[0, 1]]), *_build(table, "value", [[0, 1]]))
    lance.dataset(table.uri).create_scalar_index("key", "BTREE", name="key_idx")
    state = _state(table)

    with pytest.raises(ConflictError, match=f"after version {before.version}") as caught:
        commit_segments(table, before, IndexChange(add=added))

    assert caught.value.__cause__ is not None
    assert _state(table) == state  # the other name was not committed either


def test_a_compaction_of_covered_fragments_is_a_conflict_and_changes_nothing(table: TableRef) -> None:
    before = read_snapshot(table)
    added = _build(table, "key", [[0, 1], [2, 3]])
    lance.dataset(table.uri).optimize.compact_files(target_rows_per_fragment=20)
    state = _state(table)

    with pytest.raises(ConflictError):
        commit_segments(table, before, IndexChange(add=added))

    assert _state(table) == state


def test_replacing_segments_that_another_writer_replaced_is_a_conflict(table: TableRef) -> None:
    commit_segments(table, read_snapshot(table), IndexChange(add=_build(table, "key", [[0, 1, 2, 3]])))
    before = read_snapshot(table)
    ours, theirs = (_build(table, "key", [[0, 1, 2, 3]]) for _ in range(2))
    commit_segments(table, before, IndexChange(add=theirs, remove=before.segments))

    with pytest.raises(ConflictError):
        commit_segments(table, before, IndexChange(add=ours, remove=before.segments))

    assert _state(table)[1] == {entry.uuid for entry in theirs}


def test_appends_and_deletes_of_others_are_no_conflict(table: TableRef) -> None:
    before = read_snapshot(table)
    added = _build(table, "key", [[0, 1], [2, 3]])
    lance.write_dataset(
        pa.table({"key": [5, 500], "value": [1, 2], "other": [1, 2]}), table.uri, mode="append"
    )
    lance.dataset(table.uri).delete("key = 17")

    version = commit_segments(table, before, IndexChange(add=added))

    after = read_snapshot(table)
    assert (after.version, after.rows) == (version, 41)
    assert version == before.version + 3
    assert _counts(table, "key IN (5, 17, 500)") == (3, 3)


def test_a_fragment_whose_column_was_rewritten_meanwhile_is_taken_out_of_the_coverage(
    table: TableRef,
) -> None:
    before = read_snapshot(table)
    added = _build(table, "value", [[0, 1], [2, 3]])
    merge = (
        lance.dataset(table.uri).merge_insert("key").when_matched_update_all().write_mode("rewrite_columns")
    )
    merge.execute(pa.table({"key": range(10, 20), "value": [-1] * 10}))

    commit_segments(table, before, IndexChange(add=added))

    assert {id_ for entry in read_snapshot(table).segments for id_ in entry.covered} == {0, 2, 3}
    assert _counts(table, "value = -1") == (10, 10)


def test_an_invalid_change_is_refused_before_anything_is_opened() -> None:
    nowhere = table_ref("/nowhere/at/all")

    with pytest.raises(InvalidRequestError):
        commit_segments(nowhere, TABLE, IndexChange(add=(segment({0}), segment({0}))))


def test_a_table_that_is_gone_is_not_found() -> None:
    with pytest.raises(NotFoundError):
        commit_segments(table_ref("/nowhere/at/all"), TABLE, IndexChange(add=(segment({0}),)))


def test_segments_are_committed_on_the_branch_of_the_table(table: TableRef) -> None:
    lance.dataset(table.uri).create_branch("dev")
    branch = table_ref(table.uri, branch="dev")
    before = read_snapshot(branch)
    index = lance.dataset(branch.root_uri).create_index_uncommitted(
        "key", "BTREE", name="key_idx", fragment_ids=[0, 1, 2, 3]
    )

    commit_segments(branch, before, IndexChange(add=(segment_from_lance(index),)))

    assert [entry.name for entry in read_snapshot(branch).indexes] == ["key_idx"]
    assert read_snapshot(table).indexes == ()
    scanner = lance.dataset(branch.root_uri).scanner(filter="key = 17")
    assert "ScalarIndexQuery" in scanner.explain_plan()
    assert scanner.to_table()["value"].to_pylist() == [17]


def test_a_pinned_reference_commits_to_the_latest_version(table: TableRef) -> None:
    before = read_snapshot(table)
    lance.dataset(table.uri).delete("key = 1")

    version = commit_segments(
        table.pinned(before.version), before, IndexChange(add=_build(table, "key", [[0, 1, 2, 3]]))
    )

    assert version == before.version + 2
    assert _counts(table, "key < 3") == (2, 2)


def test_a_version_that_is_not_there_arrives_as_an_error_of_ours(table: TableRef) -> None:
    future = snapshot(read_snapshot(table).fragments, version=999)

    with pytest.raises(LancewrightError) as caught:
        commit_segments(table, future, IndexChange(add=_build(table, "key", [[0]])))

    assert caught.value.__cause__ is not None
    assert read_snapshot(table).indexes == ()
