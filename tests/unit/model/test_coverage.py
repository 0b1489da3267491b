"""Which fragments an index answers for, and why not for the others, against a count by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewright.model.coverage import GapReason, measure_coverage
from lancewright.model.index import SkipReason
from lancewright.model.snapshot import REWRITTEN, DataFile
from lancewright.table.location import table_ref
from lancewright.table.snapshot_reader import read_snapshot
from support.values import fragment, segment, snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from lancewright.model.coverage import Coverage
    from lancewright.model.index import IndexState, Segment
    from lancewright.model.snapshot import Fragment, TableSnapshot

FRAGMENT_IDS = range(12)
REWRITTEN_FILES = (
    DataFile(path="first.lance", field_ids=(REWRITTEN, 1)),
    DataFile(path="second.lance", field_ids=(0,)),
)


@st.composite
def _fragments(draw: st.DrawFn) -> list[Fragment]:
    fragments = []
    for id_ in draw(st.sets(st.sampled_from(FRAGMENT_IDS))):
        made = fragment(id_, draw(st.integers(0, 50)), deleted=draw(st.integers(0, 5)))
        fragments.append(replace(made, files=REWRITTEN_FILES) if draw(st.booleans()) else made)
    return sorted(fragments, key=lambda entry: entry.id)


@st.composite
def _segments(draw: st.DrawFn) -> list[Segment]:
    """Segments of one name: usable ones, ones of an unknown type, ones that do not say what they cover."""
    return [
        segment(
            draw(st.none() | st.sets(st.sampled_from(FRAGMENT_IDS))),
            type_url=draw(st.sampled_from(["/lance.table.BTreeIndexDetails", "/example.Custom"])),
        )
        for _ in range(draw(st.integers(1, 5)))
    ]


def _measure(table: TableSnapshot) -> tuple[IndexState, Coverage]:
    index = table.index("ix")
    assert index is not None
    return index, measure_coverage(table, index)


@given(_fragments(), _segments())
def test_every_live_fragment_is_either_covered_or_a_gap(
    fragments: list[Fragment], segments: list[Segment]
) -> None:
    _, coverage = _measure(snapshot(fragments, segments))

    live = {entry.id for entry in fragments}
    gaps = [gap.fragment_id for gap in coverage.gaps]
    assert set(coverage.covered) | set(gaps) == live
    assert set(coverage.covered).isdisjoint(gaps)
    assert len(gaps) == len(set(gaps))
    assert coverage.is_complete == (not gaps)


@given(_fragments(), _segments())
def test_only_usable_segments_cover_and_their_claims_on_gone_fragments_are_dead(
    fragments: list[Fragment], segments: list[Segment]
) -> None:
    _, coverage = _measure(snapshot(fragments, segments))

    live = {entry.id for entry in fragments}
    usable = [entry for entry in segments if entry.type_url != "/example.Custom"]
    claimed = {id_ for entry in usable for id_ in entry.covered}
    assert set(coverage.covered) == claimed & live
    assert set(coverage.dead) == claimed - live
    assert {part.uuid for part in coverage.partial_segments} == {
        entry.uuid for entry in usable if set(entry.covered) - live
    }
    for part, entry in zip(coverage.segments, usable, strict=True):
        assert (set(part.live), set(part.dead)) == (set(entry.covered) & live, set(entry.covered) - live)


@given(_fragments(), _segments())
def test_rows_and_deleted_rows_are_counted_once_per_fragment(
    fragments: list[Fragment], segments: list[Segment]
) -> None:
    _, coverage = _measure(snapshot(fragments, segments))

    inside = [entry for entry in fragments if entry.id in coverage.covered]
    assert coverage.covered_rows == sum(entry.rows for entry in inside)
    assert coverage.deleted_rows == sum(entry.deleted_rows for entry in inside)
    assert (
        coverage.covered_rows + coverage.gap_rows
        == coverage.table_rows
        == sum(entry.rows for entry in fragments)
    )


@given(_fragments(), _segments())
def test_a_gap_names_the_skipped_segment_first_and_a_rewrite_second(
    fragments: list[Fragment], segments: list[Segment]
) -> None:
    index, coverage = _measure(snapshot(fragments, segments))

    skipped = {id_ for entry in index.skipped for id_ in entry.segment.covered}
    rewritten = {entry.id for entry in fragments if entry.files is REWRITTEN_FILES}
    for gap in coverage.gaps:
        if gap.fragment_id in skipped:
            assert gap.reason is GapReason.SEGMENT_SKIPPED
        elif gap.fragment_id in rewritten:
            assert gap.reason is GapReason.COLUMN_REWRITTEN
        else:
            assert gap.reason is GapReason.NOT_INDEXED
        assert gap.fragment_id in coverage.gaps_because(gap.reason)


def test_a_fragment_of_a_skipped_segment_is_covered_when_a_usable_one_covers_it_too() -> None:
    segments = [segment({0, 1}, type_url="/example.Custom"), segment({1})]

    index, coverage = _measure(snapshot([fragment(0), fragment(1)], segments))

    assert [entry.reason for entry in index.skipped] == [SkipReason.UNKNOWN_TYPE]
    assert set(coverage.covered) == {1}
    assert set(coverage.gaps_because(GapReason.SEGMENT_SKIPPED)) == {0}


def test_an_empty_table_is_covered_completely() -> None:
    _, coverage = _measure(snapshot([], [segment({3})]))

    assert coverage.is_complete
    assert (coverage.table_rows, coverage.gap_rows, set(coverage.dead)) == (0, 0, {3})


# --- what Lance itself does to a table ---


@pytest.fixture
def table(tmp_path: Path) -> lance.LanceDataset:
    """Four fragments of ten rows with the columns key, value and other."""
    rows = pa.table({name: range(40) for name in ("key", "value", "other")})
    return lance.write_dataset(rows, tmp_path / "table", max_rows_per_file=10)


def _rewrite_in_place(dataset: lance.LanceDataset, fragment_id: int, column: str) -> lance.LanceDataset:
    keys = range(fragment_id * 10, fragment_id * 10 + 10)
    update = pa.table({"key": keys, column: [-1] * 10})
    changed, fields = dataset.get_fragment(fragment_id).update_columns(update, left_on="key")
    operation = lance.LanceOperation.Update(updated_fragments=[changed], fields_modified=fields)
    return lance.LanceDataset.commit(dataset, operation, read_version=dataset.version)


def _coverage(dataset: lance.LanceDataset, name: str) -> Coverage:
    table = read_snapshot(table_ref(dataset.uri))
    index = table.index(name)
    assert index is not None
    return measure_coverage(table, index)


def test_a_fragment_whose_indexed_column_was_updated_in_place_is_reported_as_rewritten(
    table: lance.LanceDataset,
) -> None:
    table.create_scalar_index("value", "BTREE", name="ix")

    table = _rewrite_in_place(table, 1, "value")

    coverage = _coverage(table, "ix")
    assert set(coverage.gaps_because(GapReason.COLUMN_REWRITTEN)) == {1}
    assert (set(coverage.covered), coverage.gap_rows) == ({0, 2, 3}, 10)


def test_a_fragment_whose_indexed_column_was_merged_in_place_is_reported_as_rewritten(
    table: lance.LanceDataset,
) -> None:
    table.create_scalar_index("value", "BTREE", name="ix")

    merge = table.merge_insert("key").when_matched_update_all().write_mode("rewrite_columns")
    merge.execute(pa.table({"key": range(20, 30), "value": [-1] * 10}))

    assert set(_coverage(table, "ix").gaps_because(GapReason.COLUMN_REWRITTEN)) == {2}


def test_an_update_of_another_column_leaves_the_coverage_alone(table: lance.LanceDataset) -> None:
    table.create_scalar_index("value", "BTREE", name="ix")

    table = _rewrite_in_place(table, 1, "other")

    assert _coverage(table, "ix").is_complete


def test_a_fragment_stays_rewritten_when_a_column_is_added_afterwards(table: lance.LanceDataset) -> None:
    table.create_scalar_index("value", "BTREE", name="ix")
    table = _rewrite_in_place(table, 1, "value")

    table.add_columns({"added": "key + 1"})

    assert set(_coverage(table, "ix").gaps_because(GapReason.COLUMN_REWRITTEN)) == {1}


@pytest.mark.parametrize("rewritten", ["value", "other"])
def test_an_added_column_is_not_called_rewritten_because_an_older_one_was(
    table: lance.LanceDataset, rewritten: str
) -> None:
    table = _rewrite_in_place(table, 1, rewritten)
    table.add_columns({"added": "key + 1"})
    index = table.create_index_uncommitted("added", "BTREE", name="ix", fragment_ids=[0])
    table.commit_existing_index_segments("ix", "added", [index])

    coverage = _coverage(table, "ix")

    assert set(coverage.gaps_because(GapReason.NOT_INDEXED)) == {1, 2, 3}
    assert not coverage.gaps_because(GapReason.COLUMN_REWRITTEN)


def test_appended_and_compacted_fragments_are_not_indexed_and_the_old_ones_dead(
    table: lance.LanceDataset,
) -> None:
    table.create_scalar_index("value", "ZONEMAP", name="ix")  # Lance cannot remap a zone map
    lance.write_dataset(
        pa.table({name: range(5) for name in ("key", "value", "other")}), table.uri, mode="append"
    )
    lance.dataset(table.uri).optimize.compact_files(target_rows_per_fragment=20)

    table = lance.dataset(table.uri)
    coverage = _coverage(table, "ix")

    assert {gap.fragment_id for gap in coverage.gaps} == {
        entry.fragment_id for entry in table.get_fragments()
    }
    assert set(coverage.gaps_because(GapReason.NOT_INDEXED)) == {gap.fragment_id for gap in coverage.gaps}
    assert coverage.gap_rows == 45


def test_a_deletion_of_a_whole_fragment_leaves_a_partial_segment(table: lance.LanceDataset) -> None:
    table.create_scalar_index("value", "BTREE", name="ix")

    table.delete("key >= 10 AND key < 23")

    coverage = _coverage(table, "ix")
    assert coverage.is_complete
    assert (set(coverage.covered), set(coverage.dead)) == ({0, 2, 3}, {1})
    assert len(coverage.partial_segments) == 1
    assert (coverage.covered_rows, coverage.deleted_rows) == (27, 3)
