"""A predicate as Spark has it: as an expression over a frame's columns, and as the filters that Spark pushes into a source."""

from __future__ import annotations

import datetime as dt
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import datasource as pushed

from lancewright.model.predicate import (
    And,
    Call,
    Comparison,
    InList,
    IsNull,
    Like,
    Literal,
    Not,
    Operator,
    Or,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column

    from lancewright.model.predicate import Predicate

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock
_FILTERS = {
    Operator.EQUAL: pushed.EqualTo,
    Operator.LESS: pushed.LessThan,
    Operator.LESS_EQUAL: pushed.LessThanOrEqual,
    Operator.GREATER: pushed.GreaterThan,
    Operator.GREATER_EQUAL: pushed.GreaterThanOrEqual,
}


def conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    """The parts that Spark looks at one by one when it pushes filters."""
    if isinstance(predicate, And):
        for child in predicate.children:
            yield from conjuncts(child)
    else:
        yield predicate


def to_filter(predicate: Predicate) -> pushed.Filter | None:  # noqa: PLR0911 - one for each node
    """What Spark pushes for a part of a condition; None for what it keeps."""
    match predicate:
        case Not(child=IsNull(column=column)):
            return pushed.IsNotNull(_path(column))
        case Not(child=child):
            inner = to_filter(child)
            return None if inner is None else pushed.Not(inner)
        case IsNull(column=column):
            return pushed.IsNull(_path(column))
        case Comparison(column=column, operator=Operator.NOT_EQUAL, literal=literal):
            return pushed.Not(pushed.EqualTo(_path(column), _value(literal)))
        case Comparison(column=column, operator=operator, literal=literal):
            return _FILTERS[operator](_path(column), _value(literal))
        case InList(column=column, literals=literals):
            return pushed.In(_path(column), tuple(map(_value, literals)))
        case Call(function="starts_with", column=column, arguments=(literal,)):
            return pushed.StringStartsWith(_path(column), _value(literal))
        case Call(function="contains", column=column, arguments=(literal,)):
            return pushed.StringContains(_path(column), _value(literal))
        case _:
            return None


def to_column(predicate: Predicate) -> Column:  # noqa: C901, PLR0911 - one for each node
    """The condition as an expression of Spark."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

    match predicate:
        case And(children=children):
            return reduce(lambda left, right: left & right, map(to_column, children))
        case Or(children=children):
            return reduce(lambda left, right: left | right, map(to_column, children))
        case Not(child=child):
            return ~to_column(child)
        case IsNull(column=column):
            return F.col(column).isNull()
        case InList(column=column, literals=literals):
            return F.col(column).isin(*map(_constant, literals))
        case Comparison(column=column, operator=operator, literal=literal):
            return _compare(F.col(column), operator, _constant(literal))
        case Like(column=column, pattern=pattern):
            return F.col(column).like(pattern)
        case Call(function="starts_with", column=column, arguments=(literal,)):
            return F.col(column).startswith(_constant(literal))
        case Call(function="contains", column=column, arguments=(literal,)):
            return F.col(column).contains(_constant(literal))
        case Call(function="array_has", column=column, arguments=(literal,)):
            return F.exists(column, lambda one: one == _constant(literal))
        case _:
            raise NotImplementedError(predicate)


def _compare(column: Column, operator: Operator, value: Column) -> Column:
    return {
        Operator.EQUAL: lambda: column == value,
        Operator.NOT_EQUAL: lambda: column != value,
        Operator.LESS: lambda: column < value,
        Operator.LESS_EQUAL: lambda: column <= value,
        Operator.GREATER: lambda: column > value,
        Operator.GREATER_EQUAL: lambda: column >= value,
    }[operator]()


def _path(column: str) -> tuple[str, ...]:
    return tuple(column.split("."))


def _value(literal: Literal) -> Any:  # Any: a value of the literal's type
    if pa.types.is_timestamp(literal.type):
        return _EPOCH + dt.timedelta(microseconds=literal.value)
    return literal.value


def _constant(literal: Literal) -> Column:
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

    if pa.types.is_timestamp(literal.type):
        return F.expr(f"timestamp_ntz'{_value(literal)}'")
    if pa.types.is_float32(literal.type):
        return F.lit(literal.value).cast("float")
    return F.lit(literal.value)
