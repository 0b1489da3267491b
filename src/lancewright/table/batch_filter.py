"""Evaluates a filter on rows at hand by the engine that evaluates it on tables: they are made a table in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance

from lancewright.errors import UnsupportedError

if TYPE_CHECKING:
    import pyarrow as pa


def filter_table(rows: pa.Table, sql: str) -> pa.Table:
    """The rows for which a filter is TRUE, in their order."""
    try:
        dataset = lance.write_dataset(rows, "memory://rows")
        return dataset.scanner(filter=sql, scan_in_order=True).to_table()
    except (OSError, ValueError) as error:
        raise UnsupportedError(
            f"A filter cannot be evaluated on the values that an index keeps: {error}",
            "Query without indexes, and report it.",
        ) from error
