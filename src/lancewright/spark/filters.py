"""Turns the filters that Spark pushes into a data source into predicates with exactly Spark's meaning.

Spark and Lance agree on three-valued logic, on the order of strings and bytes and on equal zeros. They differ on NaN: to Spark
every NaN is equal to every other and above all numbers; to Lance a NaN with its sign bit set is below all numbers, and NaNs
with other bits are other values. What cannot be said exactly is not translated, and Spark evaluates it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import datasource as pushed

from lancewright.errors import InvalidRequestError
from lancewright.model.columns import is_repeated
from lancewright.model.predicate import (
    NULL,
    And,
    Call,
    Comparison,
    InList,
    IsNull,
    Literal,
    Not,
    Opaque,
    Operator,
    Or,
    Predicate,
)
from lancewright.model.predicate.casting import always, compare, never, plain_type
from lancewright.model.predicate.constants import Known, find_constant
from lancewright.model.predicate.names import SYSTEM_COLUMNS
from lancewright.model.predicate.printing import quote_text
from lancewright.model.predicate.syntax import Value
from lancewright.model.predicate.truth import is_true

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lancewright.model.columns import Column

_OPERATORS: dict[type[pushed.Filter], Operator] = {
    pushed.EqualTo: Operator.EQUAL,
    pushed.GreaterThan: Operator.GREATER,
    pushed.GreaterThanOrEqual: Operator.GREATER_EQUAL,
    pushed.LessThan: Operator.LESS,
    pushed.LessThanOrEqual: Operator.LESS_EQUAL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedFilter:
    """A filter in Lance's terms. When not ``exact`` it may let more rows through, and Spark has to filter again."""

    predicate: Predicate
    exact: bool


def filter_to_predicate(
    filter_: pushed.Filter, columns: Mapping[tuple[str, ...], Column]
) -> PushedFilter | None:
    """The filter as a predicate, or None when only Spark can evaluate it."""
    if isinstance(filter_, pushed.Not):
        child = filter_to_predicate(filter_.child, columns)
        # The opposite of too many rows is too few.
        return _exact(Not(child=child.predicate)) if child is not None and child.exact else None
    column = _column(columns, getattr(filter_, "attribute", ()))
    if column is None:
        return None
    try:
        return _translate(filter_, column)
    except InvalidRequestError:  # the type of the value is not the column's: Spark casts, here nobody does
        return None


def _column(columns: Mapping[tuple[str, ...], Column], names: tuple[str, ...]) -> Column | None:
    column = columns.get(tuple(names)) or SYSTEM_COLUMNS.get(tuple(names))
    return None if column is None or is_repeated(columns, column) else column


def _translate(filter_: pushed.Filter, column: Column) -> PushedFilter | None:  # noqa: PLR0911  one for each filter
    match filter_:
        case pushed.IsNull():
            return _exact(IsNull(column=column.path))
        case pushed.IsNotNull():
            return _exact(Not(child=IsNull(column=column.path)))
        case pushed.In(value=values):
            return _member(column, tuple(values))
        case pushed.EqualNullSafe(value=None):
            return _exact(IsNull(column=column.path))
        case pushed.EqualNullSafe(value=value):
            equal = _compare(column, Operator.EQUAL, value)
            return _exact(None if equal is None else is_true(equal))
        case pushed.StringStartsWith(value=text):
            return _exact(_text_call("starts_with", column, text))
        case pushed.StringContains(value=text):
            return _exact(_text_call("contains", column, text))
        case pushed.StringEndsWith(value=text):
            return _exact(_text_call("ends_with", column, text))
    operator = _OPERATORS.get(type(filter_))
    value = getattr(filter_, "value", None)
    return None if operator is None else _exact(_compare(column, operator, value))


def _exact(predicate: Predicate | None) -> PushedFilter | None:
    return None if predicate is None else PushedFilter(predicate=predicate, exact=True)


