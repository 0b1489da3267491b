"""A range that does not fit its memory goes over local disk, in the same order, and leaves nothing there."""

from __future__ import annotations

import errno
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewright.build import range_spill
from lancewright.build.range_shuffle import cut_chunk
from lancewright.build.range_spill import RangeSorter
from lancewright.build.splitters import choose_splitters
from lancewright.errors import InvalidRequestError
from lancewright.kinds.btree.sort_keys import exact_keys, key_width
from lancewright.runtime.blob_files import BlobFiles

TYPES = [pa.int64(), pa.uint8(), pa.float32(), pa.string(), pa.large_binary(), pa.decimal128(20, 2)]
LARGE, TINY = 1 << 40, 1 << 12


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def make_values(type_: pa.DataType, count: int, distinct: int, seed: int) -> pa.Array:
    random = np.random.default_rng(seed)
    numbers = pa.array(random.integers(0, distinct, count), mask=random.random(count) < 0.1)
    if pa.types.is_decimal(type_):
        return numbers.cast(pa.decimal128(19, 0)).cast(type_)
    if pa.types.is_large_binary(type_):
        return numbers.cast(pa.large_string()).cast(type_)
    return numbers.cast(type_)


def blobs_of(values: pa.Array, chunk: int, seed: int) -> list[pa.Buffer]:
    """One range's blobs from many chunks, arriving in any order."""
    splitters = choose_splitters([], values.type, 1)
    addresses = np.arange(len(values), dtype=np.uint64) * np.uint64(3)
    blobs = [
        pa.py_buffer(blob)
        for start in range(0, len(values), chunk)
        for _, blob in cut_chunk(values.slice(start, chunk), addresses[start : start + chunk], splitters)
    ]
    np.random.default_rng(seed).shuffle(blobs)  # type: ignore[arg-type]
    return blobs


def rows_of(sorter: RangeSorter, blobs: list[pa.Buffer]) -> tuple[list[int], list[Any], list[int]]:
    for blob in blobs:
        sorter.add(blob)
    nulls = [int(address) for part in sorter.null_addresses() for address in part]
    values: list[Any] = []
    addresses: list[int] = []
    for run in sorter.sorted_runs():
        part = run.values(0, len(run))
        values += exact_keys(part).tolist() if key_width(run.type) is not None else part.to_pylist()
        addresses += run.addresses.tolist()
    return nulls, values, addresses


@pytest.mark.parametrize("distinct", [1, 3, 200])
@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_spilling_gives_the_same_order_and_leaves_no_file(
    type_: pa.DataType, distinct: int, temporary: Path
) -> None:
    values = make_values(type_, 5_000, distinct, seed=distinct)
    blobs = blobs_of(values, 97, seed=1)

    with RangeSorter(type_, LARGE) as roomy:
        nulls, ordered, addresses = rows_of(roomy, blobs)
        assert roomy.spilled_runs == 0
    with RangeSorter(type_, TINY) as tight:
        tight_nulls, tight_ordered, tight_addresses = rows_of(tight, blobs)
        assert tight.spilled_runs > 5
        assert list(temporary.iterdir()) != []

    assert list(temporary.iterdir()) == []
    assert ordered == sorted(ordered)
    assert tight_nulls == nulls == sorted(nulls)
    assert tight_ordered == ordered
    assert sorted(zip(tight_ordered, tight_addresses, strict=True)) == sorted(
        zip(ordered, addresses, strict=True)
    )
    assert len(addresses) + len(nulls) == len(values)


