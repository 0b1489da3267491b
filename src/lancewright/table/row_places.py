"""Answers where rows are now that a segment knows by their addresses or ids of an earlier version. Reads no column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lancewright.table.lance_compat import translating
from lancewright.table.opening import open_dataset
from lancewright.table.row_translation import RowTranslator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lancewright.table.location import TableRef


class RowPlaces:
    """The rows of some fragments of a table's version."""

    def __init__(self, table: TableRef, fragments: Sequence[int]) -> None:
        """Look for rows in these fragments only."""
        self._table = table
        self._fragments = np.array(sorted(fragments), dtype=np.uint64)

    def follow(self, addresses: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.uint64]]:
        """Which of these addresses lie in the fragments now, and where; not on tables with stable row ids."""
        with translating(self._table, "follow rows of"):
            now, alive = RowTranslator(self._table).translate(addresses)
        inside = np.isin(now >> np.uint64(32), self._fragments)
        if alive is not None:
            inside &= alive
        places = np.flatnonzero(inside)
        return places, now[places]

    def find(self, row_ids: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.uint64]]:
        """Which rows with these stable ids lie in the fragments now, and where."""
        with translating(self._table, "find rows of"):
            dataset: Any = open_dataset(self._table)  # Any: pylance leaves it untyped
            found = dataset.scanner(
                columns=[],
                with_row_id=True,
                with_row_address=True,
                use_scalar_index=False,
                fragments=[dataset.get_fragment(int(fragment)) for fragment in self._fragments],
            ).to_table()
        ids, addresses = found["_rowid"].to_numpy(), found["_rowaddr"].to_numpy()
        if not len(ids):
            return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.uint64)
        order = np.argsort(ids)
        ids, addresses = ids[order], addresses[order]
        at = np.minimum(np.searchsorted(ids, row_ids), len(ids) - 1)
        places = np.flatnonzero(ids[at] == row_ids)
        return places, addresses[at[places]]
