"""Sorts through one packed integer: (key << bits | place), the fastest order NumPy knows. Pure.

NumPy sorts uint64 with vector instructions at 5 to 10 ns a row; ``argsort`` takes 15 to 75 ns and the stable one 130 to
200 (1 to 4 M rows, one core). So the place of a row travels in the low bits of its key. ``take`` gathers at a third of the
price of indexing with an array (1 ns against 3).

The arithmetic around it is done in place: a fresh array costs more in page faults than the sum that fills it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Keys = NDArray[np.uint64]
    Rows = NDArray[np.int64]

_WORD_BITS = 64


def order_keys(keys: Keys) -> tuple[Keys, Rows]:
    """Return the keys in ascending order and the permutation; equal keys keep their order of arrival."""
    count = len(keys)
    if count < 2:
        return keys.copy(), np.arange(count, dtype=np.int64)
    low, high = keys.min(), keys.max()
    place_bits = int(count - 1).bit_length()
    dropped = max(0, int(high - low).bit_length() + place_bits - _WORD_BITS)
    packed = _pack(keys, low, place_bits, dropped)
    packed.sort()
    order = (packed & _mask(place_bits)).view(np.int64)
    packed >>= np.uint64(place_bits)
    if dropped == 0:
        # The sorted keys are in the packed integers: no gather over the whole array.
        packed += low
        return packed, order
    return _settle(keys, order, packed)


def sort_within(groups: Rows, rows: Rows) -> Rows:
    """Sort rows inside each group; the groups are ascending runs."""
    if not len(rows):
        return rows
    bits = max(1, int(rows.max()).bit_length())
    packed = (groups.astype(np.uint64) << np.uint64(bits)) | rows.astype(np.uint64)
    packed.sort()
    return (packed & _mask(bits)).astype(np.int64)


def rank_within(groups: Rows, ranking: Rows) -> Rows:
    """Bring a ranking of rows into order by group, keeping the ranking inside each group."""
    if not len(groups):
        return ranking
    places = np.arange(len(groups), dtype=np.int64)
    return ranking[sort_within(groups[ranking], places)]


def tied_places(ordered: NDArray[np.unsignedinteger] | Rows) -> Rows:
    """Places whose neighbour is equal."""
    same = ordered[1:] == ordered[:-1]
    flags = np.zeros(len(ordered), dtype=bool)
    flags[1:] |= same
    flags[:-1] |= same
    return np.flatnonzero(flags)


def group_numbers(words: Keys, groups: Rows | None) -> Rows:
    """Number the runs of equal (group, word)."""
    new = words[1:] != words[:-1]
    if groups is not None:
        new |= groups[1:] != groups[:-1]
    return np.concatenate([[0], np.cumsum(new)]).astype(np.int64)


def _pack(keys: Keys, low: np.uint64, place_bits: int, dropped: int) -> Keys:
    packed = keys - low
    packed >>= np.uint64(dropped)
    packed <<= np.uint64(place_bits)
    packed |= np.arange(len(keys), dtype=np.uint64)
    return packed


def _settle(keys: Keys, order: Rows, prefixes: Keys) -> tuple[Keys, Rows]:
    """Order the few rows whose keys differ only in the bits that did not fit."""
    tied = tied_places(prefixes)
    if len(tied):
        groups = group_numbers(prefixes[tied], None)
        rows = order[tied]
        ranked = rank_within(groups, np.argsort(keys[rows], kind="stable"))
        order[tied] = rows[ranked]
    return keys.take(order), order


def _mask(bits: int) -> np.uint64:
    return (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
