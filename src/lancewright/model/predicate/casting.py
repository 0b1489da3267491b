"""Compares a column with a constant: the constant gets the column's type, or the comparison an equal one that has it.

``x < 2.5`` on whole numbers is ``x <= 2``, ``x = 2.5`` is FALSE where x is not NULL. Where Lance accepts a comparison, the
result here is the same; where it asks for a cast whose outcome is certain (numbers, ISO dates), it is made here; where
Lance alone knows, the answer is None and the comparison is handed through.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, NoReturn, Protocol

import numpy as np
import pyarrow as pa

from lancewright.errors import InvalidRequestError
from lancewright.model.predicate.constants import decimal_of, narrow_float
from lancewright.model.predicate.counting import exact_count
from lancewright.model.predicate.moments import truncate
from lancewright.model.predicate.tree import (
    NULL,
    And,
    Comparison,
    IsNull,
    Literal,
    Not,
    Operator,
    Or,
    Predicate,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from lancewright.model.predicate.constants import Known

# Whole numbers up to here are exact in a float of so many bits.
_EXACT_MAX = {16: 2**11, 32: 2**24, 64: 2**53}
_DIGITS_EXACT_IN_DOUBLE = 15


class Compared(Protocol):
    """What stands on one side of a comparison: a column, or an expression, as it is written, and its type."""

    @property
    def path(self) -> str:
        """How a filter writes it."""

    @property
    def type(self) -> pa.DataType:
        """The type of its values."""


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type values of a column are compared in."""
    return plain_type(type_.value_type) if pa.types.is_dictionary(type_) else type_


def is_text(type_: pa.DataType) -> bool:
    """True for strings of any layout."""
    return bool(
        pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)
    )


def compare(column: Compared, operator: Operator, known: Known, *, resolved: bool) -> Predicate | None:
    """The comparison as a predicate, or None when only Lance can make it; raise when nobody can.

    ``resolved`` says whether Lance would give the literal the column's type. It does so only outside of NOT and other
    wrappers; inside, column and literal are both given a common type.
    """
    if known.is_null:
        return NULL
    type_ = plain_type(column.type)
    if pa.types.is_integer(type_):
        found = _integer(column, type_, operator, known, resolved=resolved)
    elif pa.types.is_floating(type_):
        found = _float(column, type_, operator, known, resolved=resolved)
    elif pa.types.is_decimal(type_):
        found = _decimal(column, type_, operator, known, resolved=resolved)
    elif pa.types.is_temporal(type_):
        found = _temporal(column, type_, operator, known, resolved=resolved)
    else:
        found = _plain(column, type_, operator, known)
    if found is None and not _is_left_to_lance(type_, known, resolved=resolved):
        _refuse_types(column, known)
    return found


def never(path: str) -> Predicate:
    """FALSE where the column has a value, NULL where it has none."""
    return And(children=(IsNull(column=path), NULL))


def always(path: str) -> Predicate:
    """TRUE where the column has a value, NULL where it has none."""
    return Or(children=(Not(child=IsNull(column=path)), NULL))


def _integer(
    column: Compared, type_: pa.DataType, operator: Operator, known: Known, *, resolved: bool
) -> Predicate | None:
    value = known.value
    if isinstance(value, bool):
        return None
    if known.type is not None and pa.types.is_floating(known.type):
        return _integer_with_float(column, type_, operator, value, known.type.bit_width)
    if not isinstance(value, int | Decimal) or (known.type is not None and pa.types.is_temporal(known.type)):
        return None
    is_loose = known.type is None and not resolved
    if is_loose and isinstance(value, Decimal):
        return _integer_with_float(column, type_, operator, float(value), 64)
    if is_loose and not -(2**63) <= value < 2**64:
        return None
    return _place(column, operator, Fraction(value), _integer_range(type_), _whole(type_))


