"""Cuts a table's values into key ranges of even size. Pure.

A splitter is a pair (value, row address): one value repeated in most of the rows still cuts into even ranges, because
its rows are told apart by their addresses. NULLs come first, so a splitter's value may be NULL.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancewright.kinds.btree.sort_keys import exact_keys
from lancewright.kinds.btree.sorted_run import SortedRun, sort_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# The size of a range scatters around the mean by 1 / sqrt(samples per range): 1,500 keep 20 ranges within 15 %.
SAMPLES_PER_RANGE = 1_500
SAMPLES_MAX = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Splitters:
    """The lower bounds of all ranges but the first: first those among the NULLs, then those among the values."""

    type: pa.DataType
    null_addresses: NDArray[np.uint64]
    values: pa.Array
    addresses: NDArray[np.uint64]

    @property
    def ranges(self) -> int:
        """How many ranges they make."""
        return 1 + len(self.null_addresses) + len(self.addresses)

    def to_bytes(self) -> bytes:
        """Write them as one Arrow stream."""
        count = len(self.null_addresses)
        values = pa.concat_arrays([pa.nulls(count, self.type), self.values])
        addresses = pa.array(np.concatenate([self.null_addresses, self.addresses]))
        batch = pa.record_batch([values, addresses], names=["value", "address"])
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return sink.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> Splitters:
        """Read what ``to_bytes`` wrote."""
        with pa.ipc.open_stream(content) as reader:
            table = reader.read_all()
        values = table["value"].combine_chunks()
        addresses = table["address"].to_numpy()
        nulls = values.null_count
        return cls(
            type=values.type,
            null_addresses=addresses[:nulls],
            values=values.slice(nulls),
            addresses=addresses[nulls:],
        )


def choose_splitters(
    samples: Sequence[tuple[pa.Array, NDArray[np.uint64]]], type_: pa.DataType, ranges: int
) -> Splitters:
    """Cut a sample of (values, addresses) into ``ranges`` parts of equal size."""
    values = pa.concat_arrays([array for array, _ in samples]) if samples else pa.array([], type_)
    addresses = np.concatenate([part for _, part in samples]) if samples else np.zeros(0, dtype=np.uint64)
    # Equal values keep their order of arrival, and splitters ascend by (value, address).
    arrival = np.argsort(addresses)
    values, addresses = values.take(pa.array(arrival)), addresses[arrival]
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    nulls = np.sort(addresses[is_null])
    run = sort_rows(values.drop_null(), addresses[~is_null])
    cuts = _quantiles(len(addresses), ranges)
    picked = cuts[cuts >= len(nulls)] - len(nulls)
    return Splitters(
        type=type_,
        null_addresses=nulls[cuts[cuts < len(nulls)]],
        values=_take(run, picked),
        addresses=run.addresses[picked],
    )


def cut_run(run: SortedRun, splitters: Splitters) -> NDArray[np.int64]:
    """The places where a sorted run passes from one range of values to the next, one for each splitter with a value."""
    left, right = search_run(run, splitters.values)
    # Among rows that equal a splitter's value its address decides; runs ascend by (value, address).
    cuts = np.array(
        [
            low + np.searchsorted(run.addresses[low:high], address, side="left")
            for low, high, address in zip(left, right, splitters.addresses, strict=True)
        ],
        dtype=np.int64,
    )
    # Rows of one value may be cut anywhere; only when cuts ascend does every row land in exactly one range.
    return np.maximum.accumulate(cuts)


def search_run(run: SortedRun, values: pa.Array) -> tuple[list[int], list[int]]:
    """For each value the place of the first row that is not less, and of the first that is greater."""
    return _search_keys(run.keys, values) if run.keys is not None else _search_wide(run, values)


def cut_nulls(addresses: NDArray[np.uint64], splitters: Splitters) -> NDArray[np.int64]:
    """The places where ascending addresses of NULLs pass from one range to the next."""
    return np.searchsorted(addresses, splitters.null_addresses, side="left").astype(np.int64)


def _quantiles(count: int, ranges: int) -> NDArray[np.int64]:
    places = (np.arange(1, ranges, dtype=np.int64) * count) // ranges
    return np.unique(places[(places > 0) & (places < count)])


def _take(run: SortedRun, places: NDArray[np.int64]) -> pa.Array:
    parts = [run.values(int(place), int(place) + 1) for place in places]
    return pa.concat_arrays(parts) if parts else pa.array([], run.type)


def _search_keys(keys: NDArray[np.uint64], values: pa.Array) -> tuple[list[int], list[int]]:
    bounds = exact_keys(values)
    left = np.searchsorted(keys, bounds, side="left")
    return left.tolist(), np.searchsorted(keys, bounds, side="right").tolist()


def _search_wide(run: SortedRun, bounds: pa.Array) -> tuple[list[int], list[int]]:
    """Binary search by hand: a few dozen splitters over a run of millions, so Python's speed does not matter."""
    sought = _comparable(bounds)
    left = [_bisect(run, bound, 0, upper=False) for bound in sought]
    # Few bounds are values of the run: where the next row is another value, nothing equals the bound.
    right = [
        _bisect(run, bound, low, upper=True) if low < len(run) and _value(run, low) == bound else low
        for bound, low in zip(sought, left, strict=True)
    ]
    return left, right


def _bisect(run: SortedRun, bound: object, low: int, *, upper: bool) -> int:
    high = len(run)
    while low < high:
        middle = (low + high) // 2
        value = _value(run, middle)
        before = value <= bound if upper else value < bound  # type: ignore[operator] # both are bytes or both decimals
        low, high = (middle + 1, high) if before else (low, middle)
    return low


def _value(run: SortedRun, place: int) -> object:
    return _comparable(run.values(place, place + 1))[0]


def _comparable(values: pa.Array) -> list[object]:
    """Python values in Arrow's order: text compares by its UTF-8 bytes."""
    found = values.to_pylist()
    return [value.encode() if isinstance(value, str) else value for value in found]
