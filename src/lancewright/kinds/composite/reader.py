"""Finds the rows of conditions in one composite segment: conditions → ranges of codes → places → rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewright.kinds.composite.codes import as_bytes, layout_from_json
from lancewright.kinds.composite.conditions import (
    Conditions,
    HeadOf,
    Range,
    conditions_from_bytes,
    head_from_bytes,
)
from lancewright.kinds.composite.values import TextsFile
from lancewright.kinds.contract import Hits, Reader, row_numbers
from lancewright.kinds.sorted_file import ArrayFile, SortedFile, expand, merge_runs
from lancewright.kinds.whole_numbers import whole_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lancewright.kinds.composite.codes import KeyCode, Layout
    from lancewright.kinds.composite.conditions import Value
    from lancewright.kinds.contract import Probe, RowNumbers, SearchProbe, Store

    Numbers = NDArray[np.uint64]
    Places = NDArray[np.int64]

CODES_FILE = "codes"
ROWS_FILE = "rows"
LAYOUT_FILE = "layout"
_TEXTS_SEARCHED_MAX = 64
_NUMBER_MAX = 2**64 - 1


@dataclass(frozen=True, slots=True, eq=False)
class _Ranges:
    """Ranges of numbers, both ends included; ``points`` says that the two ends are the same."""

    low: Numbers
    high: Numbers
    points: bool

    def only(self, kept: NDArray[np.bool_]) -> _Ranges:
        """Some of them."""
        return _Ranges(self.low[kept], self.high[kept], points=self.points)


class CompositeReader(Reader):
    """One segment."""

    def __init__(self, store: Store) -> None:
        """Read nothing yet."""
        self._store = store

    def lookup(self, probe: Probe) -> RowNumbers:
        """The rows with one of the values in each of the first keys, and the next key in the range."""
        starts, stops = merge_runs(*self.find(conditions_from_bytes(probe.payload)))
        return row_numbers(self.rows.slices(starts, stops))

    def search(
        self, probe: SearchProbe, statistics: Sequence[bytes], k: int, allow: RowNumbers | None
    ) -> Hits:
        """The first rows of the order; a row's score is its place among them."""
        del statistics
        head = head_from_bytes(probe.payload)
        start, stop = self._run_of(head)
        if allow is None:
            start, stop = (max(start, stop - k), stop) if head.descending else (start, min(stop, start + k))
        rows = self.rows.read(start, stop)
        if head.descending:
            rows = rows[::-1]
        if allow is not None:
            rows = rows[np.isin(rows, np.frombuffer(allow.to_array(), dtype=np.uint32))][:k]
        return Hits(rows=rows, scores=np.arange(len(rows), dtype=np.float64))

    def _run_of(self, head: HeadOf) -> tuple[int, int]:
        if head.conditions is None:
            return 0, len(self.rows)
        starts, stops = self.find(head.conditions)
        return (int(starts[0]), int(stops[0])) if len(starts) else (0, 0)

    def find(self, conditions: Conditions) -> tuple[Places, Places]:
        """Where in the order of the segment the rows lie: for each combination of values a run of places."""
        nothing = np.zeros(0, dtype=np.int64)
        wanted = self._code_ranges(conditions)
        if wanted is None:
            return nothing, nothing
        found: _Ranges | None = None
        for level in range(len(self.layout.levels)):
            found = self._pack(level, found, wanted)
            if level < len(self.layout.levels) - 1:
                found, kept = _to_ranks(self._level(level), found)
                wanted = [one.only(kept) for one in wanted]
        if found is None:
            return nothing, nothing
        codes = SortedFile(self._store, CODES_FILE)
        return codes.left(found.low), codes.right(found.high)

    def lookup_many(self, keys: pa.RecordBatch) -> tuple[Places, NDArray[np.uint32]]:
        """Whole keys, all levels in one pass; a key with a NULL has no rows."""
        columns = [keys.column(f"k{key}") for key in range(len(self.layout.keys))]
        known = np.logical_and.reduce([one.is_valid().to_numpy(zero_copy_only=False) for one in columns])
        asked = np.flatnonzero(known)
        given = [values.take(pa.array(asked)) for values in columns]
        codes, held = zip(*(self._codes_of_each(*one) for one in enumerate(given)), strict=True)
        there = np.logical_and.reduce(held)
        return self._rows_of(asked[there], [_Ranges(one[there], one[there], points=True) for one in codes])

    @property
    def rows(self) -> ArrayFile:
        """The row of each code."""
        return ArrayFile(self._store.open(ROWS_FILE), "<u4")

    def codes(self) -> Numbers:
        """All codes, in order."""
        codes = ArrayFile(self._store.open(CODES_FILE), "<u8")
        return codes.read(0, len(codes))

    def level_numbers(self, level: int) -> Numbers:
        """The different numbers of a level but the last."""
        return self._whole(f"level{level}")

    def key_numbers(self, key: int) -> Numbers:
        """The different values of a key whose codes are ranks."""
        return self._whole(f"k{key}")

    def key_texts(self, key: int) -> pa.Array:
        """The different texts of a key."""
        return self._texts(key).whole()

    def _whole(self, name: str) -> Numbers:
        numbers = ArrayFile(self._store.open(name), "<u8")
        return numbers.read(0, len(numbers))

    def _pack(self, level: int, before: _Ranges | None, wanted: list[_Ranges]) -> _Ranges:
        """Ranges of a level's numbers: what is known of the keys before, then its own keys as far as they are asked for."""
        known = before
        rest = sum(self.layout.keys[key].bits for key in self.layout.levels[level])
        for key in self.layout.levels[level]:
            bits = self.layout.keys[key].bits
            if key >= len(wanted) or (known is not None and not known.points):
                break
            known = wanted[key] if known is None else _append(known, wanted[key], bits)
            rest -= bits
        assert known is not None  # noqa: S101 - nothing is looked up without a condition on the first key
        if not rest:
            return known
        shift, ones = np.uint64(rest), np.uint64((1 << rest) - 1)
        return _Ranges(known.low << shift, (known.high << shift) | ones, points=False)

    def _code_ranges(self, conditions: Conditions) -> list[_Ranges] | None:
        """The codes of each key asked for, for every combination of values; None when there can be no row."""
        found: list[_Ranges] = []
        for key, values in enumerate(conditions.values):
            codes = self._codes_of(key, values)
            if not len(codes):
                return None
            found.append(_Ranges(codes, codes, points=True))
        if conditions.range is not None:
            low, high = self._codes_between(len(found), conditions.range)
            if low > high:
                return None
            found.append(_Ranges(_number(low), _number(high), points=False))
        return _combine(found)

    def _codes_of(self, key: int, values: tuple[Value, ...]) -> Numbers:
        code = self.layout.keys[key]
        if code.form == "offset":
            codes = [value - code.low + 1 for value in values if isinstance(value, int)]
            return np.array(sorted(one for one in codes if 1 <= one <= code.count), dtype=np.uint64)
        if code.form == "numbers":
            file = SortedFile(self._store, f"k{key}")
            wanted = np.array([value for value in values if isinstance(value, int)], dtype=np.uint64)
            left, right = file.left(wanted), file.right(wanted)
            return np.sort(left[right > left]).astype(np.uint64) + np.uint64(1)
        texts = self._texts(key)
        places = [(texts.left(value), texts.right(value)) for value in values if isinstance(value, bytes)]
        return np.array(sorted(left + 1 for left, right in places if right > left), dtype=np.uint64)

    def _codes_of_each(self, key: int, values: pa.Array) -> tuple[Numbers, NDArray[np.bool_]]:
        """The code of each value of a key, and which values the segment has."""
        code = self.layout.keys[key]
        if code.form == "texts":
            places, held = self._places_of_texts(key, as_bytes(values))
            return places.astype(np.uint64) + np.uint64(1), held
        numbers = whole_numbers(values)
        if code.form == "offset":
            held = (numbers >= np.uint64(code.low)) & (numbers - np.uint64(code.low) < np.uint64(code.count))
            return np.where(held, numbers - np.uint64(code.low), np.uint64(0)) + np.uint64(1), held
        file = SortedFile(self._store, f"k{key}")
        left = file.left(numbers)
        return left.astype(np.uint64) + np.uint64(1), file.right(numbers) > left

    def _places_of_texts(self, key: int, values: pa.Array) -> tuple[Places, NDArray[np.bool_]]:
        """Few texts are searched for one by one, many among all that the segment has."""
        if len(values) <= _TEXTS_SEARCHED_MAX:
            texts, wanted = self._texts(key), values.to_pylist()
            left = np.array([texts.left(one) for one in wanted], dtype=np.int64)
            return left, np.array([texts.right(one) for one in wanted], dtype=np.int64) > left
        places = pc.index_in(values, value_set=self.key_texts(key))
        held = places.is_valid().to_numpy(zero_copy_only=False)
        return places.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64), held

    def _rows_of(self, asked: Places, wanted: list[_Ranges]) -> tuple[Places, NDArray[np.uint32]]:
        """The rows of keys given by their codes, each with the place of its key."""
        found: _Ranges | None = None
        for level in range(len(self.layout.levels)):
            found = self._pack(level, found, wanted)
            if level < len(self.layout.levels) - 1:
                found, kept = _to_ranks(self._level(level), found)
                wanted, asked = [one.only(kept) for one in wanted], asked[kept]
        if found is None or not len(asked):
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint32)
        codes = SortedFile(self._store, CODES_FILE)
        starts, stops = codes.left(found.low), codes.right(found.high)
        places = np.repeat(asked, stops - starts)
        entries, back = np.unique(expand(starts, stops), return_inverse=True)
        return places, self.rows.take(entries)[back]

    def _codes_between(self, key: int, bounds: Range) -> tuple[int, int]:
        """The least and greatest code within bounds, NULL left out."""
        code = self.layout.keys[key]
        low, high = 1, code.count
        if bounds.low is not None:
            low = max(low, 1 + self._places_below(key, code, bounds.low, included=not bounds.low_included))
        if bounds.high is not None:
            high = min(high, self._places_below(key, code, bounds.high, included=bounds.high_included))
        return low, high

    def _places_below(self, key: int, code: KeyCode, value: Value, *, included: bool) -> int:
        """How many codes stand for smaller values, or for values not larger."""
        if isinstance(value, bytes):
            texts = self._texts(key)
            return texts.right(value) if included else texts.left(value)
        if code.form == "offset":
            return min(max(0, value - code.low + (1 if included else 0)), code.count)
        file = SortedFile(self._store, f"k{key}")
        found = file.right(_number(value)) if included else file.left(_number(value))
        return int(found[0])

    @cached_property
    def layout(self) -> Layout:
        """How keys became codes."""
        file = self._store.open(LAYOUT_FILE)
        return layout_from_json(json.loads(bytes(file.read(0, file.size))))

    def _level(self, level: int) -> SortedFile:
        return SortedFile(self._store, f"level{level}")

    def _texts(self, key: int) -> TextsFile:
        return TextsFile(self._store, f"k{key}")


