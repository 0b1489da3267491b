"""Changes a table's own settings, which every engine that writes to it obeys."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lancewright.errors import ConflictError
from lancewright.table.lance_compat import is_commit_conflict, open_cause, translate_error
from lancewright.table.opening import open_dataset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lancewright.table.location import TableRef

_logger = logging.getLogger("lancewright")
# Compaction keeps the segments and remembers where rows went, instead of rewriting segments on the spot.
DEFER_REMAP_KEY = "lance.compaction.defer_index_remap"


def set_table_config(table: TableRef, entries: Mapping[str, str]) -> None:
    """Set entries of the table's config in one commit."""
    try:
        open_dataset(table.latest()).update_config(dict(entries))
    except Exception as error:  # noqa: BLE001 - translated, whatever it is
        if is_commit_conflict(error):
            raise ConflictError(
                f"Another writer changed the settings of {table.name}", "Read the table again and retry."
            ) from open_cause(error, table)
        raise translate_error(error, table, "change the settings of") from open_cause(error, table)


def unset_table_config(table: TableRef, key: str) -> None:
    """Remove an entry of the table's config, as far as the store lets; it was set for something that did not happen."""
    try:
        open_dataset(table.latest()).delete_config_keys([key])
    except Exception as error:  # noqa: BLE001 - the caller is telling of a worse trouble already
        _logger.warning("could not unset %s of %s: %s", key, table.name, type(error).__name__)
