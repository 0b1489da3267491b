"""A set of rows in the form in which Lance reads it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, FrozenBitMap

from lancewright.model.row_set import RowSet, row_set
from lancewright.table.allow_list import encode_allow_list, encode_treemap

if TYPE_CHECKING:
    from pathlib import Path

# The function lance.dataset hides the module of this name.
lance_dataset = importlib.import_module("lance.dataset")


@given(st.sets(st.integers(0, 2**40)))
def test_it_is_what_lance_writes_for_the_same_addresses(addresses: set[int]) -> None:
    rows = row_set(np.array(sorted(addresses), dtype=np.uint64))

    assert encode_treemap(rows) == lance_dataset.serialize_row_addrs(sorted(addresses))


@pytest.mark.parametrize("stable_row_ids", [False, True])
def test_lance_reads_exactly_these_rows_also_after_they_moved(tmp_path: Path, stable_row_ids: bool) -> None:
    uri = str(tmp_path / "table.lance")
    rows = pa.table({"id": range(40), "value": range(40)})
    lance.write_dataset(rows, uri, max_rows_per_file=10, enable_stable_row_ids=stable_row_ids)
    lance.dataset(uri).delete("id = 7")
    lance.dataset(uri).merge_insert("id").when_matched_update_all().execute(rows.slice(12, 5))
    dataset = lance.dataset(uri)
    known = dataset.scanner(columns=["id"], with_row_address=True).to_table()
    wanted = known.filter(np.isin(known["id"].to_numpy(), [3, 8, 13, 14, 39]))

    allowed = encode_allow_list(dataset, row_set(wanted["_rowaddr"].to_numpy()))

    found = dataset.scanner(columns=["id"], row_addr_allowlist=allowed).to_table()
    assert sorted(found["id"].to_pylist()) == [3, 8, 13, 14, 39]


def test_runs_of_rows_are_read_as_well(tmp_path: Path) -> None:
    uri = str(tmp_path / "table.lance")
    dataset = lance.write_dataset(pa.table({"id": range(100_000)}), uri)
    rows = BitMap(range(5, 90_000))
    rows.run_optimize()

    allowed = encode_allow_list(dataset, RowSet({0: FrozenBitMap(rows)}))

    assert len(dataset.scanner(columns=["id"], row_addr_allowlist=allowed).to_table()) == 89_995
