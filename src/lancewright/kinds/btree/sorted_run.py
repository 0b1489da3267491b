"""Rows of one key range in order: values and row addresses side by side. Pure.

A run of NULLs has no values. Types of one machine word travel as integers (``keys``), wider ones as Arrow arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancewright.kinds.btree.packed_sort import order_keys
from lancewright.kinds.btree.sort_keys import exact_keys, key_width, values_of_keys
from lancewright.kinds.btree.wide_values import sort_wide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Keys = NDArray[np.uint64]
    Addresses = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedRun:
    """Rows without NULL in ascending order of (value, address)."""

    type: pa.DataType
    addresses: Addresses
    keys: Keys | None = None
    wide: pa.Array | None = None

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.addresses)

    def values(self, start: int, stop: int) -> pa.Array:
        """The values of some rows."""
        if self.keys is not None:
            return values_of_keys(self.keys[start:stop], self.type)
        if self.wide is None:
            raise TypeError("a run holds keys or an array")
        return self.wide.slice(start, stop - start)

    def slice(self, start: int, stop: int) -> SortedRun:
        """Some rows, without a copy."""
        return SortedRun(
            type=self.type,
            addresses=self.addresses[start:stop],
            keys=None if self.keys is None else self.keys[start:stop],
            wide=None if self.wide is None else self.wide.slice(start, stop - start),
        )


def sort_rows(values: pa.Array, addresses: Addresses) -> SortedRun:
    """Sort rows without NULLs whose addresses ascend; equal values end up in order of address."""
    if key_width(values.type) is not None:
        keys, order = order_keys(exact_keys(values))
        return SortedRun(type=values.type, addresses=_pick(addresses, order), keys=keys)
    wide, order = sort_wide(values)
    return SortedRun(type=values.type, addresses=_pick(addresses, order), wide=wide)


def take_sorted(values: pa.Array, addresses: Addresses) -> SortedRun:
    """Rows without NULLs that are in order already, as a page file has them."""
    if key_width(values.type) is not None:
        return SortedRun(type=values.type, addresses=addresses, keys=exact_keys(values))
    return SortedRun(type=values.type, addresses=addresses, wide=values)


def _pick(addresses: Addresses, order: NDArray[np.int64]) -> Addresses:
    """Ascending addresses in a new order. Without deleted rows in between they are a count, and need no gather."""
    if len(addresses) and int(addresses[-1] - addresses[0]) == len(addresses) - 1:
        counted = order.astype(np.uint64)
        counted += np.uint64(addresses[0])
        return counted
    return addresses.take(order)


def merge_runs(runs: Sequence[SortedRun], type_: pa.DataType) -> SortedRun:
    """Make one run of several.

    They are sorted again as a whole: at 10 ns a row that beats merging, which NumPy has no instruction for. Runs of
    one column chunk each hold disjoint spans of addresses; brought into that order, equal values end up in it too.
    """
    if len(runs) == 1:
        return runs[0]
    runs = sorted(runs, key=lambda run: int(run.addresses.min()) if len(run) else 0)
    addresses = np.concatenate([run.addresses for run in runs]) if runs else np.zeros(0, dtype=np.uint64)
    if key_width(type_) is not None:
        gathered = [run.keys for run in runs if run.keys is not None]
        keys, order = order_keys(np.concatenate(gathered) if gathered else np.zeros(0, dtype=np.uint64))
        return SortedRun(type=type_, addresses=addresses.take(order), keys=keys)
    parts = [run.wide for run in runs if run.wide is not None]
    wide, order = sort_wide(pa.concat_arrays(parts) if parts else pa.array([], type_))
    return SortedRun(type=type_, addresses=addresses.take(order), wide=wide)