@pytest.mark.parametrize("distinct", [1, 3, 200])
@pytest.mark.parametrize("type_", [pa.int64(), pa.uint8(), pa.float32()], ids=str)
def test_a_range_in_memory_is_handed_out_in_pieces_that_continue_the_order(
    type_: pa.DataType, distinct: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = make_values(type_, 5_000, distinct, seed=distinct)
    blobs = blobs_of(values, 97, seed=1)

    with RangeSorter(type_, LARGE) as whole:
        expected = rows_of(whole, blobs)
    monkeypatch.setattr(range_spill, "PIECE_ROWS", 500)
    with RangeSorter(type_, LARGE) as sorter:
        for blob in blobs:
            sorter.add(blob)
        found = rows_of(sorter, [])
    with RangeSorter(type_, LARGE) as again:
        for blob in blobs:
            again.add(blob)
        sizes = [len(piece) for piece in again.sorted_runs()]

    assert len(sizes) > 5
    assert max(sizes) < 1_000
    assert found == expected


@given(
    budget=st.integers(1, 40_000),
    chunk=st.integers(1, 400),
    distinct=st.integers(1, 100),
    seed=st.integers(0, 99),
)
def test_no_budget_loses_or_repeats_a_row(budget: int, chunk: int, distinct: int, seed: int) -> None:
    values = make_values(pa.int64(), 600, distinct, seed)

    with RangeSorter(pa.int64(), budget) as sorter:
        nulls, ordered, addresses = rows_of(sorter, blobs_of(values, chunk, seed))

    assert ordered == sorted(ordered)
    assert sorted(nulls + addresses) == list(range(0, 1800, 3))


def test_nulls_take_no_more_memory_than_values(temporary: Path) -> None:
    blobs = blobs_of(pa.nulls(20_000, pa.string()), 97, seed=3)

    with RangeSorter(pa.string(), TINY) as sorter:
        for blob in blobs:
            sorter.add(blob)
        assert sorter.spilled_runs > 5
        pieces = list(sorter.null_addresses())

    assert max(map(len, pieces)) < 1_000
    assert [int(address) for piece in pieces for address in piece] == list(range(0, 60_000, 3))
    assert list(temporary.iterdir()) == []


def test_nothing_sent_is_nothing_sorted() -> None:
    with RangeSorter(pa.string(), TINY) as sorter:
        assert rows_of(sorter, []) == ([], [], [])


def test_the_files_go_when_the_task_fails(temporary: Path) -> None:
    blobs = blobs_of(make_values(pa.int64(), 5_000, 99, 0), 97, 0)

    def sort_and_fail() -> None:
        with RangeSorter(pa.int64(), TINY) as sorter:
            rows_of(sorter, blobs)
            assert sorter.spilled_runs > 0
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        sort_and_fail()

    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_clearly_and_leaves_no_file(
    code: int, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = blobs_of(make_values(pa.int64(), 5_000, 99, 0), 97, 0)
    files = []

    def full(path: str, mode: str) -> Any:
        files.append(Path(path).write_bytes(b"half a run"))
        raise OSError(code, f"No space left for {path} ({mode})")

    monkeypatch.setattr(range_spill.pa, "OSFile", full)
    with (
        pytest.raises(InvalidRequestError, match=r"disk.*full") as caught,
        RangeSorter(pa.int64(), TINY) as sorter,
    ):
        rows_of(sorter, blobs)

    assert files
    assert "TMPDIR" in str(caught.value)
    assert list(temporary.iterdir()) == []


def test_blobs_come_back_by_partition_whoever_wrote_them(tmp_path: Path) -> None:
    files = BlobFiles(tmp_path)
    sent = {
        (partition, writer, number): bytes([writer]) * (number * 1000)
        for partition in range(3) for writer in range(4) for number in range(20)
    }  # fmt: skip

    def write(writer: int) -> None:
        for (partition, by, _), blob in sent.items():
            if by == writer:
                files.append(partition, blob)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for partition in range(3):
        wanted = sorted(blob for (sent_to, _, _), blob in sent.items() if sent_to == partition)
        assert sorted(blob.to_pybytes() for blob in files.read(partition)) == wanted
    assert list(files.read(7)) == []


def test_a_blob_outlives_the_reading(tmp_path: Path) -> None:
    files = BlobFiles(tmp_path)
    files.append(0, b"first")
    files.append(0, b"")
    files.append(0, b"second")

    kept = list(files.read(0))

    assert [blob.to_pybytes() for blob in kept] == [b"first", b"", b"second"]
