"""Takes the keys of all rows out of a composite segment again, so that several segments become one without reading the table.

The reverse of ``codes``: numbers are taken apart level by level, from the last, and codes become values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewright.errors import InvalidRequestError
from lancewright.kinds.composite.codes import KeyValues
from lancewright.kinds.composite.reader import CompositeReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lancewright.kinds.contract import Part

    Numbers = NDArray[np.uint64]


def gather_parts(parts: Sequence[Part]) -> tuple[list[KeyValues], NDArray[np.uint32]]:
    """Each key of the rows that stay of all parts, and the new numbers of the rows."""
    taken = [_take_apart(part) for part in parts]
    keys = len(taken[0].codes) if taken else 0
    numbers = [one.rows for one in taken]
    return [_gather(taken, key) for key in range(keys)], np.concatenate(numbers)


@dataclass(frozen=True, slots=True, eq=False)
class _Taken:
    """The rows of one part that stay: their new numbers, and the code of each of their keys."""

    reader: CompositeReader
    rows: NDArray[np.uint32]
    codes: list[Numbers]


def _take_apart(part: Part) -> _Taken:
    reader = part.reader
    if not isinstance(reader, CompositeReader):
        raise InvalidRequestError(
            "A segment of another kind was given to merge()", "Merge segments of one kind."
        )
    numbers = reader.codes()
    renumbered = part.renumber[reader.rows.read(0, len(numbers))]
    kept = renumbered >= 0
    return _Taken(reader, renumbered[kept].astype(np.uint32), _split(reader, numbers[kept]))


def _split(reader: CompositeReader, numbers: Numbers) -> list[Numbers]:
    layout = reader.layout
    codes: list[Numbers] = [np.zeros(0, dtype=np.uint64)] * len(layout.keys)
    for level in reversed(range(len(layout.levels))):
        for key in reversed(layout.levels[level]):
            bits = layout.keys[key].bits
            codes[key] = numbers & np.uint64((1 << bits) - 1)
            # A shift by all bits of a word is none to NumPy.
            numbers = numbers >> np.uint64(bits) if bits < 64 else np.zeros_like(numbers)
        if level:
            numbers = reader.level_numbers(level - 1)[numbers.astype(np.int64)]
    return codes


def _gather(taken: Sequence[_Taken], key: int) -> KeyValues:
    nulls = np.concatenate([one.codes[key] == 0 for one in taken])
    if taken[0].reader.layout.keys[key].form == "texts":
        return _gather_texts(taken, key, nulls)
    values = np.concatenate([_numbers(one, key) for one in taken])
    values[nulls] = 0
    return KeyValues(numbers=values, nulls=nulls)


def _numbers(one: _Taken, key: int) -> Numbers:
    code, codes = one.reader.layout.keys[key], one.codes[key]
    if code.form == "offset":
        return codes + np.uint64(code.low) - np.uint64(1)  # of a NULL it wraps, and is not looked at
    different = one.reader.key_numbers(key)
    places = np.maximum(codes, np.uint64(1)).astype(np.int64) - 1
    return different[places] if len(different) else np.zeros(len(codes), dtype=np.uint64)


def _gather_texts(taken: Sequence[_Taken], key: int, nulls: NDArray[np.bool_]) -> KeyValues:
    """Every part has ranks among its own texts; they become ranks among those of all parts that are still there."""
    dictionaries = [one.reader.key_texts(key) for one in taken]
    whole = pa.concat_arrays(dictionaries)
    starts = np.cumsum([0, *map(len, dictionaries)])
    places = np.concatenate(
        [one.codes[key].astype(np.int64) - 1 + start for one, start in zip(taken, starts, strict=False)]
    )
    used = np.unique(places[~nulls])
    encoded = whole.take(pa.array(used)).dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    ranks = np.empty(len(order), dtype=np.uint64)
    ranks[order] = np.arange(len(order), dtype=np.uint64)
    by_used = ranks[encoded.indices.to_numpy()]
    numbers = np.zeros(len(places), dtype=np.uint64)
    numbers[~nulls] = by_used[np.searchsorted(used, places[~nulls])]
    return KeyValues(numbers=numbers, nulls=nulls, texts=encoded.dictionary.take(pa.array(order)))