def _member(column: Column, values: tuple[Any, ...]) -> PushedFilter | None:
    """``IN``, NULL where nothing matches and one of the values is NULL."""
    if not values:
        return None  # Spark has a setting for what NULL IN () is
    parts = [_compare(column, Operator.EQUAL, value) for value in values]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    literals = tuple(dict.fromkeys(one.literal for one in known if isinstance(one, Comparison)))
    found: list[Predicate] = [InList(column=column.path, literals=literals)] if literals else []
    found += [one for one in dict.fromkeys(known) if not isinstance(one, Comparison)]
    predicate = found[0] if len(found) == 1 else Or(children=tuple(found))
    # Spark looks long lists up in a hash set, where the zeros are two.
    has_zero = any(isinstance(value, float) and value == 0 for value in values)
    return PushedFilter(predicate=predicate, exact=not has_zero)


def _compare(column: Column, operator: Operator, value: Any) -> Predicate | None:
    """The comparison, or None when Spark and Lance do not hold the same values in the column."""
    type_ = plain_type(column.type)
    if value is None:
        return NULL
    if pa.types.is_floating(type_):
        return _compare_float(column, type_, operator, value)
    if not _is_same_in_spark(type_):
        return None
    known = find_constant(Value(bytes(value) if isinstance(value, bytearray) else value))
    if known is None or not _is_given_as(type_, known):
        return None
    return compare(column, operator, known, resolved=True)


def _is_same_in_spark(type_: pa.DataType) -> bool:
    """True for types whose values reach Spark unchanged: it has no nanoseconds and no times of day."""
    if pa.types.is_timestamp(type_):
        return bool(type_.unit != "ns")
    return any(
        test(type_)
        for test in (
            pa.types.is_integer,
            pa.types.is_boolean,
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_fixed_size_binary,
            pa.types.is_date32,
            pa.types.is_decimal128,
        )
    )


def _is_given_as(type_: pa.DataType, known: Known) -> bool:
    """True when the value is of the column's own sort, so that Spark compared without a cast or a time zone."""
    if known.type is None:  # a number
        return bool(pa.types.is_integer(type_) or pa.types.is_decimal(type_))
    if pa.types.is_timestamp(type_):
        return pa.types.is_timestamp(known.type) and (type_.tz is None) == (known.type.tz is None)
    if pa.types.is_date(type_):
        return bool(pa.types.is_date(known.type))
    return True


def _compare_float(column: Column, type_: pa.DataType, operator: Operator, value: Any) -> Predicate | None:
    if not isinstance(value, float):
        return None
    if math.isnan(value):
        return _compare_nan(column, type_, operator)
    found = compare(column, operator, Known(value=value, type=pa.float64()), resolved=True)
    if found is None:
        return None
    if operator in {Operator.LESS, Operator.LESS_EQUAL}:
        return And(children=(found, Not(child=_below_all(column, type_))))
    if operator in {Operator.GREATER, Operator.GREATER_EQUAL}:
        return Or(children=(found, _below_all(column, type_)))
    return found


def _compare_nan(column: Column, type_: pa.DataType, operator: Operator) -> Predicate:
    infinity = Literal(value=math.inf, type=type_)
    above = Comparison(column=column.path, operator=Operator.GREATER, literal=infinity)
    is_nan = Or(children=(above, _below_all(column, type_)))
    match operator:
        case Operator.EQUAL | Operator.GREATER_EQUAL:
            return is_nan
        case Operator.NOT_EQUAL | Operator.LESS:
            return Not(child=is_nan)
        case Operator.LESS_EQUAL:
            return always(column.path)
        case Operator.GREATER:
            return never(column.path)


def _below_all(column: Column, type_: pa.DataType) -> Predicate:
    """TRUE for the NaNs that Lance sorts below all numbers."""
    least = Literal(value=-math.inf, type=type_)
    return Comparison(column=column.path, operator=Operator.LESS, literal=least)


def _text_call(function: str, column: Column, text: str) -> Predicate | None:
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if not is_text or not isinstance(text, str):
        return None
    sql = f"{function}({column.path}, {quote_text(text)})"
    if function == "ends_with":  # no index knows it
        return Opaque(sql=sql, columns=(column.path,))
    argument = Literal(value=text, type=pa.string())
    return Call(function=function, column=column.path, arguments=(argument,), sql=sql)
