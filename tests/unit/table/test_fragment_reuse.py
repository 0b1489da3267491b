"""After deferred compactions the coverage that is read is the one Lance works with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa

from lancewright.table.location import table_ref
from lancewright.table.snapshot_reader import read_snapshot
from support.busy_table import append, busy_table, catch_up, compact

if TYPE_CHECKING:
    from pathlib import Path


def assert_as_lance_sees_it(uri: str) -> None:
    told = {
        segment.uuid: set(segment.fragment_ids)
        for index in lance.dataset(uri).describe_indices()
        for segment in index.segments
    }
    read = {
        segment.uuid: set(segment.covered)
        for segment in read_snapshot(table_ref(uri)).segments
        if not segment.is_system
    }
    assert read == {uuid: told[uuid] for uuid in read}


def test_a_compacted_fragment_is_covered_when_all_that_went_into_it_was(tmp_path: Path) -> None:
    uri = str(busy_table(str(tmp_path / "table")).uri)

    compact(uri, [2, 3], deferred=True)
    compact(uri, [0, 1], deferred=True)

    assert set(read_snapshot(table_ref(uri)).segments_named("theirs")[0].covered) == {4, 5, 6, 7, 8, 9}
    assert_as_lance_sees_it(uri)


def test_a_chain_of_compactions_is_followed_to_its_end(tmp_path: Path) -> None:
    uri = str(busy_table(str(tmp_path / "table")).uri)

    compact(uri, [2, 3], deferred=True)
    compact(uri, [8, 4], deferred=True)

    assert set(read_snapshot(table_ref(uri)).segments_named("theirs")[0].covered) == {0, 1, 5, 6, 7, 9}
    assert_as_lance_sees_it(uri)


def test_a_compacted_fragment_with_rows_nobody_indexed_is_not_covered(tmp_path: Path) -> None:
    uri = str(busy_table(str(tmp_path / "table")).uri)
    dataset = lance.dataset(uri)
    part = dataset.create_index_uncommitted(
        "number", "BTREE", name="part", replace=True, fragment_ids=[0, 1, 2]
    )
    append(uri)
    catch_up(uri)
    compact(uri, [2, 3], deferred=True)

    operation = lance.LanceOperation.CreateIndex([part], [])
    lance.LanceDataset.commit(uri, operation, read_version=dataset.version)

    assert set(read_snapshot(table_ref(uri)).segments_named("part")[0].covered) == {0, 1}
    assert_as_lance_sees_it(uri)


def test_notes_too_large_for_the_manifest_are_read_from_their_file(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    count = 2_000_000
    values = np.random.default_rng(0).integers(0, 100, count).astype("i1")
    lance.write_dataset(pa.table({"value": values}), uri, max_rows_per_file=count // 4)
    lance.dataset(uri).create_scalar_index("value", "ZONEMAP", name="zones")
    lance.dataset(uri).delete("value < 40")

    lance.dataset(uri).optimize.compact_files(defer_index_remap=True)

    (notes,) = [one for one in read_snapshot(table_ref(uri)).segments if one.is_system]
    assert len(notes.details) < 100
    assert_as_lance_sees_it(uri)
    # A branch and a clone have the notes of the table they come from, whose files stay where they are.
    dataset = lance.dataset(uri)
    assert_as_lance_sees_it(dataset.create_branch("dev").uri)
    assert_as_lance_sees_it(dataset.shallow_clone(str(tmp_path / "clone"), dataset.version).uri)
