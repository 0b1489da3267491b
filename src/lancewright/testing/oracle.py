"""Says of every row whether a condition is TRUE, FALSE or NULL, value by value: the judge that a kind is held against.

Shares no code with the kinds. Slow on purpose: one obvious line for each case.
"""

from __future__ import annotations

import struct
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewright.errors import UnsupportedError
from lancewright.model.predicate import And, Comparison, Constant, InList, IsNull, Like, Not, Operator, Or

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lancewright.model.predicate import Literal, Predicate

Truth = bool | None
_FLOATS = {16: ("<e", "<h"), 32: ("<f", "<i"), 64: ("<d", "<q")}


def true_rows(predicate: Predicate, columns: Mapping[str, pa.Array]) -> frozenset[int]:
    """The rows for which a condition is TRUE."""
    found = evaluate(predicate, columns)
    return frozenset(row for row, truth in enumerate(found) if truth is True)


def evaluate(  # noqa: PLR0911 - one for each node
    predicate: Predicate, columns: Mapping[str, pa.Array]
) -> list[Truth]:
    """TRUE, FALSE or NULL for each row."""
    match predicate:
        case And(children=children):
            return reduce(_both, (evaluate(child, columns) for child in children))
        case Or(children=children):
            return [
                _not(one)
                for one in reduce(_both, ([_not(t) for t in evaluate(c, columns)] for c in children))
            ]
        case Not(child=child):
            return [_not(truth) for truth in evaluate(child, columns)]
        case Constant(value=value):
            return [value] * len(next(iter(columns.values())))
        case IsNull(column=column):
            return [not valid for valid in columns[column].is_valid().to_pylist()]
        case Comparison(column=column, operator=operator, literal=literal):
            wanted = sort_key(literal)
            return [_compare(value, operator, wanted) for value in sort_keys(columns[column])]
        case InList(column=column, literals=literals):
            keys = {sort_key(literal) for literal in literals}
            return [None if value is None else value in keys for value in sort_keys(columns[column])]
        case Like(column=column, pattern=pattern) if pattern.endswith("%"):
            texts = columns[column].to_pylist()
            return [None if text is None else text.startswith(pattern[:-1]) for text in texts]
        case _:
            raise UnsupportedError(
                f"The oracle cannot judge {predicate!r}", "Teach it, or ask for something else."
            )


def sort_keys(values: pa.Array) -> list[Any]:
    """For each value one that Python compares as Lance does; None for NULL."""
    if pa.types.is_floating(values.type):
        return [None if value is None else _float_key(value, values.type) for value in values.to_pylist()]
    if pa.types.is_temporal(values.type):
        whole = values.view(pa.int64() if values.type.bit_width == 64 else pa.int32())
        return list(whole.to_pylist())
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return [None if text is None else text.encode() for text in values.to_pylist()]
    return list(values.to_pylist())


def sort_key(literal: Literal) -> Any:  # Any: of one of the types above
    """The same for a literal."""
    return sort_keys(pa.array([literal.value], literal.type))[0]


def _float_key(value: float, type_: pa.DataType) -> int:
    if value == 0:
        return 0
    real, whole = _FLOATS[type_.bit_width]
    (bits,) = struct.unpack(whole, struct.pack(real, value))
    return int(bits) if bits >= 0 else int(bits) ^ ((1 << (type_.bit_width - 1)) - 1)


def _compare(value: Any, operator: Operator, wanted: Any) -> Truth:  # Any: as above
    if value is None:
        return None
    verdicts: dict[Operator, bool] = {
        Operator.EQUAL: value == wanted,
        Operator.NOT_EQUAL: value != wanted,
        Operator.LESS: value < wanted,
        Operator.LESS_EQUAL: value <= wanted,
        Operator.GREATER: value > wanted,
        Operator.GREATER_EQUAL: value >= wanted,
    }
    return verdicts[operator]


def _both(left: Sequence[Truth], right: Sequence[Truth]) -> list[Truth]:
    pairs = zip(left, right, strict=True)
    return [False if False in pair else None if None in pair else True for pair in pairs]


def _not(truth: Truth) -> Truth:
    return None if truth is None else not truth
