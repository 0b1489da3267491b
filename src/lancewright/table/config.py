"""Changes a table's own settings, which every engine that writes to it obeys."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lancewright.errors import ConflictError
from lancewright.table.lance_compat import is_commit_conflict, open_cause, translate_error
from lancewright.table.opening import open_dataset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lancewright.errors import LancewrightError
    from lancewright.table.location import TableRef

_logger = logging.getLogger("lancewright")
# Compaction keeps the segments and remembers where rows went, instead of rewriting segments on the spot.
DEFER_REMAP_KEY = "lance.compaction.defer_index_remap"


def set_table_config(table: TableRef, entries: Mapping[str, str]) -> None:
    """Set entries of the table's config in one commit."""
    try:
        open_dataset(table.latest()).update_config(dict(entries))
    except Exception as error:  # noqa: BLE001 - translated, whatever it is
        raise _translate(error, table) from open_cause(error, table)


def unset_table_config(table: TableRef, *keys: str) -> None:
    """Remove entries of the table's config, as far as the store lets; they were set for something that is over."""
    try:
        open_dataset(table.latest()).delete_config_keys(list(keys))
    except Exception as error:  # noqa: BLE001 - nothing depends on it: who finds them set again removes them
        _logger.warning("could not unset %s of %s: %s", ", ".join(keys), table.name, type(error).__name__)


def remove_table_config(table: TableRef, key: str) -> None:
    """Remove an entry of the table's config in one commit; raises when that cannot be done."""
    try:
        open_dataset(table.latest()).delete_config_keys([key])
    except Exception as error:  # noqa: BLE001 - translated, whatever it is
        raise _translate(error, table) from open_cause(error, table)


def _translate(error: Exception, table: TableRef) -> LancewrightError:
    if is_commit_conflict(error):
        return ConflictError(
            f"Another writer changed the settings of {table.name}", "Read the table again and retry."
        )
    return translate_error(error, table, "change the settings of")
