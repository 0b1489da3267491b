"""Recognizes the function calls that an index may answer: a column first, constants after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from lancewright.model.columns import Column
from lancewright.model.predicate import syntax as syn
from lancewright.model.predicate.casting import Compared, compare, plain_type
from lancewright.model.predicate.constants import Known, find_constant
from lancewright.model.predicate.functions import INDEXED, INDEXED_VALUES, canonical_name
from lancewright.model.predicate.places import PLACES, bind_place
from lancewright.model.predicate.tree import Call, Comparison, Literal, Opaque, Operator

if TYPE_CHECKING:
    from lancewright.model.predicate.syntax import Syntax
    from lancewright.model.predicate.tree import Argument

_RESULTS = {
    "json_get_int": pa.int64(),
    "json_get_float": pa.float64(),
    "json_get_bool": pa.bool_(),
    "json_get_string": pa.string(),
    "json_extract": pa.string(),
}


class Names(Protocol):
    """What knows the columns of the table."""

    def subject(self, node: Syntax) -> Compared | None:
        """The column that a condition is on, or the expression, if an index has it as a key."""

    def text(self, node: Syntax) -> tuple[str, tuple[str, ...]]:
        """The expression as SQL, and the columns in it."""


def bind_call(names: Names, node: Syntax, function: str, arguments: tuple[Syntax, ...]) -> Call | None:
    """A condition that is a call, or None when no index knows such."""
    if function not in INDEXED or len(arguments) != 1 + INDEXED[function]:
        return None
    if function in PLACES:
        return bind_place(names, node, function, arguments)
    return _call(names, node, function, arguments)


def bind_compared_call(
    names: Names, node: Syntax, call: syn.Function, operator: Operator, known: Known
) -> Call | None:
    """A call compared with a constant, ``json_get_int(j, 'a') = 5``, or None when no index knows such."""
    function = canonical_name(call.name)
    if function not in INDEXED_VALUES or len(call.arguments) != 2:
        return None
    literal = _literal(_RESULTS[function], known)
    if literal is None:
        return None
    return _call(names, node, function, call.arguments, operator, literal)


def _call(
    names: Names,
    node: Syntax,
    function: str,
    arguments: tuple[Syntax, ...],
    operator: Operator | None = None,
    literal: Literal | None = None,
) -> Call | None:
    first, *rest = arguments
    column = names.subject(first)
    if column is None:
        return None
    found = tuple(_argument(names, _argument_type(function, column), one) for one in rest)
    if any(one is None for one in found):
        return None
    return Call(
        function=function,
        column=column.path,
        arguments=tuple(one for one in found if one is not None),
        sql=names.text(node)[0],
        operator=operator,
        literal=literal,
    )


def _argument_type(function: str, column: Compared) -> pa.DataType | None:
    """The type of the constants, or None when only Lance computes them."""
    if not function.startswith("array_"):
        return pa.string()
    type_ = column.type
    is_list = pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_)
    return type_.value_type if is_list else None


def _argument(names: Names, type_: pa.DataType | None, node: Syntax) -> Argument | None:
    if type_ is None:
        sql, columns = names.text(node)
        return None if columns else Opaque(sql=sql, columns=())
    items: tuple[Syntax, ...] | None = None
    match node:
        case syn.Array(items=found):
            items = found
        case syn.Function(name="make_array" | "make_list", arguments=found):
            items = found
    if items is None:
        known = find_constant(node)
        return None if known is None else _literal(type_, known)
    literals = tuple(None if known is None else _literal(type_, known) for known in map(find_constant, items))
    return None if None in literals else tuple(one for one in literals if one is not None)


def _literal(type_: pa.DataType, known: Known) -> Literal | None:
    """The constant as a value of this type, if it is one."""
    if known.is_null or pa.types.is_nested(plain_type(type_)):
        return None
    found = compare(_nameless(type_), Operator.EQUAL, known, resolved=False)
    return found.literal if isinstance(found, Comparison) else None


def _nameless(type_: pa.DataType) -> Column:
    return Column(names=("item",), field_id=-1, leaf_ids=(), type=type_)
