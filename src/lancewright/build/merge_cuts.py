"""Cuts several sorted segments at common keys, from their page lookups alone. Pure.

A cut is one place in every segment, so that all rows before it are no greater than all rows behind it, in any of them.
Where a page starts with the key, the place is the start of that page; rows equal to the key may then lie on both sides,
which is how one value repeated over many pages still cuts evenly. Else the place lies inside the one page that may hold
the key, and whoever reads that page finds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from lancewright.kinds.btree.sort_keys import exact_keys, key_width
from lancewright.kinds.btree.wide_values import order_wide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Places = NDArray[np.int64]


_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in one segment: a row's, or the first row of a page that is not less than the cut's key."""

    row: int | None = None
    page: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """One place in each segment; ``key`` is an array of one value, for the places that are inside a page."""

    key: pa.Array
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageEntries:
    """The page entries of one segment: values in their plain type, NULL where a page starts or ends with one."""

    mins: pa.Array
    maxs: pa.Array
    null_counts: Places
    page_rows: int

    @property
    def pages(self) -> int:
        """How many."""
        return len(self.null_counts)


def cut_segments(segments: Sequence[PageEntries], type_: pa.DataType, ranges: int) -> tuple[Cut, ...]:
    """Choose cuts that make about ``ranges`` ranges of equal size, ascending; fewer where there are few pages."""
    levels = [_Levels(*ranked) for ranked in _rank(segments)]
    nulls = sum(int(segment.null_counts.sum()) for segment in segments)
    starts = _page_starts(segments, levels)
    rows = nulls + sum(starts.rows.tolist())
    targets = [rows * number // ranges for number in range(1, ranges)]
    cuts: list[Cut] = []
    for target in targets:
        if target < nulls:
            places = tuple(_null_place(segment, target / nulls) for segment in segments)
            cut = Cut(key=pa.nulls(1, type_), places=places)
        elif len(starts.levels):
            cut = _value_cut(segments, levels, starts, target - nulls)
        else:
            break
        if not cuts or not _is_same(cut, cuts[-1]):
            cuts.append(cut)
    return tuple(cuts)


def _is_same(cut: Cut, other: Cut) -> bool:
    known = all(place.row is not None for place in cut.places)
    return cut.places == other.places and (known or cut.key.equals(other.key))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Starts:
    """Every page that starts with a value, of all segments, in order of that value."""

    levels: NDArray[np.uint64]
    segments: Places
    pages: Places
    rows: Places
    before: Places


class _Levels:
    """The ranks of one segment's pages: ``first`` is its first page that starts with a value."""

    def __init__(self, mins: NDArray[np.uint64], maxs: NDArray[np.uint64], first: int, values: int) -> None:
        self.mins = mins
        self.maxs = maxs
        self.first = first
        # Its first page that holds a value at all, behind NULLs or not.
        self.values = values


def _rank(
    segments: Sequence[PageEntries],
) -> list[tuple[NDArray[np.uint64], NDArray[np.uint64], int, int]]:
    """Replace values by integers of the same order, common to all segments."""
    bounds = pa.concat_arrays([array for segment in segments for array in (segment.mins, segment.maxs)])
    is_value = bounds.is_valid().to_numpy(zero_copy_only=False)
    ranks = np.zeros(len(bounds), dtype=np.uint64)
    ranks[is_value] = _rank_values(bounds.drop_null())
    found, start = [], 0
    for segment in segments:
        pages = segment.pages
        mins, maxs = ranks[start : start + pages], ranks[start + pages : start + 2 * pages]
        # NULLs come first, so the pages with a value in front, and those with one at the end, are the last ones.
        found.append((mins, maxs, segment.mins.null_count, segment.maxs.null_count))
        start += 2 * pages
    return found


def _rank_values(values: pa.Array) -> NDArray[np.uint64]:
    if key_width(values.type) is not None:
        return exact_keys(values)
    order = order_wide(values)
    # Numbers of equal values are equal. Arrow numbers every type; it does not compare decimals of a negative scale.
    numbers = values.dictionary_encode().indices.to_numpy()[order]
    ranks = np.zeros(len(values), dtype=np.uint64)
    ranks[order[1:]] = np.cumsum(numbers[1:] != numbers[:-1])
    return ranks


def _page_starts(segments: Sequence[PageEntries], levels: Sequence[_Levels]) -> _Starts:
    numbers = [
        np.full(segment.pages - level.first, number, dtype=np.int64)
        for number, (segment, level) in enumerate(zip(segments, levels, strict=True))
    ]
    pages = [
        np.arange(level.first, segment.pages, dtype=np.int64)
        for segment, level in zip(segments, levels, strict=True)
    ]
    values = np.concatenate([level.mins[level.first :] for level in levels])
    owner, page = np.concatenate(numbers), np.concatenate(pages)
    order = np.argsort(values, kind="stable")
    rows = np.array([segment.page_rows for segment in segments], dtype=np.int64)[owner[order]]
    return _Starts(
        levels=values[order],
        segments=owner[order],
        pages=page[order],
        rows=rows,
        before=np.cumsum(rows) - rows,
    )


def _value_cut(
    segments: Sequence[PageEntries], levels: Sequence[_Levels], starts: _Starts, target: int
) -> Cut:
    at = int(np.searchsorted(starts.before, target, side="right")) - 1
    level = starts.levels[at]
    first, last = (int(np.searchsorted(starts.levels, level, side)) - (side == "right") for side in _SIDES)
    # How far into the rows of pages that start with this very value.
    share = (target - int(starts.before[first])) / int(
        starts.before[last] + starts.rows[last] - starts.before[first]
    )
    places = tuple(
        _value_place(segment, entry, level, share) for segment, entry in zip(segments, levels, strict=True)
    )
    page = int(starts.pages[at])
    return Cut(key=segments[int(starts.segments[at])].mins.slice(page, 1), places=places)


def _value_place(segment: PageEntries, entry: _Levels, level: np.uint64, share: float) -> Place:
    starting = entry.mins[entry.first :]
    low = entry.first + int(np.searchsorted(starting, level, side="left"))
    high = entry.first + int(np.searchsorted(starting, level, side="right"))
    if high > low:
        return Place(row=(low + int(share * (high - low))) * segment.page_rows)
    before = low - 1
    if before < entry.values:
        # No page with values comes before: the values start where the NULLs end.
        return Place(row=_null_end(segment))
    if entry.maxs[before] < level:
        return Place(row=low * segment.page_rows)
    return Place(page=before)


def _null_place(segment: PageEntries, share: float) -> Place:
    """The place of the NULL that has this share of all NULLs of the segment before it."""
    before = np.cumsum(segment.null_counts)
    if not len(before) or not before[-1]:
        return Place(row=0)
    wanted = int(share * int(before[-1]))
    page = int(np.searchsorted(before, wanted, side="right"))
    return Place(row=page * segment.page_rows + wanted - int(before[page]) + int(segment.null_counts[page]))


def _null_end(segment: PageEntries) -> int:
    holding = np.flatnonzero(segment.null_counts)
    if not len(holding):
        return 0
    return int(holding[-1]) * segment.page_rows + int(segment.null_counts[holding[-1]])
