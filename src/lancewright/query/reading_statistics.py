"""Reads the small tables at the root of the indexes that a filter may ask: a few hundred kilobytes for 100 million rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancewright.errors import LancewrightError, UnsupportedError
from lancewright.kinds.btree.pages import LOOKUP_FILE
from lancewright.query.statistics import IndexStatistics, KeyTable, PageTable, SegmentTable, ZoneTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lancewright.model.index import Segment
    from lancewright.query.trust import Candidate
    from lancewright.table.index_reader import IndexReader

_PAGE_ROWS = 4096


def read_statistics(reader: IndexReader, candidates: Iterable[Candidate]) -> IndexStatistics:
    """Read what is known of the indexes; one whose files cannot be read is named as broken and will not be asked."""
    tables: dict[str, tuple[SegmentTable, ...]] = {}
    rows: dict[str, int] = {}
    broken: dict[str, str] = {}
    for candidate in candidates:
        read = _READERS.get(candidate.kind)
        if read is None:
            continue
        rows[candidate.name] = candidate.covered_rows
        try:
            tables[candidate.name] = tuple(read(reader, segment) for segment in candidate.index.segments)
        except UnsupportedError:
            # Lance can read it, this package not: nothing is known of it, and nothing is wrong with it.
            continue
        except (LancewrightError, KeyError, ValueError) as error:
            broken[candidate.name] = error.problem if isinstance(error, LancewrightError) else str(error)
    return IndexStatistics(tables=tables, rows=rows, broken=broken)


def _read_pages(reader: IndexReader, segment: Segment) -> PageTable:
    """A page ends at the latest where the next begins: half of the file tells nothing that an estimate needs."""
    table, metadata = reader.read_file(segment, LOOKUP_FILE, ["min", "null_count"])
    low = _column(table, "min")
    last = _column(reader.read_last_row(segment, LOOKUP_FILE, "max"), "max")
    return PageTable(
        low=low,
        high=pa.concat_arrays([low.slice(1), last]),
        nulls=_numbers(table, "null_count"),
        page_rows=int(metadata.get("batch_size", _PAGE_ROWS)),
    )


def _read_keys(reader: IndexReader, segment: Segment) -> KeyTable:
    table, _ = reader.read_file(segment, "bitmap_page_lookup.lance", ["keys"])
    return KeyTable(keys=_column(table, "keys"), size_bytes=segment.size_bytes or 0)


def _read_zones(reader: IndexReader, segment: Segment) -> ZoneTable:
    table, _ = reader.read_file(segment, "zonemap.lance")
    return ZoneTable(
        low=_column(table, "min"),
        high=_column(table, "max"),
        nulls=_numbers(table, "null_count"),
        nans=_numbers(table, "nan_count"),
        fragments=_numbers(table, "fragment_id"),
        starts=_numbers(table, "zone_start"),
        lengths=_numbers(table, "zone_length"),
    )


_READERS: Mapping[str, Callable[[IndexReader, Segment], SegmentTable]] = {
    "btree": _read_pages,
    "bitmap": _read_keys,
    "zonemap": _read_zones,
}


def _column(table: pa.Table, name: str) -> pa.Array:
    return table.column(name).combine_chunks()


def _numbers(table: pa.Table, name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return table.column(name).to_numpy().astype(np.int64)  # type: ignore[no-any-return] # pyarrow is untyped
