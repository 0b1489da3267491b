"""Which row a segment's row number stands for: a fragment and an offset, or a stable row id. Pure.

Rows are numbered through the fragments in the order in which the segment was built, deleted ones too. On a table with stable
row ids the ids themselves are kept as well, as runs of consecutive ones, because rows keep their id where they go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

ROWS_MAX = 2**31 - 1
_FRAGMENT_BITS = np.uint64(32)
_OFFSET_MASK = np.uint64(0xFFFFFFFF)
_RUN = np.dtype([("row", "<u4"), ("id", "<u8"), ("length", "<u4")])


@dataclass(frozen=True, eq=False)
class RowMap:
    """The fragments of a segment as (id, physical rows)."""

    fragments: tuple[tuple[int, int], ...]

    @property
    def rows(self) -> int:
        """How many row numbers there are."""
        return sum(rows for _, rows in self.fragments)

    def numbers(self, addresses: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """The row numbers of row addresses in these fragments."""
        ids, starts = self._arrays()
        order = np.argsort(ids)
        places = order[np.searchsorted(ids, addresses >> _FRAGMENT_BITS, sorter=order)]
        return (starts[places] + (addresses & _OFFSET_MASK)).astype(np.uint32)

    def addresses(self, numbers: NDArray[np.uint32]) -> NDArray[np.uint64]:
        """The row addresses of row numbers."""
        ids, starts = self._arrays()
        places = np.searchsorted(starts, numbers, side="right") - 1
        return (ids[places] << _FRAGMENT_BITS) | (numbers.astype(np.uint64) - starts[places])

    def _arrays(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        ids = np.array([fragment for fragment, _ in self.fragments], dtype=np.uint64)
        rows = np.array([rows for _, rows in self.fragments], dtype=np.uint64)
        return ids, np.cumsum(rows) - rows


def pack_row_ids(numbers: NDArray[np.uint32], ids: NDArray[np.uint64]) -> bytes:
    """Row ids of ascending row numbers, as runs in which both count up together."""
    if not len(numbers):
        return b""
    breaks = (np.diff(numbers) != 1) | (
        np.diff(ids) != 1
    )  # a difference of unsigned numbers wraps, and is not 1 then
    starts = np.concatenate(([0], np.flatnonzero(breaks) + 1))
    runs = np.empty(len(starts), dtype=_RUN)
    runs["row"], runs["id"] = numbers[starts], ids[starts]
    runs["length"] = np.diff(np.append(starts, len(numbers)))
    return runs.tobytes()


def row_ids(packed: memoryview, numbers: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """The row ids of row numbers; one that was deleted when the segment was built has none and is left out."""
    runs = np.frombuffer(packed, dtype=_RUN)
    if not len(runs) or not len(numbers):
        return np.zeros(0, dtype=np.uint64)
    places = np.searchsorted(runs["row"], numbers, side="right") - 1
    run = runs[np.maximum(places, 0)]
    inside = numbers.astype(np.int64) - run["row"].astype(np.int64)
    known = (places >= 0) & (inside < run["length"])
    found: NDArray[np.uint64] = run["id"][known] + inside[known].astype(np.uint64)
    return found


def all_row_ids(packed: memoryview) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    """Every row number that has a row id, and its id."""
    runs = np.frombuffer(packed, dtype=_RUN)
    lengths = runs["length"].astype(np.int64)
    inside = np.arange(int(lengths.sum()), dtype=np.int64) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    numbers = np.repeat(runs["row"], lengths) + inside.astype(np.uint32)
    return numbers, np.repeat(runs["id"], lengths) + inside.astype(np.uint64)


def physical_rows(fragments: Sequence[tuple[int, int]]) -> int:
    """How many rows, deleted ones included."""
    return sum(rows for _, rows in fragments)
