"""Opens a dataset from a reference, and says plainly why it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance

from lancewright.table.lance_compat import require_lance, translating

if TYPE_CHECKING:
    from lancewright.table.location import TableRef


def open_dataset(table: TableRef) -> lance.LanceDataset:
    """Open the table at the version the reference names, or at the latest."""
    require_lance()
    options = dict(table.storage_options) or None
    with translating(table, "open"):
        return lance.dataset(table.root_uri, version=table.version, storage_options=options)
