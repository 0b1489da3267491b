"""Columns of every ordered type, and the SQL that compares with their values."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

_TEXTS = (
    "",
    "a",
    "a\0",
    "ab",
    "abcdefgh",
    "abcdefghi",
    "abcdefghj",
    "b'c",
    "é",
    "éa",
    "🦜",
    "zz",
    "a" * 50,
    "a" * 50 + "b",
)
_DAY_MS = 86_400_000


@dataclass(frozen=True, kw_only=True)
class ColumnType:
    """One type: which values it is tried with, how an array is made of them, how SQL writes them."""

    type: pa.DataType
    values: st.SearchStrategy[Any]
    literal: Callable[[Any], str]
    to_array: Callable[[list[Any]], pa.Array]
    is_text: bool = False  # LIKE can be asked

    def __str__(self) -> str:
        return str(self.type)


def _plain(
    type_: pa.DataType, values: st.SearchStrategy[Any], literal: Callable[[Any], str], **more: Any
) -> ColumnType:
    return ColumnType(
        type=type_, values=values, literal=literal, to_array=lambda found: pa.array(found, type_), **more
    )


def _integers(type_: pa.DataType) -> ColumnType:
    signed = pa.types.is_signed_integer(type_)
    low, high = (
        (-(2 ** (type_.bit_width - 1)), 2 ** (type_.bit_width - 1) - 1)
        if signed
        else (0, 2**type_.bit_width - 1)
    )
    name = f"{'' if signed else 'U'}Int{type_.bit_width}"
    near = st.integers(max(low, -9), 9)
    return _plain(
        type_, st.one_of(near, near, st.integers(low, high), st.sampled_from([low, high])),
        lambda value: f"arrow_cast('{value}', '{name}')",
    )  # fmt: skip


def _floats(type_: pa.DataType) -> ColumnType:
    width = type_.bit_width
    special = [0.0, -0.0, float("inf"), float("-inf"), 1.5, -1.5]
    numbers = st.one_of(st.sampled_from([*special, "NaN", "-NaN"]), st.floats(width=width, allow_nan=False))

    def to_array(found: list[Any]) -> pa.Array:
        real = np.array(
            [np.nan if isinstance(value, str) else value or 0.0 for value in found], f"f{width // 8}"
        )
        bits = real.view(f"u{width // 8}").copy()
        for place, value in enumerate(found):
            if isinstance(value, float) and value == 0:
                bits[place] = np.array([value], real.dtype).view(bits.dtype)[0]
            elif value == "-NaN":
                bits[place] |= bits.dtype.type(1 << (width - 1))
        mask = np.array([value is None for value in found], bool)
        return pa.array(bits.view(real.dtype), type_, mask=mask, from_pandas=False)

    return ColumnType(
        type=type_, values=numbers, to_array=to_array, literal=lambda value: f"arrow_cast('{value}', 'Float{width}')"
    )  # fmt: skip


def _decimals(type_: pa.DataType) -> ColumnType:
    name = f"Decimal{type_.bit_width}({type_.precision}, {type_.scale})"
    bound = 10**type_.precision - 1
    digits = st.one_of(st.integers(-300, 300), st.integers(-bound, bound))
    values = digits.map(lambda number: Decimal((number < 0, tuple(map(int, str(abs(number)))), -type_.scale)))
    return _plain(type_, values, lambda value: f"arrow_cast('{value:f}', '{name}')")


def _times(type_: pa.DataType, name: str, low: int, high: int, step: int = 1) -> ColumnType:
    whole = f"Int{type_.bit_width}"
    numbers = st.one_of(st.integers(low // step, high // step), st.integers(max(0, low // step), 9))
    return ColumnType(
        type=type_,
        values=numbers.map(lambda number: number * step),
        to_array=lambda found: pa.array(found, pa.int64() if type_.bit_width == 64 else pa.int32()).view(
            type_
        ),
        literal=lambda value: f"arrow_cast(arrow_cast('{value}', '{whole}'), '{name}')",
    )


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _hex(value: bytes) -> str:
    return f"X'{value.hex()}'"


def _texts(type_: pa.DataType) -> ColumnType:
    return _plain(type_, st.sampled_from(_TEXTS), _quoted, is_text=True)


def _bytes(type_: pa.DataType, name: str) -> ColumnType:
    values = st.sampled_from(_TEXTS).map(str.encode)
    if pa.types.is_fixed_size_binary(type_):
        values = values.map(lambda value: value[: type_.byte_width].ljust(type_.byte_width, b"\0"))
    return _plain(type_, values, lambda value: f"arrow_cast({_hex(value)}, '{name}')")


def _dictionary(type_: pa.DataType) -> ColumnType:
    def to_array(found: list[Any]) -> pa.Array:
        return pa.array(found, type_.value_type).dictionary_encode().cast(type_)

    inner = _texts(pa.string()) if pa.types.is_string(type_.value_type) else _integers(pa.int64())
    # No LIKE: with any BTREE on a dictionary Lance fails ("Can't compare arrays of different types", btree.rs).
    return ColumnType(type=type_, values=inner.values, to_array=to_array, literal=inner.literal)


_BOOLEANS = _plain(pa.bool_(), st.booleans(), lambda value: str(value).lower())
COLUMN_TYPES = (
    *(_integers(type_) for type_ in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *(_integers(type_) for type_ in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    *(_floats(type_) for type_ in (pa.float16(), pa.float32(), pa.float64())),
    _BOOLEANS,
    _decimals(pa.decimal128(5, 2)),
    _decimals(pa.decimal128(38, 10)),
    _decimals(pa.decimal256(60, 2)),
    _times(pa.date32(), "Date32", -9999, 99999),
    _times(pa.date64(), "Date64", -999 * _DAY_MS, 9999 * _DAY_MS, _DAY_MS),
    _times(pa.timestamp("s"), "Timestamp(Second, None)", -(2**34), 2**34),
    _times(pa.timestamp("ms"), "Timestamp(Millisecond, None)", -(2**44), 2**44),
    _times(pa.timestamp("us"), "Timestamp(Microsecond, None)", -(2**54), 2**54),
    _times(pa.timestamp("ns"), "Timestamp(Nanosecond, None)", -(2**61), 2**61),
    _times(pa.timestamp("us", tz="UTC"), 'Timestamp(Microsecond, Some("UTC"))', -(2**54), 2**54),
    _times(pa.time32("s"), "Time32(Second)", 0, 86_399),
    _times(pa.time32("ms"), "Time32(Millisecond)", 0, _DAY_MS - 1),
    _times(pa.time64("us"), "Time64(Microsecond)", 0, _DAY_MS * 1000 - 1),
    _times(pa.time64("ns"), "Time64(Nanosecond)", 0, _DAY_MS * 1_000_000 - 1),
    _times(pa.duration("ms"), "Duration(Millisecond)", -(2**40), 2**40),
    _texts(pa.string()),
    _texts(pa.large_string()),
    _bytes(pa.binary(), "Binary"),
    _bytes(pa.large_binary(), "LargeBinary"),
    _bytes(pa.binary(5), "FixedSizeBinary(5)"),
    _bytes(pa.binary(16), "FixedSizeBinary(16)"),
    _dictionary(pa.dictionary(pa.int32(), pa.string())),
    _dictionary(pa.dictionary(pa.int8(), pa.string())),
    _dictionary(pa.dictionary(pa.int16(), pa.int64())),
)
