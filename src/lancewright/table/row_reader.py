"""Reads rows of some fragments: those of a set, or all, those for which a filter is TRUE. Decides nothing.

Memory is a few batches. Columns come under the names they were asked by.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lancewright.model.columns import split_path
from lancewright.model.row_set import RowSet, row_set
from lancewright.table.lance_compat import serialize_rows, translating
from lancewright.table.opening import open_dataset

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lancewright.table.location import TableRef

# Up to here the row ids of a table with stable ids are asked for one by one; past it, of whole fragments.
_LISTED_ADDRESSES_MAX = 1000
_BATCH_BYTES_MAX = 16 << 20
# A blob is its bytes; left to itself Lance gives a description of where they are.
_BLOBS = "all_binary"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRequest:
    """Which rows of which fragments, and what of them.

    ``rows`` are addresses in these fragments; None means every row. ``native_indexes`` lets Lance ask its indexes for
    the filter. ``batch_rows`` of None leaves the size of batches to Lance.
    """

    fragments: tuple[int, ...]
    rows: RowSet | None
    filter: str | None
    columns: tuple[str, ...]
    with_row_id: bool = False
    with_row_address: bool = False
    native_indexes: bool = False
    limit: int | None = None
    batch_rows: int | None = None


def read_rows(table: TableRef, request: RowRequest, *, stable_row_ids: bool) -> Iterator[pa.RecordBatch]:
    """Yield the rows in the order of their addresses."""
    with translating(table, "read"):
        scanner = _scanner(open_dataset(table), request, stable_row_ids=stable_row_ids)
        yield from scanner.to_batches()


def count_rows(table: TableRef, request: RowRequest, *, stable_row_ids: bool) -> int:
    """How many rows there are."""
    with translating(table, "count the rows of"):
        return int(_scanner(open_dataset(table), request, stable_row_ids=stable_row_ids).count_rows())


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEffort:
    """What reading took: rows found, requests and bytes from storage, seconds; ``failure``: why an index did not help."""

    rows: int
    read_requests: int
    read_bytes: int
    seconds: float
    failure: str = ""


def measure_rows(table: TableRef, request: RowRequest, *, stable_row_ids: bool) -> ReadEffort:
    """Read the rows, keep none, and say what it took."""
    started = time.perf_counter()
    with translating(table, "read"):
        dataset: Any = open_dataset(table)
        scanner = _scanner(dataset, request, stable_row_ids=stable_row_ids)
        rows = sum(batch.num_rows for batch in scanner.to_batches())
        io = dataset.io_stats_incremental()
    return ReadEffort(
        rows=rows,
        read_requests=io.read_iops,
        read_bytes=io.read_bytes,
        seconds=time.perf_counter() - started,
    )


def _scanner(
    dataset: Any, request: RowRequest, *, stable_row_ids: bool
) -> Any:  # Any: pylance leaves it untyped
    options: dict[str, Any] = {
        "columns": _output_names(request.columns),
        "fragments": [dataset.get_fragment(fragment) for fragment in request.fragments],
        "use_scalar_index": request.native_indexes,
        "scan_in_order": True,
        "with_row_id": request.with_row_id,
        "with_row_address": request.with_row_address,
        "batch_size_bytes": _BATCH_BYTES_MAX,
        "blob_handling": _BLOBS,
    }
    if request.filter is not None:
        options["filter"] = request.filter
    if request.limit is not None:
        options["limit"] = request.limit
    if request.batch_rows is not None:
        options["batch_size"] = request.batch_rows
    if request.rows is not None:
        allowed = _row_ids(dataset, request, request.rows) if stable_row_ids else request.rows
        options["row_addr_allowlist"] = serialize_rows(allowed.fragments)
    return dataset.scanner(**options)


def _output_names(columns: tuple[str, ...]) -> list[str]:
    """Paths as a projection takes them: what stands there is what the column is called, backticks and all."""
    names = [split_path(column) for column in columns]
    return [name[0] if len(name) == 1 else path for name, path in zip(names, columns, strict=True)]


def _row_ids(dataset: Any, request: RowRequest, rows: RowSet) -> RowSet:  # Any: see _scanner
    """The stable ids of the live rows at these addresses: the allow list of a scanner is one of ids."""
    addresses = rows.addresses()
    listed = len(addresses) <= _LISTED_ADDRESSES_MAX
    mapping = dataset.scanner(
        columns=[],
        fragments=[dataset.get_fragment(fragment) for fragment in request.fragments],
        filter=f"_rowaddr IN ({','.join(map(str, addresses.tolist()))})" if listed else None,
        with_row_id=True,
        with_row_address=True,
        use_scalar_index=False,
    ).to_table()
    ids = mapping.column("_rowid").to_numpy()
    return row_set(ids if listed else ids[np.isin(mapping.column("_rowaddr").to_numpy(), addresses)])


def read_schema(
    table: TableRef, columns: tuple[str, ...], *, with_row_id: bool, with_row_address: bool
) -> pa.Schema:
    """The schema of what ``read_rows`` yields."""
    with translating(table, "read the schema of"):
        dataset: Any = open_dataset(table)
        return dataset.scanner(
            columns=_output_names(columns),
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            blob_handling=_BLOBS,
        ).projected_schema
