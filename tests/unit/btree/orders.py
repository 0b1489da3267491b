"""Brute-force oracles for Lance's order of values, and arrays of every ordered type."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa

WORD_TYPES = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"),
    pa.time64("us"), pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns"),
    pa.timestamp("us", tz="Europe/Vienna"), pa.duration("s"), pa.duration("ns"),
]  # fmt: skip
_FLOATS = {2: ("<e", "<h"), 4: ("<f", "<i"), 8: ("<d", "<q")}


def random_words(type_: pa.DataType, count: int, seed: int) -> pa.Array:
    """Values of a one-word type from random bits, the special ones and many repetitions among them."""
    random = np.random.default_rng(seed)
    if pa.types.is_boolean(type_):
        return pa.array(random.random(count) < 0.5)
    width = type_.bit_width // 8
    drawn = np.frombuffer(random.bytes(count * width), dtype=f"u{width}")
    sign = 1 << (width * 8 - 1)
    special = np.array([0, 1, sign - 1, sign, sign + 1, 2 * sign - 1], dtype=f"u{width}")
    if pa.types.is_floating(type_):
        special = np.concatenate([special, _special_floats(type_).view(f"u{width}")])
    mixed = np.where(random.random(count) < 0.5, drawn, random.choice(special, count))
    return of_bits(mixed, type_)


def of_bits(bits: Any, type_: pa.DataType) -> pa.Array:
    """An array that holds exactly these bits."""
    return pa.Array.from_buffers(type_, len(bits), [None, pa.py_buffer(np.ascontiguousarray(bits))])


def bits_of(array: pa.Array) -> list[int]:
    """The bits of every value, so that NaNs and zeros of either sign compare by what they are."""
    if pa.types.is_boolean(array.type):
        return [int(value) for value in array.to_pylist()]
    width = array.type.bit_width // 8
    whole = np.frombuffer(array.buffers()[1], dtype=f"u{width}")
    return whole[array.offset : array.offset + len(array)].tolist()  # type: ignore[no-any-return]


def ordinal(bits: int, type_: pa.DataType) -> int:
    """Where Arrow's total order puts a value of these bits."""
    if pa.types.is_boolean(type_) or pa.types.is_unsigned_integer(type_):
        return bits
    width = type_.bit_width
    signed = bits - (1 << width) if bits >> (width - 1) else bits
    if pa.types.is_floating(type_) and signed < 0:
        return -(signed + (1 << (width - 1))) - 1  # the larger the magnitude, the smaller
    return signed


def _special_floats(type_: pa.DataType) -> Any:
    width = type_.bit_width // 8
    real, whole = _FLOATS[width]
    values = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), -float("nan")]
    packed = [struct.unpack(whole, struct.pack(real, value))[0] for value in values]
    return np.array(packed, dtype=f"i{width}")
