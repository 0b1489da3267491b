"""Answers where rows are now that an index knows from its build: deleted ones fall away, moved ones are followed."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lancewright.model.addresses import distinct
from lancewright.model.row_set import row_set
from lancewright.table.lance_compat import serialize_rows, translating
from lancewright.table.opening import open_dataset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lancewright.model.snapshot import TableSnapshot
    from lancewright.table.location import TableRef

_FRAGMENT_BITS = np.uint64(32)


class LiveRows:
    """The rows of a table at one version."""

    def __init__(self, table: TableRef, snapshot: TableSnapshot) -> None:
        """Read nothing yet: where nothing moved and nothing was deleted, nothing has to be read. The reference names the snapshot's version."""
        self._table = table
        self._fragments = np.array(sorted(snapshot.fragments_by_id), dtype=np.uint64)
        self._deleted = {fragment.id for fragment in snapshot.fragments if fragment.deleted_rows}
        self._moved = bool(snapshot.deferred)

    def follow(self, addresses: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The addresses that live rows have now, of addresses at an earlier version; not on tables with stable row ids."""
        with translating(self._table, "follow rows of"):
            if self._moved and len(addresses):
                moved = self._dataset.remap_row_addrs(pa.array(addresses, pa.uint64()))
                addresses = addresses if moved is None else moved.drop_null().to_numpy()
            there = addresses[np.isin(addresses >> _FRAGMENT_BITS, self._fragments)]
            return self._without_deleted(there)

    def find(self, row_ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The addresses of live rows by their stable ids."""
        if not len(row_ids):
            return row_ids
        with translating(self._table, "find rows of"):
            return self._allowed(row_ids)

    @cached_property
    def _dataset(self) -> Any:  # Any: pylance leaves it untyped
        return open_dataset(self._table)

    def _without_deleted(self, addresses: NDArray[np.uint64]) -> NDArray[np.uint64]:
        if not self._deleted or not len(addresses):
            return addresses
        deleted = np.array(sorted(self._deleted), dtype=np.uint64)
        suspect = np.isin(addresses >> _FRAGMENT_BITS, deleted)
        if not suspect.any():
            return addresses
        return np.concatenate([addresses[~suspect], self._allowed(addresses[suspect])])

    def _allowed(self, row_ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Lance looks into deletion files and row ids only: no column is read."""
        scanner = self._dataset.scanner(
            columns=[],
            row_addr_allowlist=serialize_rows(row_set(row_ids).fragments),
            with_row_address=True,
            use_scalar_index=False,
        )
        found: NDArray[np.uint64] = scanner.to_table().column("_rowaddr").to_numpy()
        return found


class ListedRows:
    """The live rows of some fragments, listed once, for who asks many times. Sixteen bytes of memory a row."""

    def __init__(self, table: TableRef, snapshot: TableSnapshot, fragments: Sequence[int]) -> None:
        """Read them; the reference names the snapshot's version."""
        self._table = table
        dataset: Any = open_dataset(table)  # Any: pylance leaves it untyped
        self._dataset = dataset
        self._moved = bool(snapshot.deferred)
        with translating(table, "list the rows of"):
            found = dataset.scanner(
                columns=[],
                fragments=[dataset.get_fragment(fragment) for fragment in fragments],
                with_row_id=True,
                with_row_address=True,
                use_scalar_index=False,
            ).to_table()
        ids = found.column("_rowid").to_numpy()
        order = np.argsort(ids, kind="stable")
        self._ids: NDArray[np.uint64] = ids[order]
        self._addresses: NDArray[np.uint64] = found.column("_rowaddr").to_numpy()[order]

    def follow(self, addresses: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The addresses that live rows have now, of addresses at an earlier version; not on tables with stable row ids."""
        if self._moved and len(addresses):
            with translating(self._table, "follow rows of"):
                moved = self._dataset.remap_row_addrs(pa.array(addresses, pa.uint64()))
            addresses = addresses if moved is None else moved.drop_null().to_numpy()
        return self.find(addresses)

    def find(self, row_ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The addresses of live rows by their ids, ascending, each once."""
        if not len(self._ids) or not len(row_ids):
            return self._addresses[:0]
        at = np.minimum(np.searchsorted(self._ids, row_ids), len(self._ids) - 1)
        return distinct(self._addresses[at[self._ids[at] == row_ids]])