def _integer_with_float(
    column: Compared, type_: pa.DataType, operator: Operator, value: float, bits: int
) -> Predicate | None:
    """In floats, whole numbers keep their order among those that are exact there."""
    if math.isnan(value) or math.isinf(value):
        above = math.copysign(1, value) > 0
        return _outside(column.path, operator, above=above)
    if abs(value) >= _EXACT_MAX[bits]:
        return None
    return _place(column, operator, Fraction(value), _integer_range(type_), _whole(type_))


def _float(
    column: Compared, type_: pa.DataType, operator: Operator, known: Known, *, resolved: bool
) -> Predicate | None:
    value = known.value
    if isinstance(value, bool | str | bytes) or (known.type is not None and pa.types.is_temporal(known.type)):
        return None
    if known.type is None:
        if isinstance(value, int):
            return _float_literal(column, type_, operator, _round_integer(value, type_))
        double = float(value)
        if resolved:
            return _float_literal(column, type_, operator, narrow_float(double, type_))
        return _place_float(column, type_, operator, double)
    if pa.types.is_integer(known.type):
        return _float_literal(column, type_, operator, _round_integer(value, type_))
    if pa.types.is_floating(known.type):
        return _place_float(column, type_, operator, value)
    return None


def _round_integer(value: int, type_: pa.DataType) -> float:
    if type_.bit_width != 32 or not -(2**63) <= value < 2**64:
        return narrow_float(float(value), type_)
    return float(np.float32(np.uint64(value) if value >= 2**63 else np.int64(value)))


def _float_literal(column: Compared, type_: pa.DataType, operator: Operator, value: float) -> Predicate:
    # Lance does not tell the zeros apart, so neither does the tree.
    literal = Literal(value=value or 0.0, type=type_)
    return Comparison(column=column.path, operator=operator, literal=literal)


def _place_float(column: Compared, type_: pa.DataType, operator: Operator, value: float) -> Predicate:
    """Compare a narrow float column with a double, exactly."""
    narrow = narrow_float(value, type_)
    if math.isnan(value) or narrow == value:
        return _float_literal(column, type_, operator, narrow)
    if operator in {Operator.EQUAL, Operator.NOT_EQUAL}:
        return never(column.path) if operator is Operator.EQUAL else always(column.path)
    kind = np.dtype(f"f{type_.bit_width // 8}").type
    below = narrow if narrow < value else float(np.nextafter(kind(narrow), kind(-np.inf)))
    less = operator in {Operator.LESS, Operator.LESS_EQUAL}
    return _float_literal(column, type_, Operator.LESS_EQUAL if less else Operator.GREATER, below)


def _decimal(
    column: Compared, type_: pa.DataType, operator: Operator, known: Known, *, resolved: bool
) -> Predicate | None:
    value = known.value
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    if known.type is not None and not (pa.types.is_integer(known.type) or pa.types.is_decimal(known.type)):
        return None
    if not resolved and known.type is None and isinstance(value, Decimal):
        digits = max(type_.precision, len(value.as_tuple().digits))
        if digits > _DIGITS_EXACT_IN_DOUBLE or abs(value.adjusted()) > _DIGITS_EXACT_IN_DOUBLE:
            return None
    bound = 10**type_.precision - 1
    return _place(
        column,
        operator,
        Fraction(value) * Fraction(10) ** type_.scale,
        (-bound, bound),
        lambda unscaled: Literal(value=decimal_of(unscaled, type_.scale), type=type_),
    )


def _temporal(
    column: Compared, type_: pa.DataType, operator: Operator, known: Known, *, resolved: bool
) -> Predicate | None:
    exact = exact_count(type_, known)
    if exact is None:
        return None
    if exact.denominator != 1 and known.type is not None and pa.types.is_timestamp(known.type):
        # Lance casts a finer timestamp to the column's unit, towards zero.
        if not pa.types.is_timestamp(type_) and not pa.types.is_date32(type_):
            return None
        if pa.types.is_timestamp(type_) and not known.is_python:
            exact = Fraction(truncate(exact))
    elif exact.denominator != 1 and not resolved:
        return None
    return _place(column, operator, exact, _integer_range(type_), _whole(type_))


