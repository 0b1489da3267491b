"""The same facts as rows of Arrow tables, for frames: one row for each index."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lancewright.build.drop import DropReceipt
    from lancewright.build.receipt import CreateReceipt
    from lancewright.model.coverage import Coverage
    from lancewright.model.index import IndexState

_INDEX_SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("kind", pa.string()),
        ("columns", pa.list_(pa.string())),
        ("segments", pa.int64()),
        ("covered_rows", pa.int64()),
        ("gap_rows", pa.int64()),
        ("size_bytes", pa.int64()),
    ]
)
_CREATED_SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("kind", pa.string()),
        ("created", pa.bool_()),
        ("segments", pa.int64()),
        ("rows", pa.int64()),
        ("version", pa.int64()),
    ]
)
_DROPPED_SCHEMA = pa.schema([("name", pa.string()), ("dropped", pa.bool_()), ("version", pa.int64())])


def index_rows(entries: Sequence[tuple[IndexState, Coverage]]) -> pa.Table:
    """The indexes of a table with what they cover."""
    rows = [
        {
            "name": index.name,
            "kind": index.kind,
            "columns": list(index.columns),
            "segments": len(index.segments),
            "covered_rows": coverage.covered_rows,
            "gap_rows": coverage.gap_rows,
            "size_bytes": index.size_bytes,
        }
        for index, coverage in entries
    ]
    return pa.Table.from_pylist(rows, schema=_INDEX_SCHEMA)


def created_rows(receipt: CreateReceipt) -> pa.Table:
    """What a build did, for each index."""
    rows = [
        {
            "name": index.name,
            "kind": index.kind,
            "created": index.created,
            "segments": index.segments,
            "rows": index.rows,
            "version": receipt.version,
        }
        for index in receipt.indexes
    ]
    return pa.Table.from_pylist(rows, schema=_CREATED_SCHEMA)


def dropped_rows(name: str, receipt: DropReceipt | None) -> pa.Table:
    """What was taken out; None when it was not there."""
    version = None if receipt is None else receipt.version
    row = {"name": name, "dropped": receipt is not None, "version": version}
    return pa.Table.from_pylist([row], schema=_DROPPED_SCHEMA)
