"""Writes a predicate in Lance's SQL dialect, so that Lance reads exactly the same meaning.

Values never become part of the text's structure: quotes are doubled, bytes are hexadecimal digits, and what has no literal
in the dialect is a cast of one. Every literal is exact in the column's type, so it does not matter whether Lance gives it
that type (outside of NOT) or widens the column (inside).
"""

from __future__ import annotations

import datetime as dt
import math
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewright.errors import InvalidRequestError, UnsupportedError
from lancewright.model.predicate.moments import NANOSECONDS
from lancewright.model.predicate.tree import (
    And,
    Call,
    Comparison,
    Constant,
    InList,
    IsNull,
    Like,
    Not,
    Opaque,
    Or,
)
from lancewright.model.predicate.type_names import arrow_name

if TYPE_CHECKING:
    from lancewright.model.predicate.tree import Literal, Predicate

_INT64_MIN = -(2**63)
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  wall clocks have no zone


def to_lance_sql(predicate: Predicate) -> str:
    """The text that Lance reads as this predicate."""
    match predicate:
        case And(children=children):
            return " AND ".join(_inner(child) for child in children)
        case Or(children=children):
            return " OR ".join(_inner(child) for child in children)
        case Not(child=IsNull(column=column)):
            return f"{column} IS NOT NULL"
        case Not(child=child):
            return f"NOT ({to_lance_sql(child)})"
        case Constant(value=value):
            return {True: "TRUE", False: "FALSE", None: "CAST(NULL AS BOOLEAN)"}[value]
        case Opaque(sql=sql) | Call(sql=sql):
            return sql
        case _:
            return _atom(predicate)


def quote_text(value: str) -> str:
    """A string literal. Lance's dialect has no escape but the doubled quote."""
    return "'" + value.replace("'", "''") + "'"


def literal_sql(literal: Literal) -> str:
    """One value, exactly."""
    value, type_ = literal.value, literal.type
    if pa.types.is_boolean(type_):
        return "TRUE" if value else "FALSE"
    if pa.types.is_integer(type_):
        return str(value) if value != _INT64_MIN else f"CAST('{value}' AS BIGINT)"
    if pa.types.is_floating(type_):
        return _float(value, type_)
    if isinstance(value, str):
        return quote_text(value)
    if isinstance(value, bytes):
        return f"X'{value.hex()}'" if pa.types.is_binary(type_) else _cast(f"X'{value.hex()}'", type_)
    if pa.types.is_date32(type_) or pa.types.is_timestamp(type_):
        return _calendar(value, type_)
    if pa.types.is_temporal(type_):
        whole = "Int64" if type_.bit_width == 64 else "Int32"
        return _cast(f"arrow_cast('{value}', '{whole}')", type_)
    return _cast(f"'{value:f}'", type_)


def _inner(child: Predicate) -> str:
    text = to_lance_sql(child)
    return f"({text})" if isinstance(child, And | Or) else text


def _atom(predicate: Comparison | InList | IsNull | Like) -> str:
    column = predicate.column
    match predicate:
        case Comparison(operator=operator, literal=literal):
            return f"{column} {operator.value} {literal_sql(literal)}"
        case InList(literals=literals):
            return f"{column} IN ({', '.join(map(literal_sql, literals))})"
        case IsNull():
            return f"{column} IS NULL"
        case Like(pattern=pattern, escape=escape, ignore_case=ignore_case):
            word = "ILIKE" if ignore_case else "LIKE"
            return f"{column} {word} {quote_text(lance_pattern(pattern, escape))}"


def lance_pattern(pattern: str, escape: str | None) -> str:
    """The same pattern with the only escape that Lance has, the backslash."""
    if escape in {None, "\\"}:
        return pattern
    written: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None:
                raise InvalidRequestError(
                    f"The pattern {pattern!r} ends with its escape {escape!r}",
                    "Double the escape to mean itself.",
                )
            written.append("\\" + escaped)
        else:
            written.append("\\\\" if character == "\\" else character)
    return "".join(written)


def _float(value: float, type_: pa.DataType) -> str:
    if math.isfinite(value):
        return repr(value)
    name = ("-" if math.copysign(1, value) < 0 else "") + ("NaN" if math.isnan(value) else "inf")
    return f"CAST('{name}' AS DOUBLE)" if type_.bit_width == 64 else _cast(f"'{name}'", type_)


def _calendar(value: int, type_: pa.DataType) -> str:
    """``date '…'`` or ``timestamp '…'`` where those say it exactly, else a cast of the number."""
    readable = _readable(value, type_)
    if readable is not None:
        return readable
    whole = "Int64" if type_.bit_width == 64 else "Int32"
    return _cast(f"arrow_cast('{value}', '{whole}')", type_)


def _readable(value: int, type_: pa.DataType) -> str | None:
    is_date = pa.types.is_date32(type_)
    if not is_date and type_.tz not in {None, "UTC"}:
        return None
    nanoseconds = value * (86_400 * 10**9 if is_date else NANOSECONDS[type_.unit])
    microseconds, rest = divmod(nanoseconds, 1000)
    try:
        moment = _EPOCH + dt.timedelta(microseconds=microseconds)
    except OverflowError:
        return None
    if rest or moment.year < 1000:
        return None
    return f"date '{moment.date()}'" if is_date else f"timestamp '{moment}'"


def _cast(text: str, type_: pa.DataType) -> str:
    name = arrow_name(type_)
    if name is None:
        raise UnsupportedError(
            f"A filter of Lance cannot have a literal of type {type_}", "Cast the column to another type."
        )
    return f"arrow_cast({text}, {quote_text(name)})"
