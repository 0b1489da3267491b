"""What an index is asked: conditions made of values that rows have, and of values at the edges. Pure.

Each is a filter in Lance's dialect, answered by the index and by the rows alike.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A condition, and the addresses of rows that it was made of. ``overlaps``: another may be TRUE for the same row."""

    sql: str
    rows: tuple[int, ...] = ()
    overlaps: bool = False


def ask_values(
    kind: str,
    path: str,
    values: Iterable[tuple[pa.Scalar, int | None]],
    edges: Sequence[pa.Scalar | None],
) -> list[Question]:
    """Each value once, NULL, NaN and zero where there may be such, and what lies beyond the edges.

    Values come with the address of a row that has them, or with None.
    """
    literals: dict[Literal, list[int]] = {}
    for value, row in values:
        literal = literal_of(value)
        if literal is not None:
            literals.setdefault(literal, []).extend(() if row is None else (row,))
    known = [literal for edge in edges if edge is not None and (literal := literal_of(edge)) is not None]
    for literal in known:
        literals.setdefault(literal, [])
    type_ = next((literal.type for literal in literals), None)
    if type_ is not None and pa.types.is_floating(type_):
        for number in (0.0, math.nan):
            literals.setdefault(Literal(value=number, type=type_), [])
    asked = [
        Question(
            sql=sql, rows=tuple(rows), overlaps=isinstance(literal.value, float) and math.isnan(literal.value)
        )
        for literal, rows in literals.items()
        if (sql := _compare(path, Operator.EQUAL, literal)) is not None
    ]
    if kind in _ORDERED and known and not pa.types.is_boolean(known[0].type):
        beyond = (_compare(path, Operator.LESS, known[0]), _compare(path, Operator.GREATER, known[-1]))
        asked += [Question(sql=sql, overlaps=True) for sql in beyond if sql is not None]
    return [*asked, Question(sql=to_lance_sql(IsNull(column=path)))]


def ask_items(path: str, lists: Iterable[pa.Scalar]) -> list[Question]:
    """Each item of some lists once."""
    literals = dict.fromkeys(
        literal
        for found in lists
        if found.is_valid
        for item in found.values
        if (literal := literal_of(item)) is not None
    )
    written = (write_literal(literal) for literal in literals)
    return [Question(sql=f"array_has({path}, {text})", overlaps=True) for text in written if text is not None]


def ask_pieces(path: str, texts: Iterable[pa.Scalar]) -> list[Question]:
    """A word of each text, once."""
    words = dict.fromkeys(word for text in texts if (word := longest_word(text.as_py())) is not None)
    written = (literal_sql(Literal(value=word, type=pa.string())) for word in words)
    return [Question(sql=f"contains({path}, {text})", overlaps=True) for text in written]


def ask_shapes(path: str, shapes: Iterable[pa.Scalar]) -> list[Question]:
    """Each geometry once."""
    found = dict.fromkeys(shape.as_py() for shape in shapes if shape.is_valid)
    return [
        Question(sql=f"st_intersects({path}, st_geomfromwkb(X'{content.hex()}'))", overlaps=True)
        for content in found
    ]


def longest_word(text: str | None) -> str | None:
    """The longest word of a text, the first of several; None when it has none of three characters or more."""
    return max(_PIECE.findall(text or ""), key=len, default=None)


def literal_of(value: pa.Scalar) -> Literal | None:
    """A value as a literal; None for NULL. Lance takes -0.0 and 0.0 for one number in an equality."""
    if not value.is_valid:
        return None
    plain: Any = (
        value.value if pa.types.is_temporal(value.type) else value.as_py()
    )  # Any: of the column's type
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
