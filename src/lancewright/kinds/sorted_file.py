"""Files of sorted 64-bit numbers and what belongs to each, searched by reading few pages. For kinds that sort.

A page is 8,192 numbers, one 64 KiB block of a segment's store. The first number of every page is kept apart, so that a search
reads that small file once and then a page.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from lancewright.kinds.contract import RangeFile, Store

    Numbers = NDArray[np.uint64]
    Places = NDArray[np.int64]

PAGE = 8192
# More pages than this share of a file are read as a whole: one request instead of many.
_WHOLE_SHARE = 0.25
_SLICES_MAX = 64


def write_array(out: Store, name: str, values: NDArray[Any]) -> None:
    """Write numbers as they lie in memory, little endian."""
    with out.create(name) as file:
        if len(values):
            file.write(np.ascontiguousarray(values).view(np.uint8).data)


def write_sorted(out: Store, name: str, numbers: Numbers) -> None:
    """Write ascending numbers and the first of every page."""
    write_array(out, name, numbers)
    write_array(out, f"{name}.fences", numbers[::PAGE])


class ArrayFile:
    """A file of numbers of one type."""

    def __init__(self, file: RangeFile, dtype: str) -> None:
        """Read nothing yet."""
        self._file = file
        self._dtype = np.dtype(dtype)

    def __len__(self) -> int:
        """How many numbers there are."""
        return self._file.size // self._dtype.itemsize

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Some neighbours."""
        width = self._dtype.itemsize
        return np.frombuffer(self._file.read(start * width, (stop - start) * width), dtype=self._dtype)

    def take(self, places: Places) -> NDArray[Any]:
        """The numbers at ascending places, reading the pages they lie in."""
        if not len(places):
            return np.zeros(0, dtype=self._dtype)
        pages = np.unique(places // PAGE)
        if len(pages) > _WHOLE_SHARE * (len(self) / PAGE):
            return self.read(0, len(self))[places]
        found = np.empty(len(places), dtype=self._dtype)
        for low, high in _runs(pages):
            start, stop = low * PAGE, min((high + 1) * PAGE, len(self))
            first, last = np.searchsorted(places, [start, stop])
            found[first:last] = self.read(start, stop)[places[first:last] - start]
        return found

    def slices(self, starts: Places, stops: Places) -> NDArray[Any]:
        """The numbers of ascending, disjoint runs of places, one after the other."""
        if not len(starts):
            return np.zeros(0, dtype=self._dtype)
        if len(starts) <= _SLICES_MAX:
            parts = [self.read(int(start), int(stop)) for start, stop in zip(starts, stops, strict=True)]
            return np.concatenate(parts)
        return self.take(expand(starts, stops))


class SortedFile:
    """A file of ascending numbers."""

    def __init__(self, store: Store, name: str) -> None:
        """Read nothing yet."""
        self._store = store
        self._name = name

    def __len__(self) -> int:
        """How many numbers there are."""
        return len(self._numbers)

    def left(self, wanted: Numbers) -> Places:
        """For each: the place of the first number that is not smaller."""
        pages = np.searchsorted(self._fences, wanted, side="left") - 1
        return self._search(wanted, pages, "left")

    def right(self, wanted: Numbers) -> Places:
        """For each: the place behind the last number that is not larger."""
        pages = np.searchsorted(self._fences, wanted, side="right") - 1
        return self._search(wanted, pages, "right")

    @cached_property
    def _numbers(self) -> ArrayFile:
        return ArrayFile(self._store.open(self._name), "<u8")

    @cached_property
    def _fences(self) -> Numbers:
        fences = ArrayFile(self._store.open(f"{self._name}.fences"), "<u8")
        return fences.read(0, len(fences))

    def _search(self, wanted: Numbers, pages: Places, side: Any) -> Places:  # Any: numpy's literal
        places = np.zeros(len(wanted), dtype=np.int64)
        needed = np.unique(pages[pages >= 0])  # before the first page there is nothing
        if len(needed) > _WHOLE_SHARE * len(self._fences) and len(needed) > 1:
            places[:] = np.searchsorted(self._numbers.read(0, len(self)), wanted, side=side)
            return places
        for page in needed.tolist():
            inside = pages == page
            start = page * PAGE
            numbers = self._numbers.read(start, min(start + PAGE, len(self)))
            places[inside] = start + np.searchsorted(numbers, wanted[inside], side=side)
        return places


def expand(starts: Places, stops: Places) -> Places:
    """Every place of some runs."""
    lengths = stops - starts
    total = int(lengths.sum())
    if not total:
        return np.zeros(0, dtype=np.int64)
    offsets = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    places: Places = offsets + np.arange(total)
    return places


def merge_runs(starts: Places, stops: Places) -> tuple[Places, Places]:
    """The same places as ascending, disjoint runs; empty runs are left out."""
    filled = stops > starts
    order = np.argsort(starts[filled], kind="stable")
    starts, stops = starts[filled][order], stops[filled][order]
    if not len(starts):
        return starts, stops
    reach = np.maximum.accumulate(stops)
    new = np.concatenate(([True], starts[1:] > reach[:-1]))
    ends = np.append(np.flatnonzero(new)[1:] - 1, len(starts) - 1)
    return starts[new], reach[ends]


def _runs(pages: Places) -> Iterator[tuple[int, int]]:
    breaks = np.flatnonzero(np.diff(pages) != 1)
    starts = np.concatenate(([0], breaks + 1))
    ends = np.append(breaks, len(pages) - 1)
    yield from zip(pages[starts].tolist(), pages[ends].tolist(), strict=True)