def _number(value: int) -> Numbers:
    return np.array([min(max(value, 0), _NUMBER_MAX)], dtype=np.uint64)


def _combine(ranges: list[_Ranges]) -> list[_Ranges]:
    """Every combination of one range of each key, as arrays of equal length."""
    total = int(np.prod([len(one.low) for one in ranges]))
    combined, inner = [], total
    for one in ranges:
        inner //= len(one.low)
        outer = total // (inner * len(one.low))
        low = np.tile(np.repeat(one.low, inner), outer)
        high = low if one.points else np.tile(np.repeat(one.high, inner), outer)
        combined.append(_Ranges(low, high, points=one.points))
    return combined


def _append(before: _Ranges, after: _Ranges, bits: int) -> _Ranges:
    shift = np.uint64(bits)
    return _Ranges(
        (before.low << shift) | after.low, (before.high << shift) | after.high, points=after.points
    )


def _to_ranks(level: SortedFile, found: _Ranges) -> tuple[_Ranges, NDArray[np.bool_]]:
    """The ranks of what of a level lies in the ranges, and which ranges have any."""
    low, high = level.left(found.low), level.right(found.high)
    kept = high > low
    ranks = _Ranges(low[kept].astype(np.uint64), (high[kept] - 1).astype(np.uint64), points=found.points)
    return ranks, kept
