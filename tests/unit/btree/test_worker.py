"""What a task reads: live rows in order, in chunks its memory holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

from lancewright.build.range_shuffle import decode_blob
from lancewright.build.range_worker import CutWork, RangeSettings, cut_fragments
from lancewright.build.splitters import choose_splitters, cut_run
from lancewright.errors import UnsupportedError
from lancewright.kinds.btree.range_writer import as_stored
from lancewright.kinds.btree.sorted_run import sort_rows
from lancewright.model.columns import find_column
from lancewright.table.column_reader import read_column, sample_column
from lancewright.table.location import table_ref
from lancewright.table.side_files import SideFiles
from lancewright.table.snapshot_reader import read_snapshot

if TYPE_CHECKING:
    from pathlib import Path


def settings_for(uri: str, budget_bytes: int) -> RangeSettings:
    table = table_ref(uri)
    column = find_column(read_snapshot(table).columns, "value")
    SideFiles(table).write("splitters.arrow", choose_splitters([], column.type, 1).to_bytes())
    return RangeSettings(
        table=table, column=column, segment_uuid="none", splitters_path="splitters.arrow", page_rows=10,
        budget_bytes=budget_bytes,
    )  # fmt: skip


def test_a_task_holds_no_more_than_its_memory_of_large_values(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    lance.write_dataset(
        pa.table({"value": [chr(97 + number % 26) * 1_000_000 for number in range(120)]}), uri
    )
    settings = settings_for(uri, budget_bytes=48 << 20)

    blobs = [blob for _, blob in cut_fragments(settings, CutWork(fragments=(0,)))]

    assert max(map(len, blobs)) < 48 << 20
    assert sum(map(len, blobs)) > 120_000_000


def test_fragments_that_a_compaction_moved_are_still_read_by_address(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"value": np.full(100, 7)}), uri, max_rows_per_file=10)
    settings = settings_for(uri, budget_bytes=1 << 30)

    (blob,) = [blob for _, blob in cut_fragments(settings, CutWork(fragments=(5, 3, 4)))]

    run, _ = decode_blob(blob, pa.int64())
    assert run is not None
    assert (run.addresses >> np.uint64(32)).tolist() == sorted((run.addresses >> np.uint64(32)).tolist())


def test_a_sample_of_a_fragment_with_deleted_rows_spreads_as_its_live_rows_do(tmp_path: Path) -> None:
    """One value everywhere: the ranges are told apart by addresses alone, so these must be the real ones."""
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"value": np.full(20_000, 7), "id": np.arange(20_000)}), uri).delete(
        "id % 4 <> 1"
    )
    table = table_ref(uri)
    column = find_column(read_snapshot(table).columns, "value")

    values, addresses = sample_column(table, column, [(0, 3_000)], seed=0)

    splitters = choose_splitters([(values, addresses)], pa.int64(), 5)
    ((everything, places),) = list(read_column(table, column, [0], 1 << 20))
    cuts = [0, *cut_run(sort_rows(everything, places), splitters).tolist(), len(places)]
    sizes = np.diff(cuts)
    assert set(addresses.tolist()) <= set(places.tolist())
    assert np.abs(sizes - 1_000).max() <= 150


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str)
def test_a_sample_of_large_values_is_small_and_cuts_them_into_even_ranges(
    type_: pa.DataType, tmp_path: Path
) -> None:
    """Some thousand values of 1 MB would not fit the driver, nor one Arrow array of texts."""
    random = np.random.default_rng(5)
    uri = str(tmp_path / "table")
    whole = pa.array([random.bytes(8).hex() + "é" * 30_000 for _ in range(600)]).cast(type_)
    lance.write_dataset(pa.table({"value": whole}), uri)
    table = table_ref(uri)
    column = find_column(read_snapshot(table).columns, "value")

    values, addresses = sample_column(table, column, [(0, 500)], seed=0)

    assert values.type == type_
    assert len(set(addresses.tolist())) == len(values) == 500
    assert values.nbytes < 1_000_000
    assert all(
        whole[address].as_py().startswith(value.as_py())
        for value, address in zip(values, addresses.tolist(), strict=True)
    )
    splitters = choose_splitters([(values, addresses)], type_, 4)
    cuts = cut_run(sort_rows(whole, np.arange(600, dtype=np.uint64)), splitters)
    assert np.abs(np.diff([0, *cuts.tolist(), 600]) - 150).max() <= 20


def test_more_values_than_a_dictionary_may_name_are_refused_in_words() -> None:
    values = pa.array([f"{number}" for number in range(300)])

    with pytest.raises(UnsupportedError, match="dictionary"):
        as_stored(values, pa.dictionary(pa.int8(), pa.string()))
