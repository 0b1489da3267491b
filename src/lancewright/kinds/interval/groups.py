"""Intervals by their length: which groups there are, where those that a window wants can lie, how many these may be. Pure.

In a group no interval is more than about twice as long as another. So of the intervals that hold a point, those of one group
start within one stretch before it, and at least about half of what starts there does hold it. An interval whose end is before
its start has a length below 0 and is in a group like any other: conditions on its start and its end are TRUE or not, and that is
all that is asked.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from lancewright.kinds.interval.conditions import Window

    Numbers = NDArray[np.uint64]

# Smaller groups are put together with the next longer: one read each is what they cost.
GROUP_ROWS_MIN = 4096
_QUANTILES = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Entries from ``begin`` to ``stop``, ordered by start: the least and greatest length, and starts at equal distances."""

    begin: int
    stop: int
    shortest: int
    longest: int
    starts: tuple[int, ...]

    def wanted(self, window: Window) -> tuple[int, int] | None:
        """From where to where, both included, intervals that the window wants start; None when there are none."""
        low, high = window.starts_for(self.shortest, self.longest)
        low, high = max(low, self.starts[0]), min(high, self.starts[-1])
        return (low, high) if low <= high else None

    def share(self, low: int, high: int) -> float:
        """About which part of the group starts between these."""
        places = np.linspace(0.0, 1.0, len(self.starts))
        ends = np.interp([float(low), float(high)], [float(start) for start in self.starts], places)
        # Where several quantiles are one start, interp gives some place among them.
        return float(ends[1] - ends[0]) + 1.0 / max(1, self.stop - self.begin)


def groups_to_bytes(groups: Sequence[Group]) -> bytes:
    """Groups as they are on storage, and in the summary."""
    return json.dumps(
        [[one.begin, one.stop, one.shortest, one.longest, *one.starts] for one in groups],
        separators=(",", ":"),
    ).encode()


def groups_from_bytes(content: bytes) -> tuple[Group, ...]:
    """The groups as they were."""
    return tuple(
        Group(begin=begin, stop=stop, shortest=shortest, longest=longest, starts=tuple(starts))
        for begin, stop, shortest, longest, *starts in json.loads(content)
    )


def order_by_group(starts: Numbers, ends: Numbers) -> tuple[NDArray[np.int64], tuple[Group, ...]]:
    """The order of the entries, by group and in it by start, and the groups."""
    forward = ends >= starts
    lengths = np.where(forward, ends - starts, starts - ends)
    size = _bit_length(lengths)
    classes = np.where(forward, size, -size).astype(np.int16)  # NumPy sorts these by counting
    order: NDArray[np.int64] = np.argsort(classes, kind="stable")
    ordered = classes[order]
    cuts = [*np.flatnonzero(np.diff(ordered)) + 1, len(ordered)] if len(ordered) else []
    bounds = list(_joined([int(cut) for cut in cuts]))
    for begin, stop in bounds:
        group = order[begin:stop]
        order[begin:stop] = group[np.argsort(starts[group])]
    return order, tuple(
        _group(starts[order[begin:stop]], ends[order[begin:stop]], begin, stop) for begin, stop in bounds
    )


def _joined(cuts: Sequence[int]) -> Iterator[tuple[int, int]]:
    begin = 0
    for cut in cuts:
        if cut - begin >= GROUP_ROWS_MIN or cut == cuts[-1]:
            yield begin, cut
            begin = cut


def _group(starts: Numbers, ends: Numbers, begin: int, stop: int) -> Group:
    forward = ends >= starts
    longer, shorter = ends[forward] - starts[forward], starts[~forward] - ends[~forward]
    lengths = [int(one) for part in (longer,) if len(part) for one in (part.min(), part.max())]
    lengths += [-int(one) for part in (shorter,) if len(part) for one in (part.min(), part.max())]
    places = np.linspace(0, stop - begin - 1, _QUANTILES).astype(np.int64)
    return Group(
        begin=begin,
        stop=stop,
        shortest=min(lengths),
        longest=max(lengths),
        starts=tuple(starts[places].tolist()),
    )


def _bit_length(numbers: Numbers) -> NDArray[np.int64]:
    """How many bits each number has. By halving, because a float64 rounds numbers of more than 53 bits up."""
    bits = np.zeros(len(numbers), dtype=np.int64)
    left = numbers.copy()
    for step in (32, 16, 8, 4, 2, 1):
        large = left >= np.uint64(1) << np.uint64(step)
        bits[large] += step
        left[large] >>= np.uint64(step)
    return bits + left.astype(np.int64)
