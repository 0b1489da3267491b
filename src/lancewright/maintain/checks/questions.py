"""What an index is asked: conditions made of values that rows have, and of values at the edges. Pure.

Each is a filter in Lance's dialect, answered by the index and by the rows alike.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewright.errors import UnsupportedError
from lancewright.model.predicate import Comparison, IsNull, Literal, Operator, to_lance_sql
from lancewright.model.predicate.printing import literal_sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Kinds that are asked for values, of which those that know an order.
VALUES = frozenset({"btree", "bitmap", "zonemap", "bloomfilter"})
_ORDERED = frozenset({"btree", "bitmap", "zonemap"})
_PIECE = re.compile(r"\w{3,24}")


def ask_values(kind: str, path: str, values: Iterable[pa.Scalar], edges: Sequence[pa.Scalar | None]) -> list[str]:
    """Each value once, NULL, NaN and zero where there may be such, and what lies beyond the edges."""
    literals = dict.fromkeys(literal for value in values if (literal := literal_of(value)) is not None)
    known = [literal for edge in edges if edge is not None and (literal := literal_of(edge)) is not None]
    literals |= dict.fromkeys(known)
    for literal in tuple(literals):
        if pa.types.is_floating(literal.type):
            literals |= dict.fromkeys((Literal(value=0.0, type=literal.type), Literal(value=math.nan, type=literal.type)))
            break
    asked = [_compare(path, Operator.EQUAL, literal) for literal in literals]
    if kind in _ORDERED and known and not pa.types.is_boolean(known[0].type):
        asked += [_compare(path, Operator.LESS, known[0]), _compare(path, Operator.GREATER, known[-1])]
    return [*(sql for sql in asked if sql is not None), to_lance_sql(IsNull(column=path))]


def ask_items(path: str, lists: Iterable[pa.Scalar]) -> list[str]:
    """Each item of some lists once."""
    literals = dict.fromkeys(
        literal
        for found in lists
        if found.is_valid
        for item in found.values
        if (literal := literal_of(item)) is not None
    )
    written = (write_literal(literal) for literal in literals)
    return [f"array_has({path}, {text})" for text in written if text is not None]


def ask_pieces(path: str, texts: Iterable[pa.Scalar]) -> list[str]:
    """A word of each text, once."""
    words = dict.fromkeys(word for text in texts if (word := longest_word(text.as_py())) is not None)
    return [f"contains({path}, {literal_sql(Literal(value=word, type=pa.string()))})" for word in words]


def ask_shapes(path: str, shapes: Iterable[pa.Scalar]) -> list[str]:
    """Each geometry once."""
    found = dict.fromkeys(shape.as_py() for shape in shapes if shape.is_valid)
    return [f"st_intersects({path}, st_geomfromwkb(X'{content.hex()}'))" for content in found]


def longest_word(text: str | None) -> str | None:
    """The longest word of a text, the first of several; None when it has none of three characters or more."""
    return max(_PIECE.findall(text or ""), key=len, default=None)


def literal_of(value: pa.Scalar) -> Literal | None:
    """A value as a literal; None for NULL. Lance takes -0.0 and 0.0 for one number in an equality."""
    if not value.is_valid:
        return None
    plain: Any = value.value if pa.types.is_temporal(value.type) else value.as_py()  # Any: of the column's type
    return Literal(value=0.0 if plain == 0 and isinstance(plain, float) else plain, type=value.type)


def write_literal(literal: Literal) -> str | None:
    """The literal as SQL; None for types of which a filter cannot have one."""
    try:
        return literal_sql(literal)
    except (UnsupportedError, TypeError, AttributeError):
        return None


def either(conditions: Sequence[str]) -> str:
    """All conditions in one."""
    return " OR ".join(f"({sql})" for sql in conditions)


def _compare(path: str, operator: Operator, literal: Literal) -> str | None:
    if write_literal(literal) is None:
        return None
    return to_lance_sql(Comparison(column=path, operator=operator, literal=literal))
