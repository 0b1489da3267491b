"""Writes one key range: sorted rows into a part file, and the entries of its pages.

Sees Arrow and a place to write; memory is the range's rows once plus one slice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from lancewright.errors import UnsupportedError
from lancewright.kinds.btree.pages import data_schema, page_schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from lancewright.kinds.btree.sorted_run import SortedRun

# Lance's writer takes 21 ns a row in slices of this size, and 36 in one big batch.
SLICE_ROWS = 256 * 1024


class BatchWriter(Protocol):
    """What takes batches in order."""

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Append a batch."""
        ...


class RangeWriter:
    """Streams ascending rows into one file and keeps the first and last value of each page."""

    def __init__(
        self, writer: BatchWriter, type_: pa.DataType, page_rows: int, *, schema: pa.Schema | None = None
    ) -> None:
        """Write through ``writer``, which was opened with this schema, ``data_schema`` if none is given."""
        self._writer = writer
        self._type = type_
        self._plain_type = type_.value_type if pa.types.is_dictionary(type_) else type_
        self._schema = schema or data_schema(type_, page_rows)
        self._page_rows = page_rows
        self._rows = 0
        self._firsts: list[pa.Array] = []
        self._lasts: list[pa.Array] = []
        self._nulls: list[int] = []

    @property
    def rows(self) -> int:
        """Rows written so far."""
        return self._rows

    def write_nulls(self, addresses: NDArray[np.uint64]) -> None:
        """Append NULLs; they come before every value."""
        for start in range(0, len(addresses), SLICE_ROWS):
            part = addresses[start : start + SLICE_ROWS]
            self._write(pa.nulls(len(part), self._plain_type), part)

    def write_run(self, run: SortedRun) -> None:
        """Append a run that continues the order."""
        for start in range(0, len(run), SLICE_ROWS):
            stop = min(start + SLICE_ROWS, len(run))
            self._write(run.values(start, stop), run.addresses[start:stop])

    def pages(self) -> pa.RecordBatch:
        """The entries of all pages."""
        schema = page_schema(self._type)
        if not self._rows:
            return pa.RecordBatch.from_pylist([], schema=schema)
        firsts, lasts = (
            as_stored(pa.concat_arrays(part), self._type) for part in (self._firsts, self._lasts)
        )
        columns = [firsts, lasts, pa.array(self._nulls, pa.uint32())]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _write(self, values: pa.Array, addresses: NDArray[np.uint64]) -> None:
        self._note_pages(values)
        stored = as_stored(values, self._type)
        self._writer.write_batch(
            pa.RecordBatch.from_arrays([stored, pa.array(addresses)], schema=self._schema)
        )
        self._rows += len(values)

    def _note_pages(self, values: pa.Array) -> None:
        """Take the values at page boundaries; a page that goes on in the next slice gets its end corrected there."""
        inside = self._rows % self._page_rows
        starts = np.arange((self._page_rows - inside) % self._page_rows, len(values), self._page_rows)
        if inside:
            self._extend_page(values, self._page_rows - inside)
        if not len(starts):
            return
        stops = np.minimum(starts + self._page_rows, len(values))
        self._firsts.append(values.take(pa.array(starts)))
        self._lasts.append(values.take(pa.array(stops - 1)))
        self._nulls += _count_nulls(values, starts, stops)

    def _extend_page(self, values: pa.Array, room: int) -> None:
        stop = min(room, len(values))
        kept, last = self._lasts[-1], values.slice(stop - 1, 1)
        self._lasts[-1] = pa.concat_arrays([kept.slice(0, len(kept) - 1), last])
        self._nulls[-1] += values.slice(0, stop).null_count


def as_stored(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Plain values in the type the column has: Lance compares only equal types, so a dictionary stays one."""
    if not pa.types.is_dictionary(type_):
        return values
    try:
        return values.dictionary_encode().cast(type_)
    except pa.ArrowInvalid as error:
        raise UnsupportedError(
            f"The column has more distinct values than its type {type_} has numbers for",
            "Store the column as its plain type, or as a dictionary with wider indices.",
        ) from error


def _count_nulls(values: pa.Array, starts: Iterable[int], stops: Iterable[int]) -> list[int]:
    if not values.null_count:
        return [0 for _ in starts]
    return [
        values.slice(int(start), int(stop - start)).null_count
        for start, stop in zip(starts, stops, strict=True)
    ]