def _plain(column: Compared, type_: pa.DataType, operator: Operator, known: Known) -> Predicate | None:
    """Strings, bytes and booleans compare with their like."""
    if known.type is None or not _is_alike(type_, known.type):
        return None
    if pa.types.is_fixed_size_binary(type_) and len(known.value) != type_.byte_width:
        return None
    return Comparison(column=column.path, operator=operator, literal=Literal(value=known.value, type=type_))


def _is_alike(type_: pa.DataType, other: pa.DataType) -> bool:
    families: tuple[Callable[[pa.DataType], bool], ...] = (
        pa.types.is_boolean,
        is_text,
        lambda one: (
            pa.types.is_binary(one)
            or pa.types.is_large_binary(one)
            or pa.types.is_fixed_size_binary(one)
            or pa.types.is_binary_view(one)
        ),
    )
    return any(family(type_) and family(other) for family in families)


def _place(
    column: Compared,
    operator: Operator,
    exact: Fraction,
    bounds: tuple[int, int],
    literal: Callable[[int], Literal],
) -> Predicate:
    """Compare with a number that may lie between or outside of the values the column can have."""
    low, high = bounds
    floor = math.floor(exact)
    if exact.denominator == 1 and low <= floor <= high:
        return Comparison(column=column.path, operator=operator, literal=literal(floor))
    if operator in {Operator.EQUAL, Operator.NOT_EQUAL}:
        return never(column.path) if operator is Operator.EQUAL else always(column.path)
    if floor >= high or floor < low:
        return _outside(column.path, operator, above=floor >= high)
    less = operator in {Operator.LESS, Operator.LESS_EQUAL}
    operator = Operator.LESS_EQUAL if less else Operator.GREATER
    return Comparison(column=column.path, operator=operator, literal=literal(floor))


def _outside(path: str, operator: Operator, *, above: bool) -> Predicate:
    """Compare with something above, or below, every value the column can have."""
    if operator in {Operator.LESS, Operator.LESS_EQUAL}:
        return always(path) if above else never(path)
    if operator in {Operator.GREATER, Operator.GREATER_EQUAL}:
        return never(path) if above else always(path)
    return never(path) if operator is Operator.EQUAL else always(path)


def _integer_range(type_: pa.DataType) -> tuple[int, int]:
    bits = type_.bit_width
    if pa.types.is_unsigned_integer(type_):
        return 0, (1 << bits) - 1
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _whole(type_: pa.DataType) -> Callable[[int], Literal]:
    return lambda value: Literal(value=value, type=type_)


def _is_left_to_lance(type_: pa.DataType, known: Known, *, resolved: bool) -> bool:
    """True where Lance accepts what is not understood here: a cast, or a literal it casts to no column."""
    if known.is_python or is_text(type_):
        return False  # Lance would cast each text of the column, and fail at the first that is no number
    if not resolved:
        is_bool = pa.types.is_boolean(type_) or isinstance(known.value, bool)
        return not (is_bool or pa.types.is_nested(type_))
    is_cast = known.type is not None and not isinstance(known.value, str | bool | bytes)
    return is_cast or isinstance(type_, pa.BaseExtensionType)


def _refuse_types(column: Compared, known: Known) -> NoReturn:
    raise InvalidRequestError(
        f"Column {column.path} is {column.type} and cannot be compared with {known.describe()}",
        _remedy(plain_type(column.type)),
    )


def _remedy(type_: pa.DataType) -> str:
    if pa.types.is_nested(type_):
        return "Compare one of its fields, ask IS NULL, or use array_has for the items of a list."
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        return "Write it as '2026-11-30' or '2026-11-30 12:00:00'; add the offset when the column has a zone."
    if pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(type_):
        return "Write bytes as X'6162', as many as the type has."
    return "Write a literal of the column's type, or cast one side: CAST(x AS STRING)."
