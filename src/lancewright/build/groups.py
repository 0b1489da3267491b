"""Cuts a run of fragments into contiguous groups of about equal rows. Pure.

Contiguous, because Lance compacts only neighbours that the same segments cover: interleaved groups stop compaction.
"""

from __future__ import annotations

import heapq
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def cut_contiguous(weights: Sequence[int], groups: int) -> tuple[range, ...]:
    """Cut positions into ``groups`` runs (fewer when there are fewer positions), keeping the heaviest run lightest."""
    groups = min(groups, len(weights))
    if groups <= 0:
        return ()
    runs = _pack(weights, _least_capacity(weights, groups))
    return _split_heaviest(runs, weights, groups)


def split_at_gaps(positions: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Split ascending positions wherever one is missing."""
    if not positions:
        return ()
    cuts = [0, *(place + 1 for place, (left, right) in enumerate(pairwise(positions)) if right != left + 1)]
    return tuple(tuple(positions[start:end]) for start, end in pairwise([*cuts, len(positions)]))


def _least_capacity(weights: Sequence[int], groups: int) -> int:
    low, high = max(weights), max(sum(weights), 1)
    while low < high:
        middle = (low + high) // 2
        if len(_pack(weights, middle)) <= groups:
            high = middle
        else:
            low = middle + 1
    return low


def _pack(weights: Sequence[int], capacity: int) -> list[range]:
    runs: list[range] = []
    start, load = 0, 0
    for position, weight in enumerate(weights):
        if position > start and load + weight > capacity:
            runs.append(range(start, position))
            start, load = position, 0
        load += weight
    runs.append(range(start, len(weights)))
    return runs


def _split_heaviest(runs: Sequence[range], weights: Sequence[int], groups: int) -> tuple[range, ...]:
    """Halve the heaviest run that can still be halved, until there are enough. A heap: ten thousand runs are common."""
    whole = [run for run in runs if len(run) == 1]
    heap = [_weighed(run, weights) for run in runs if len(run) > 1]
    heapq.heapify(heap)
    while len(whole) + len(heap) < groups:
        for half in _halve(heapq.heappop(heap)[-1], weights):
            if len(half) == 1:
                whole.append(half)
            else:
                heapq.heappush(heap, _weighed(half, weights))
    return tuple(sorted([*whole, *(entry[-1] for entry in heap)], key=lambda run: run.start))


def _weighed(run: range, weights: Sequence[int]) -> tuple[int, int, int, range]:
    return (-sum(weights[position] for position in run), -len(run), run.start, run)


def _halve(run: range, weights: Sequence[int]) -> tuple[range, range]:
    sums = list(accumulate(weights[position] for position in run))
    # Equally good cuts, as between fragments without rows, are decided for the middle.
    half = min(
        range(1, len(run)), key=lambda cut: (abs(2 * sums[cut - 1] - sums[-1]), abs(2 * cut - len(run)))
    )
    return range(run.start, run.start + half), range(run.start + half, run.stop)
