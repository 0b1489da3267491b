"""A range's file, the entries of its pages, and the lookup merged over all ranges."""

from __future__ import annotations

import resource
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewright.kinds.btree import range_writer
from lancewright.kinds.btree.pages import Part, lookup_metadata, merge_lookups, page_schema
from lancewright.kinds.btree.range_writer import RangeWriter
from lancewright.kinds.btree.sorted_run import sort_rows

TYPES = [pa.int32(), pa.string(), pa.bool_(), pa.dictionary(pa.int16(), pa.string()), pa.decimal128(9, 2)]


class KeptBatches:
    """Stands for a file."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)


def naive_pages(values: list[Any], page_rows: int) -> list[dict[str, Any]]:
    pages = [values[start : start + page_rows] for start in range(0, len(values), page_rows)]
    return [{"min": page[0], "max": page[-1], "null_count": page.count(None)} for page in pages]


def make_values(type_: pa.DataType, count: int, seed: int) -> pa.Array:
    numbers = np.random.default_rng(seed).integers(0, 9, count)
    plain = type_.value_type if pa.types.is_dictionary(type_) else type_
    if pa.types.is_boolean(plain):
        return pa.array(numbers % 2 == 1)
    if pa.types.is_decimal(plain):
        return pa.array(numbers).cast(pa.decimal128(19, 0)).cast(plain)
    return pa.array(numbers).cast(plain)


@pytest.mark.parametrize("type_", TYPES, ids=str)
@given(
    nulls=st.integers(0, 25), counts=st.lists(st.integers(0, 30), max_size=4), page_rows=st.integers(1, 40),
    slice_rows=st.integers(1, 20), seed=st.integers(0, 99),
)  # fmt: skip
def test_page_entries_are_the_first_and_last_value_and_the_nulls_of_each_page(
    type_: pa.DataType, nulls: int, counts: list[int], page_rows: int, slice_rows: int, seed: int
) -> None:
    kept = KeptBatches()
    writer = RangeWriter(kept, type_, page_rows)
    whole = sort_rows(make_values(type_, sum(counts), seed), np.arange(sum(counts), dtype=np.uint64))
    before = range_writer.SLICE_ROWS
    range_writer.SLICE_ROWS = slice_rows
    try:
        writer.write_nulls(np.arange(1000, 1000 + nulls, dtype=np.uint64))
        for start, count in zip(np.cumsum([0, *counts]).tolist(), counts, strict=False):
            writer.write_run(whole.slice(start, start + count))
    finally:
        range_writer.SLICE_ROWS = before

    values = [None] * nulls + whole.values(0, len(whole)).to_pylist()
    pages = writer.pages()
    assert writer.rows == len(values)
    assert pages.schema == page_schema(type_)
    assert pages.to_pylist() == naive_pages(values, page_rows)
    assert [value for batch in kept.batches for value in batch.column("values").to_pylist()] == values
    ids = [id_ for batch in kept.batches for id_ in batch.column("ids").to_pylist()]
    assert ids == [*range(1000, 1000 + nulls), *whole.addresses.tolist()]


def part(number: int, values: list[int | None]) -> Part:
    entries = [{"min": value, "max": value, "null_count": int(value is None)} for value in values]
    pages = pa.RecordBatch.from_pylist(entries, schema=page_schema(pa.int64()))
    return Part(part_id=number << 32, size_bytes=1, rows=len(values), pages=pages)


def test_pages_are_numbered_through_and_empty_parts_are_left_out() -> None:
    parts = [part(0, []), part(1, [None, 1]), part(2, []), part(3, [2, 3, 4]), part(4, [])]

    merged = merge_lookups(parts, pa.int64())

    assert merged["page_idx"].to_pylist() == [0, 1, 2, 3, 4]
    assert merged["min"].to_pylist() == [None, 1, 2, 3, 4]
    metadata = lookup_metadata(parts, 7)
    assert metadata == {
        "batch_size": "7",
        "range_partitioned": "true",
        "page_num_per_range_partition": f"[[{1 << 32}, 2], [{3 << 32}, 3]]",
    }


def test_no_parts_make_an_empty_lookup() -> None:
    for type_ in TYPES:
        assert merge_lookups([], type_).num_rows == 0


def test_dictionaries_of_several_parts_become_one() -> None:
    type_ = pa.dictionary(pa.int8(), pa.string())
    parts = []
    for number, word in enumerate(["a", "b"]):
        words = pa.array([word]).dictionary_encode().cast(type_)
        pages = pa.RecordBatch.from_arrays(
            [words, words, pa.array([0], pa.uint32())], schema=page_schema(type_)
        )
        parts.append(Part(part_id=number, size_bytes=1, rows=1, pages=pages))

    assert merge_lookups(parts, type_)["max"].to_pylist() == ["a", "b"]


@pytest.mark.parametrize("type_", [pa.int64(), pa.string()], ids=str)
def test_the_lookup_of_ten_billion_rows_is_merged_in_seconds(type_: pa.DataType) -> None:
    per_part = 2_440
    parts = []
    for number in range(1_000):
        values = pa.array(np.arange(number * per_part, (number + 1) * per_part)).cast(type_)
        pages = pa.RecordBatch.from_arrays(
            [values, values, pa.nulls(per_part, pa.uint32()).fill_null(0)], schema=page_schema(type_)
        )
        parts.append(Part(part_id=number, size_bytes=1, rows=per_part * 4096, pages=pages))
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()

    merged = merge_lookups(parts, type_)
    metadata = lookup_metadata(parts, 4096)

    seconds = time.perf_counter() - started
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(  # noqa: T201 - the measurement
        f"merged {merged.num_rows:,} entries of {type_} in {seconds:.3f} s, peak grew by {grown_mib:.0f} MiB"
    )
    assert merged.num_rows == 2_440_000
    assert merged["page_idx"][-1].as_py() == 2_439_999
    assert len(metadata["page_num_per_range_partition"]) > 1_000
    assert seconds < 5
    assert grown_mib < 1024
