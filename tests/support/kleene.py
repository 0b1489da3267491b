"""What a predicate says of each row, computed with Arrow alone: the judge in tests of what uses the product's code.

The order of floats is Lance's: one total order of their bits in which NaN is above infinity (below, with the sign bit
set), except that the two zeros are equal.
"""

from __future__ import annotations

import operator
import re
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewright.model import predicate as tree

if TYPE_CHECKING:
    from collections.abc import Callable

_NAMES = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate(predicate: tree.Predicate, table: pa.Table) -> pa.BooleanArray:  # noqa: PLR0911  one for each node
    """TRUE, FALSE or NULL for each row."""
    match predicate:
        case tree.And(children=children):
            return reduce(pc.and_kleene, (evaluate(child, table) for child in children))
        case tree.Or(children=children):
            return reduce(pc.or_kleene, (evaluate(child, table) for child in children))
        case tree.Not(child=child):
            return pc.invert(evaluate(child, table))
        case tree.Constant(value=value):
            return pa.array([value] * table.num_rows, pa.bool_())
        case tree.IsNull(column=column):
            return pc.is_null(column_of(table, column))
        case tree.Comparison(column=column, operator=sign, literal=literal):
            return _compare(column_of(table, column), sign.value, literal)
        case tree.InList(column=column, literals=literals):
            values = column_of(table, column)
            return reduce(pc.or_kleene, (_compare(values, "=", literal) for literal in literals))
        case tree.Like(column=column, pattern=pattern, escape=escape, ignore_case=ignore_case):
            wanted = _pattern(pattern, escape or "\\", ignore_case=ignore_case)
            return _each(column_of(table, column), lambda text: wanted.fullmatch(text) is not None)
        case tree.Call():
            return _call(predicate, column_of(table, predicate.column))
        case _:
            raise NotImplementedError(predicate)


def true_rows(predicate: tree.Predicate, table: pa.Table) -> list[int]:
    """The places of the rows for which the predicate is TRUE."""
    return np.flatnonzero(evaluate(predicate, table).fill_null(False).to_numpy(zero_copy_only=False)).tolist()


def column_of(table: pa.Table, path: str) -> pa.Array:
    """A column or nested field by its path."""
    names = [(quoted or plain).replace("``", "`") for quoted, plain in _NAMES.findall(path)]
    values = table.column(names[0]).combine_chunks()
    for name in names[1:]:
        values = pc.struct_field(values, name)
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _compare(values: pa.Array, sign: str, literal: tree.Literal) -> pa.BooleanArray:
    assert literal.type == values.type, (literal, values.type)
    constant = pa.array([literal.value], literal.type)
    if pa.types.is_floating(values.type):
        values, constant = _ordered(values), _ordered(constant)
    found = _COMPARE[sign]
    if pa.types.is_temporal(values.type) or pa.types.is_integer(values.type):
        width = pa.uint64() if values.type == pa.uint64() else pa.int64()
        values, constant = _whole(values).cast(width), _whole(constant).cast(width)
    wanted = constant[0].as_py()
    return _each(values, lambda value: found(value, wanted))


def _whole(values: pa.Array) -> pa.Array:
    if pa.types.is_integer(values.type):
        return values
    return values.view(pa.int64() if values.type.bit_width == 64 else pa.int32())


def _each(values: pa.Array, judge: Callable[[Any], bool]) -> pa.BooleanArray:
    return pa.array([None if value is None else judge(value) for value in values.to_pylist()], pa.bool_())


def _ordered(values: pa.Array) -> pa.Array:
    """Whole numbers in the order of the floats."""
    bits = values.type.bit_width
    real = np.array([0.0 if not one.is_valid else one.as_py() for one in values], f"f{bits // 8}")
    raw = np.frombuffer(values.buffers()[1], f"i{bits // 8}", len(values), values.offset * bits // 8)
    whole = np.where(real == 0, 0, raw).astype("i8")
    ordered = np.where(whole < 0, whole ^ ((1 << (bits - 1)) - 1), whole)
    return pa.array(ordered, pa.int64(), mask=values.is_null().to_numpy(zero_copy_only=False))


def _pattern(pattern: str, escape: str, *, ignore_case: bool) -> re.Pattern[str]:
    written, characters = "", iter(pattern)
    for character in characters:
        if character == escape:
            written += re.escape(next(characters, escape))
        else:
            written += {"%": ".*", "_": "."}.get(character, re.escape(character))
    return re.compile(written, re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def _call(call: tree.Call, values: pa.Array) -> pa.BooleanArray:
    (argument,) = call.arguments
    if isinstance(argument, tuple):
        wanted = {literal.value for literal in argument}
        if call.function == "array_has_any":
            return _each(values, lambda items: bool(wanted & set(items)))
        return _each(values, lambda items: wanted <= set(items))
    assert isinstance(argument, tree.Literal)
    text = argument.value
    match call.function:
        case "starts_with":
            return _each(values, lambda value: value.startswith(text))
        case "contains":
            return _each(values, lambda value: text in value)
        case "array_has" | "array_contains":
            return _each(values, lambda items: text in items)
        case _:
            raise NotImplementedError(call)
