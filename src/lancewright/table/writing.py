"""Writes a new table from Arrow batches, one process. Ingest at scale is another room's work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance

from lancewright.errors import InvalidRequestError
from lancewright.table.lance_compat import open_cause, require_lance, translate_error

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from lancewright.table.location import TableRef


def write_new_table(
    table: TableRef,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    rows_per_fragment: int,
    *,
    stable_row_ids: bool = True,
) -> int:
    """Create a table, with stable row ids so that its indexes outlive compaction; return the version."""
    require_lance()
    try:
        dataset = lance.write_dataset(
            iter(batches),
            table.root_uri,
            schema=schema,
            mode="create",
            max_rows_per_file=rows_per_fragment,
            enable_stable_row_ids=stable_row_ids,
            storage_options=dict(table.storage_options) or None,
        )
    except Exception as error:  # noqa: BLE001 - translated, whatever it is
        if "already exists" in str(error).lower():
            raise InvalidRequestError(
                f"There is a table at {table.name} already", "Choose an empty place."
            ) from open_cause(error, table)
        raise translate_error(error, table, "write") from open_cause(error, table)
    return int(dataset.version)
