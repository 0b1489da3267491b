"""The upper level of a range-partitioned BTree: one entry per page, merged over all ranges. Pure.

Pages are implicit: every ``page_rows`` rows of a part file, the last one of a file possibly short. A range without rows
is left out altogether: Lance's reader dies on a part with zero pages.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE_ROWS = 4096
LOOKUP_FILE = "page_lookup.lance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One range's file and its page entries, in order: ``pages`` has the columns min, max and null_count."""

    part_id: int
    size_bytes: int
    rows: int
    pages: pa.RecordBatch

    @property
    def file_name(self) -> str:
        """The name Lance's reader looks for."""
        return f"part_{self.part_id}_page_data.lance"


def page_schema(type_: pa.DataType) -> pa.Schema:
    """The columns of one part's page entries."""
    return pa.schema(
        [pa.field("min", type_), pa.field("max", type_), pa.field("null_count", pa.uint32(), nullable=False)]
    )


def lookup_schema(type_: pa.DataType) -> pa.Schema:
    """The columns of ``LOOKUP_FILE``."""
    return page_schema(type_).append(pa.field("page_idx", pa.uint32(), nullable=False))


def data_schema(type_: pa.DataType, page_rows: int) -> pa.Schema:
    """The columns of a part's file."""
    return pa.schema(
        [pa.field("values", type_), pa.field("ids", pa.uint64(), nullable=False)],
        metadata={"batch_size": str(page_rows)},
    )


def page_data_schema(type_: pa.DataType) -> pa.Schema:
    """The columns of a plain segment's one file."""
    return data_schema(type_, PAGE_ROWS).remove_metadata()


def number_pages(pages: pa.RecordBatch, type_: pa.DataType) -> pa.RecordBatch:
    """The entries of one file's pages, as a lookup has them."""
    numbers = pa.array(np.arange(pages.num_rows, dtype=np.uint32))
    return pa.RecordBatch.from_arrays([*pages.columns, numbers], schema=lookup_schema(type_))


def merge_lookups(parts: Sequence[Part], type_: pa.DataType) -> pa.RecordBatch:
    """Number the pages of all parts through, touching nothing but their entries."""
    filled = [part for part in parts if part.rows]
    table = pa.Table.from_batches([part.pages for part in filled], page_schema(type_)).combine_chunks()
    numbers = pa.array(np.arange(table.num_rows, dtype=np.uint32))
    columns = [
        column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in table.columns
    ]
    return pa.RecordBatch.from_arrays([*columns, numbers], schema=lookup_schema(type_))


def lookup_metadata(parts: Sequence[Part], page_rows: int) -> dict[str, str]:
    """The schema metadata by which Lance's reader finds a page's file."""
    pages = [[part.part_id, part.pages.num_rows] for part in parts if part.rows]
    return {
        "batch_size": str(page_rows),
        "range_partitioned": "true",
        "page_num_per_range_partition": json.dumps(pages),
    }
