"""Computes what is constant in a filter: a number, a string, a cast of one. What only Lance can compute stays syntax."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lancewright.errors import InvalidRequestError
from lancewright.model.predicate import syntax as syn
from lancewright.model.predicate.moments import NANOSECONDS, read_moment
from lancewright.model.predicate.type_names import type_of_arrow_name

if TYPE_CHECKING:
    from lancewright.model.predicate.syntax import Syntax

_INT64_MAX = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A constant. Without a type it is a number as written, int or Decimal, which takes the type of its column.

    Values of temporal types are whole numbers in the type's unit. NULL has the value None.
    """

    value: Any  # Any: an int, Decimal, float, str, bytes, bool or None, by the type
    type: pa.DataType | None = None
    is_python: bool = False  # given by Python code, where Lance has no say in what it means

    @property
    def is_null(self) -> bool:
        """True for NULL of any type."""
        return self.value is None

    def describe(self) -> str:
        """What it is, for an error."""
        kind = "a number" if self.type is None else str(self.type)
        return f"{self.value!r} ({kind})"


def find_constant(node: Syntax) -> Known | None:
    """The value of an expression without columns, or None when it has some or Lance has to compute it."""
    match node:
        case syn.Number(text=text):
            return Known(value=int(text) if text.isdigit() else Decimal(text))
        case syn.Text(value=text):
            return Known(value=text, type=pa.string())
        case syn.Value(value=value):
            return replace(_from_python(value), is_python=True)
        case syn.Minus(child=child):
            return _negate(find_constant(child))
        case syn.Cast(child=child, type=type_):
            found = find_constant(child)
            return None if found is None else _cast(found, type_)
        case syn.Function(name="arrow_cast", arguments=(child, syn.Text(value=name))):
            found, named = find_constant(child), type_of_arrow_name(name)
            return None if found is None or named is None else _cast(found, named)
        case _:
            return None


def _from_python(value: Any) -> Known:  # Any: what users compare with
    if isinstance(value, pa.Scalar):
        value, given = (None, None) if not value.is_valid else (value, value.type)
        if given is None or pa.types.is_null(given):
            return Known(value=None)
        return _typed(value)
    if isinstance(value, np.generic) and value.dtype.kind in "biuSU":
        value = value.item()
    if value is None or isinstance(value, bool):
        return Known(value=value, type=None if value is None else pa.bool_())
    if isinstance(value, int | Decimal) and not (isinstance(value, Decimal) and not value.is_finite()):
        return Known(value=int(value) if isinstance(value, int) else value)
    if type(value) is float:
        return Known(value=Decimal(repr(value))) if math.isfinite(value) else _float(value)
    try:
        scalar = _nanoseconds(value) or pa.scalar(
            value, from_pandas=not isinstance(value, float | np.floating)
        )
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidRequestError(
            f"A column cannot be compared with {type(value).__name__} {value!r:.60}",
            "Use a number, string, bytes, bool, date, datetime, time, timedelta, Decimal or None.",
        ) from error
    return _typed(scalar) if scalar.is_valid else Known(value=None)


def _nanoseconds(value: Any) -> pa.Scalar | None:  # Any: see _from_python
    """A pandas time that has nanoseconds, which Arrow would drop."""
    whole: Any = value  # pandas' classes have more than the standard ones they extend
    if isinstance(value, dt.datetime) and hasattr(whole, "nanosecond") and whole.nanosecond > 0:
        return pa.scalar(value, pa.timestamp("ns", tz="UTC" if value.tzinfo else None))
    if isinstance(value, dt.timedelta) and hasattr(whole, "nanoseconds") and whole.nanoseconds > 0:
        return pa.scalar(value, pa.duration("ns"))
    return None


def _typed(scalar: pa.Scalar) -> Known:
    type_ = scalar.type
    if pa.types.is_integer(type_) or pa.types.is_boolean(type_):
        return Known(value=scalar.as_py(), type=type_)
    if pa.types.is_temporal(type_):
        return Known(value=scalar.value, type=type_)
    if pa.types.is_floating(type_):
        return Known(value=float(scalar.as_py()), type=type_)
    if isinstance(scalar.as_py(), str | bytes | Decimal):
        return Known(value=scalar.as_py(), type=type_)
    raise InvalidRequestError(
        f"A column cannot be compared with a value of type {type_}", "Compare with a single plain value."
    )


def _float(value: float) -> Known:
    return Known(value=value, type=pa.float64())


def _negate(found: Known | None) -> Known | None:
    if found is None or found.is_null or isinstance(found.value, bool):
        return found if found is not None and found.is_null else None
    if found.type is None or pa.types.is_floating(found.type):
        return Known(value=-found.value, type=found.type)
    return None


