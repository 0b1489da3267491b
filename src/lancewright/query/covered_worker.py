"""Reads the rows of a task from the files of an index, on an executor. The table itself is not opened."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lancewright.errors import CorruptIndexError
from lancewright.kinds.segment.opened import read_header
from lancewright.kinds.segment.rows import RowMap
from lancewright.kinds.segment.store import ReadingStore
from lancewright.kinds.segment.values import read_values
from lancewright.query.kind_rows import CountingPlace
from lancewright.table.batch_filter import filter_table
from lancewright.table.row_reader import ReadEffort
from lancewright.table.segment_place import place_of

if TYPE_CHECKING:
    import pyarrow as pa

    from lancewright.model.row_set import RowSet
    from lancewright.query.covering import ValuesSource
    from lancewright.table.location import TableRef


def read_covered(table: TableRef, source: ValuesSource, rows: RowSet, residual: str | None) -> pa.Table:
    """The rows of a task for which what is left of the filter is TRUE, in the order of their addresses."""
    found, _ = _read(table, source, rows, residual)
    return found


def measure_covered(table: TableRef, source: ValuesSource, rows: RowSet, residual: str | None) -> ReadEffort:
    """What that takes."""
    started = time.perf_counter()
    found, place = _read(table, source, rows, residual)
    return ReadEffort(
        rows=found.num_rows,
        read_requests=place.requests,
        read_bytes=place.bytes,
        seconds=time.perf_counter() - started,
    )


def _read(
    table: TableRef, source: ValuesSource, rows: RowSet, residual: str | None
) -> tuple[pa.Table, CountingPlace]:
    place = CountingPlace(place_of(table, source.segment))
    header = read_header(place, source.details)
    known = {fragment for fragment, _ in header.fragments}
    if not known >= rows.fragments.keys():
        raise CorruptIndexError(
            "A segment was not built over the fragments it is asked for", "Rebuild the index."
        )
    numbers = RowMap(header.fragments).numbers(rows.addresses())
    found = read_values(ReadingStore(place, header), numbers, source.names)
    if not found.num_rows:
        return source.output.empty_table(), place
    # The very types of the table, so that a filter means the same.
    found = found.rename_columns(source.columns.names).cast(source.columns)
    if residual is not None:
        found = filter_table(found, residual)
    return found.select(source.output.names).cast(source.output), place
