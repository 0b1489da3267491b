"""Reading rows by address, with and without stable row ids, with deleted rows and a filter on top."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.dataset import serialize_row_addrs
from pyroaring import FrozenBitMap

from lancewright.model.row_set import RowSet, row_set
from lancewright.table.lance_compat import serialize_rows
from lancewright.table.location import TableRef, table_ref
from lancewright.table.row_reader import RowRequest, count_rows, read_rows

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=[False, True], ids=["addresses", "stable"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[TableRef, bool]:
    data = pa.table({"a": np.arange(3000), "s": [f"s{i}" for i in range(3000)]})
    dataset = lance.write_dataset(
        data, tmp_path / "t", max_rows_per_file=1000, enable_stable_row_ids=request.param
    )
    dataset.delete("a IN (5, 1500)")
    dataset.update({"s": "'moved'"}, where="a = 7")
    return table_ref(tmp_path / "t", version=lance.dataset(tmp_path / "t").version), request.param


def read(table: tuple[TableRef, bool], rows: RowSet | None, **options: object) -> pa.Table:
    fragments = tuple(rows.fragments) if rows is not None else (0, 1, 2, 3)
    request = RowRequest(
        fragments=fragments,
        rows=rows,
        **{"filter": None, "columns": ("a",), "with_row_address": True, **options},
    )
    batches = list(read_rows(table[0], request, stable_row_ids=table[1]))
    return pa.Table.from_batches(batches) if batches else pa.table({"a": [], "_rowaddr": []})


@pytest.mark.parametrize("count", [4, 1400])
def test_rows_come_by_their_addresses_and_deleted_ones_do_not(
    table: tuple[TableRef, bool], count: int
) -> None:
    everything = read(table, None)
    live = dict(zip(everything["_rowaddr"].to_pylist(), everything["a"].to_pylist(), strict=True))
    asked = np.array([5, 7, (1 << 32) + 500, (3 << 32), *range(100, 100 + count - 4)], dtype=np.uint64)

    found = read(table, row_set(asked))

    expected = sorted(address for address in asked.tolist() if address in live)
    assert found["_rowaddr"].to_pylist() == expected
    assert found["a"].to_pylist() == [live[address] for address in expected]
    assert 7 in found["a"].to_pylist()  # moved to fragment 3


def test_a_filter_is_checked_on_the_rows_named(table: tuple[TableRef, bool]) -> None:
    rows = row_set(np.arange(100, dtype=np.uint64))

    found = read(table, rows, filter="a % 10 = 3 AND s != 's13'")

    assert found["a"].to_pylist() == [3, 23, 33, 43, 53, 63, 73, 83, 93]


def test_counting_agrees_with_reading(table: tuple[TableRef, bool]) -> None:
    request = RowRequest(fragments=(0, 1), rows=None, filter="a > 900", columns=())

    assert count_rows(table[0], request, stable_row_ids=table[1]) == 98 + 1000


def test_an_allow_list_has_the_bytes_that_lance_makes() -> None:
    addresses = [5, 6, (1 << 32) + 7, (9 << 32) + 1, *range(2 << 32, (2 << 32) + 5000, 3)]

    assert serialize_rows(row_set(np.array(addresses, dtype=np.uint64)).fragments) == serialize_row_addrs(
        addresses
    )


def test_an_allow_list_may_hold_runs(table: tuple[TableRef, bool]) -> None:
    rows = RowSet({1: FrozenBitMap(range(100, 900)), 2: FrozenBitMap(range(1000))})

    assert read(table, rows).num_rows == 800 - 1 + 1000
