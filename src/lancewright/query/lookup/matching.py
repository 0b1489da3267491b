"""Joins keys with rows by equality, as Lance has it: NaN equals itself, the two zeros are one, NULL equals nothing. Pure.

Keys are hashed all together, and every pair with one hash is compared value by value.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewright.errors import InvalidRequestError
from lancewright.kinds.composite.codes import as_bytes
from lancewright.kinds.key.hashing import hash_keys
from lancewright.kinds.sorted_file import expand
from lancewright.kinds.whole_numbers import is_fixed, whole_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Places = NDArray[np.int64]

_FAMILIES: tuple[tuple[str, tuple[Callable[[pa.DataType], bool], ...]], ...] = (
    ("texts", (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)),
    ("bytes", (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)),
    ("booleans", (pa.types.is_boolean,)),
    ("numbers", (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)),
    ("times with a zone", (lambda type_: pa.types.is_timestamp(type_) and type_.tz is not None,)),
    ("times", (pa.types.is_timestamp,)),
    ("dates", (pa.types.is_date,)),
    ("times of day", (pa.types.is_time,)),
    ("durations", (pa.types.is_duration,)),
)


@dataclass(frozen=True, eq=False)
class KeySet:
    """Keys in the types of the table's columns, one array a column; none is NULL. ``places`` say which keys of the caller they are."""

    columns: tuple[pa.Array, ...]
    places: Places

    def __len__(self) -> int:
        """How many keys there are."""
        return len(self.places)

    def batch(self) -> pa.RecordBatch:
        """The keys as a kind takes them."""
        return pa.RecordBatch.from_arrays(
            list(self.columns), [f"k{place}" for place in range(len(self.columns))]
        )

    def match(self, columns: Sequence[pa.Array]) -> tuple[Places, Places]:
        """Pairs of a key and a row that are equal, as places in the keys and in the columns."""
        known = np.flatnonzero(
            np.logical_and.reduce([one.is_valid().to_numpy(zero_copy_only=False) for one in columns])
        )
        rows = [column.take(pa.array(known)) for column in columns]
        order, hashes = self._hashes
        if not len(known) or not len(order):
            nothing = np.zeros(0, dtype=np.int64)
            return nothing, nothing
        wanted = hash_keys(rows)
        starts, stops = np.searchsorted(hashes, wanted, "left"), np.searchsorted(hashes, wanted, "right")
        keys, found = order[expand(starts, stops)], np.repeat(np.arange(len(known)), stops - starts)
        same = self.equal(keys, [row.take(pa.array(found)) for row in rows])
        return keys[same], known[found[same]]

    def equal(self, keys: Places, rows: Sequence[pa.Array]) -> NDArray[np.bool_]:
        """Of pairs of a key, by its place, and a row: which are equal. A NULL is not."""
        same = np.ones(len(keys), dtype=np.bool_)
        for own, values in zip(self.columns, rows, strict=True):
            same &= values.is_valid().to_numpy(zero_copy_only=False) & _equal(
                own.take(pa.array(keys)), values
            )
        return same

    @cached_property
    def _hashes(self) -> tuple[Places, NDArray[np.uint64]]:
        hashes = hash_keys(self.columns)
        order = np.argsort(hashes, kind="stable")
        return order, hashes[order]


def fit_keys(columns: Sequence[pa.Array], types: Sequence[pa.DataType], names: Sequence[str]) -> KeySet:
    """Keys in the types of the table's columns; a value that the type cannot hold equals no row, and is left out like a NULL."""
    fitted = [_fit(*one) for one in zip(columns, types, names, strict=True)]
    whole = np.logical_and.reduce([one.is_valid().to_numpy(zero_copy_only=False) for one in fitted])
    places = np.flatnonzero(whole)
    return KeySet(columns=tuple(one.take(pa.array(places)) for one in fitted), places=places)


def is_comparable(type_: pa.DataType) -> bool:
    """True for types of which equal values can be found."""
    return is_fixed(type_) or _family(type_) in {"texts", "bytes", "numbers"}


def _fit(values: pa.Array, type_: pa.DataType, name: str) -> pa.Array:
    if values.type == type_ or pa.types.is_null(values.type):
        return values.cast(type_)
    if _family(values.type) is None or _family(values.type) != _family(type_):
        raise InvalidRequestError(
            f"The keys' {name} is {values.type}, the table's is {type_}", "Cast the keys to the table's type."
        )
    try:
        return values.cast(type_)
    except pa.ArrowNotImplementedError as error:
        raise InvalidRequestError(
            f"The keys' {name} is {values.type}, which is no {type_}", "Cast the keys to the table's type."
        ) from error
    except pa.ArrowInvalid:
        return _fit_one_by_one(values, type_)


def _fit_one_by_one(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Some values do not fit: those become NULL. Measured: 1 microsecond a value, and only where a cast of all has failed."""
    fitted: list[pa.Scalar] = []
    for value in values:
        try:
            fitted.append(value.cast(type_))
        except pa.ArrowInvalid:
            fitted.append(pa.scalar(None, type_))
    return (
        pa.array([one.as_py() for one in fitted], type_)
        if not pa.types.is_temporal(type_)
        else _joined(fitted, type_)
    )


def _joined(scalars: list[pa.Scalar], type_: pa.DataType) -> pa.Array:
    """Times by their whole numbers: Python's have no nanoseconds."""
    width = pa.int64() if type_.bit_width == 64 else pa.int32()
    return pa.array([one.value if one.is_valid else None for one in scalars], width).view(type_)


def _family(type_: pa.DataType) -> str | None:
    return next((name for name, tests in _FAMILIES if any(test(type_) for test in tests)), None)


def _equal(one: pa.Array, other: pa.Array) -> NDArray[np.bool_]:
    same: Any
    if is_fixed(one.type):
        same = whole_numbers(one) == whole_numbers(other)
    else:
        same = pc.fill_null(pc.equal(as_bytes(one), as_bytes(other)), fill_value=False).to_numpy(
            zero_copy_only=False
        )
    return np.asarray(same, dtype=np.bool_)