def _cast(found: Known, type_: pa.DataType) -> Known | None:
    """The value in another type if it is the same value there, or None: then Lance casts."""
    if found.is_null:
        return Known(value=None, type=type_)
    if found.type == type_:
        return found
    if pa.types.is_integer(type_):
        return _to_integer(found, type_)
    if pa.types.is_floating(type_):
        return _to_float(found, type_)
    if pa.types.is_decimal(type_):
        return _to_decimal(found, type_)
    if pa.types.is_temporal(type_):
        return _to_temporal(found, type_)
    return _to_bytes(found, type_)


def _to_integer(found: Known, type_: pa.DataType) -> Known | None:
    value = found.value
    if isinstance(value, str):
        digits = value.removeprefix("-")
        value = int(value) if digits.isdigit() and digits.isascii() and len(digits) <= 20 else None
    elif isinstance(value, bool) or (found.type is not None and not pa.types.is_integer(found.type)):
        return None
    if not isinstance(value, int) or not _fits_integer(value, type_):
        return None
    return Known(value=value, type=type_)


def _fits_integer(value: int, type_: pa.DataType) -> bool:
    bits = type_.bit_width
    if pa.types.is_signed_integer(type_):
        return bool(-(1 << (bits - 1)) <= value < (1 << (bits - 1)))
    return bool(0 <= value < (1 << bits))


def _to_float(found: Known, type_: pa.DataType) -> Known | None:
    value = found.value
    if isinstance(value, str):
        if value.lstrip("-").lower() not in {"nan", "inf"} and not _is_number(value):
            return None
        value = float(value)
        if type_.bit_width != 64 and not math.isfinite(value):
            return Known(value=value, type=type_)
    elif (found.type is not None and not pa.types.is_floating(found.type)) or (
        isinstance(value, int) and abs(value) > 2**53
    ):
        return None
    narrowed = narrow_float(float(value), type_)
    # A string is read in the type itself, so rounding twice might differ; a value that is exact cannot.
    if narrowed != float(value) and not math.isnan(narrowed) and type_.bit_width != 64:
        return None
    return Known(value=narrowed, type=type_)


def _is_number(text: str) -> bool:
    try:
        return Decimal(text).is_finite() and text.isascii() and not set(text) & set("_ ")
    except ArithmeticError:
        return False


def narrow_float(value: float, type_: pa.DataType) -> float:
    """The nearest value a float type has; keeps the sign of NaN."""
    if math.isnan(value) or type_.bit_width == 64:
        return value
    with np.errstate(over="ignore"):
        return float(np.dtype(f"f{type_.bit_width // 8}").type(value))


def _to_decimal(found: Known, type_: pa.DataType) -> Known | None:
    value = found.value
    if isinstance(value, str):
        value = Decimal(value) if _is_number(value) else None
    if isinstance(value, float | bool) or not isinstance(value, int | Decimal):
        return None
    scaled = Fraction(value) * 10**type_.scale if type_.scale >= 0 else Fraction(value) / 10**-type_.scale
    if scaled.denominator != 1 or abs(scaled.numerator) >= 10**type_.precision:
        return None
    return Known(value=decimal_of(scaled.numerator, type_.scale), type=type_)


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """The decimal with these digits."""
    return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))


def _to_temporal(found: Known, type_: pa.DataType) -> Known | None:
    value = found.value
    if isinstance(value, str):
        return _read_temporal(value, type_)
    if pa.types.is_decimal(found.type) if found.type is not None else not isinstance(value, int):
        return None
    is_plain = found.type is None or pa.types.is_integer(found.type)
    if not is_plain or isinstance(value, bool) or not -_INT64_MAX <= value < _INT64_MAX:
        return None
    if type_.bit_width == 32 and not -(2**31) <= value < 2**31:
        return None
    return Known(value=value, type=type_)


def _read_temporal(text: str, type_: pa.DataType) -> Known | None:
    moment = read_moment(text)
    if moment is None:
        return None
    if pa.types.is_date32(type_) and moment.is_day:
        return Known(value=moment.nanoseconds // (86_400 * 10**9), type=type_)
    if not pa.types.is_timestamp(type_) or type_.tz is not None:
        return None
    number, rest = divmod(moment.nanoseconds, NANOSECONDS[type_.unit])
    if rest or not -_INT64_MAX <= number < _INT64_MAX:
        return None
    return Known(value=number, type=type_)


def _to_bytes(found: Known, type_: pa.DataType) -> Known | None:
    value = found.value
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return Known(value=value, type=type_) if isinstance(value, str) else None
    if pa.types.is_boolean(type_) or not isinstance(value, bytes):
        return None
    if pa.types.is_fixed_size_binary(type_):
        return Known(value=value, type=type_) if len(value) == type_.byte_width else None
    return Known(value=value, type=type_)
