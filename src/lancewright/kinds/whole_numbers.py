"""Turns values of fixed width into 64-bit numbers that sort as the values do in Lance. Pure.

Signed numbers are moved by half the range. Floats are ordered by their bits: -NaN, -inf, …, 0.0, …, inf, NaN; the two zeros are
one. NULLs become whatever lay there; who calls this masks them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HALF = np.uint64(1 << 63)
_FLOAT_BITS = {16: "u2", 32: "u4", 64: "u8"}


def is_fixed(type_: pa.DataType) -> bool:
    """True for types that ``whole_numbers`` takes."""
    return bool(
        pa.types.is_integer(type_)
        or pa.types.is_boolean(type_)
        or pa.types.is_floating(type_)
        or pa.types.is_temporal(type_)
    ) and not pa.types.is_interval(type_)


def whole_numbers(values: pa.Array) -> NDArray[np.uint64]:
    """One number for each value."""
    type_ = values.type
    if not len(values):
        return np.zeros(0, dtype=np.uint64)
    if pa.types.is_boolean(type_):
        numbers = pc.fill_null(values, fill_value=False).to_numpy(zero_copy_only=False)
    elif pa.types.is_floating(type_):
        numbers = _float_numbers(_raw(values, _FLOAT_BITS[type_.bit_width]), type_.bit_width)
    elif pa.types.is_unsigned_integer(type_):
        numbers = _raw(values, f"u{type_.bit_width // 8}")
    else:
        signed = _raw(values, f"i{type_.bit_width // 8}").astype(np.int64)
        numbers = signed.view(np.uint64) ^ _HALF
    whole: NDArray[np.uint64] = numbers.astype(np.uint64, copy=False)
    return whole


def whole_number(value: pa.Scalar) -> int:
    """The number of one value."""
    return int(
        whole_numbers(pa.array([value.as_py()], value.type) if _is_plain(value) else _array_of(value))[0]
    )


def _is_plain(value: pa.Scalar) -> bool:
    return not pa.types.is_temporal(value.type)


def _array_of(value: pa.Scalar) -> pa.Array:
    # Python's datetime has no nanoseconds: a temporal value goes by its whole number.
    width = pa.int64() if value.type.bit_width == 64 else pa.int32()
    return pa.array([value.value], width).view(value.type)


def _raw(values: pa.Array, dtype: str) -> Any:  # Any: an array of one of eight types of number
    width = int(dtype[1:])
    buffer = values.buffers()[1]
    return np.frombuffer(buffer, f"<{dtype}", count=len(values), offset=values.offset * width)


def _float_numbers(bits: Any, width: int) -> NDArray[np.uint64]:  # Any: as above
    sign = bits.dtype.type(1 << (width - 1))
    zero = (bits & ~sign) == 0
    negative = (bits & sign) != 0
    ordered: NDArray[np.uint64] = np.where(negative, ~bits, bits | sign).astype(np.uint64)
    ordered[zero] = np.uint64(1 << (width - 1))
    return ordered
