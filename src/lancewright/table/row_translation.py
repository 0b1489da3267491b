"""Takes row addresses an index holds through the deferred compactions the table remembers. Reads the manifest only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewright.table.opening import open_dataset

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lancewright.table.location import TableRef


class RowTranslator:
    """The compactions one version of a table remembers. An address that none of them moved stays as it is."""

    def __init__(self, table: TableRef) -> None:
        """Open the version the reference names."""
        self._dataset: Any = open_dataset(table)  # Any: pylance's dataset is untyped

    def translate(self, addresses: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_] | None]:
        """The addresses now, and which of them still stand for a row; None when all do."""
        moved = self._dataset.remap_row_addrs(pa.array(addresses))
        if moved is None:
            return addresses, None
        alive = None if not moved.null_count else moved.is_valid().to_numpy(zero_copy_only=False)
        return moved.fill_null(0).to_numpy(zero_copy_only=False), alive
