"""Answers what a key of an index is that is no column but an expression: its one spelling, its type, the columns it is over. Pure.

Filters and indexes spell an expression alike: names as the table has them, parentheses around every operator. Columns are kept by
their field ids, so that an expression goes on meaning the same columns when they are renamed.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewright.errors import InvalidRequestError
from lancewright.model.columns import find_column, quote_name
from lancewright.model.predicate import syntax as syn
from lancewright.model.predicate.casting import is_text, plain_type
from lancewright.model.predicate.functions import is_changing
from lancewright.model.predicate.grammar import read_filter
from lancewright.model.predicate.names import find_filter_column
from lancewright.model.predicate.rendering import render
from lancewright.model.predicate.type_names import type_of_arrow_name
from lancewright.model.segment_details import DetailsError, details_from_bytes, is_ours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from lancewright.model.columns import Column
    from lancewright.model.index import Segment
    from lancewright.model.predicate.syntax import Syntax
    from lancewright.model.segment_details import SegmentDetails
    from lancewright.model.snapshot import TableSnapshot

_ARITHMETIC = frozenset({"+", "-", "*", "/", "%", "||"})
_NEVER_NAN = frozenset({"json_get_float"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedColumn:
    """An expression that an index has as a key: its spelling, its type, and the columns in it with their field ids."""

    path: str
    type: pa.DataType
    fields: tuple[tuple[str, int], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The paths of the columns in it."""
        return tuple(path for path, _ in self.fields)


def find_expression(text: str, columns: Mapping[tuple[str, ...], Column]) -> Syntax | None:
    """The expression that a caller wrote where a column may stand; None when it names a column, or means to."""
    with suppress(InvalidRequestError):
        find_column(columns, text)
        return None
    if not any(sign in text for sign in (*_ARITHMETIC, "(", "[", "::")):
        return None
    found = read_filter(text)
    return None if isinstance(found, syn.Name) else found


def spell_expression(
    expression: Syntax, columns: Mapping[tuple[str, ...], Column]
) -> tuple[str, tuple[Column, ...]]:
    """The one spelling of an expression and the columns in it; raise when it cannot be a key."""
    found: dict[str, Column] = {}

    def find(names: tuple[str, ...]) -> Column:
        column = find_filter_column(columns, names)
        found[column.path] = column
        return column

    _refuse_changing(expression)
    spelled = render(expression, find, {})
    _refuse_shape(expression, spelled)
    _refuse_casts(expression, find)
    for column in found.values():
        _refuse_column(column, spelled)
    if not found:
        raise InvalidRequestError(f"{spelled} has no column in it", "Write an expression over a column.")
    if render(read_filter(spelled), find, {}) != spelled:
        raise InvalidRequestError(f"{spelled} has no settled spelling", "Write it in a simpler way.")
    return spelled, tuple(found.values())


def refuse_type(expression: Syntax, spelled: str, type_: pa.DataType) -> None:
    """Raise when values of an expression may differ from machine to machine."""
    exact = isinstance(expression, syn.Function) and expression.name in _NEVER_NAN
    if pa.types.is_floating(type_) and not exact:
        raise InvalidRequestError(
            f"{spelled} is a {type_}: which NaN arithmetic gives, and where it sorts, depends on the machine",
            "Cast it to DECIMAL or BIGINT, or index the columns in it.",
        )


def restate(computed: ComputedColumn, columns_by_field_id: Mapping[int, Column]) -> ComputedColumn:
    """The same expression with the names its columns have now; raise InvalidRequestError when one is gone."""
    ids = dict(computed.fields)

    def find(names: tuple[str, ...]) -> Column:
        column = columns_by_field_id.get(ids.get(".".join(map(quote_name, names)), -1))
        if column is None:
            raise InvalidRequestError(
                f"A column of {computed.path} is no longer in the table", "Drop the index."
            )
        return column

    path = render(read_filter(computed.path), find, {})
    now = tuple((columns_by_field_id[field_id].path, field_id) for _, field_id in computed.fields)
    return replace(computed, path=path, fields=now)


def keys_of_segment(
    segment: Segment, details: SegmentDetails, columns_by_field_id: Mapping[int, Column]
) -> tuple[Column | ComputedColumn, ...]:
    """What a segment has as keys, by the names of now; raise InvalidRequestError when that cannot be said."""
    found: list[Column | ComputedColumn] = []
    for place, key in enumerate(details.keys):
        if key.expression is None:
            field_id = key.fields[0][1] if key.fields else segment.field_ids[place]
            found.append(columns_by_field_id[field_id])
            continue
        type_ = type_of_arrow_name(key.arrow_type or "")
        if type_ is None:
            raise InvalidRequestError(
                f"The type {key.arrow_type} of {key.expression} is not known here", "Rebuild the index."
            )
        stored = ComputedColumn(path=key.expression, type=type_, fields=key.fields)
        found.append(restate(stored, columns_by_field_id))
    return tuple(found)


def computed_columns(snapshot: TableSnapshot) -> dict[str, ComputedColumn]:
    """Every expression that an index of this snapshot has as a key, by its spelling.

    Two indexes may have one expression with two types only when one was built by another release of Lance; then neither is
    matched with a filter, because the filter's literals are given one type.
    """
    found: dict[str, ComputedColumn] = {}
    doubtful: set[str] = set()
    for computed in _computed(snapshot):
        if found.setdefault(computed.path, computed).type != computed.type:
            doubtful.add(computed.path)
    return {path: computed for path, computed in found.items() if path not in doubtful}


def base_columns(paths: Iterable[str], computed: Mapping[str, ComputedColumn]) -> tuple[str, ...]:
    """The columns that are read for these columns and expressions, each once."""
    read = (path for given in paths for path in (computed[given].columns if given in computed else (given,)))
    return tuple(dict.fromkeys(read))


def _computed(snapshot: TableSnapshot) -> Iterator[ComputedColumn]:
    for index in snapshot.indexes:
        for segment in index.segments:
            if not is_ours(segment.type_url):
                break
            try:
                details = details_from_bytes(segment.details)
                keys = (
                    keys_of_segment(segment, details, snapshot.columns_by_field_id)
                    if any(key.expression is not None for key in details.keys)
                    else ()
                )
            except (DetailsError, InvalidRequestError, LookupError):
                continue  # the index is not asked either, and says why
            yield from (key for key in keys if isinstance(key, ComputedColumn))


def _refuse_changing(node: object) -> None:
    if isinstance(node, syn.Function) and is_changing(node.name):
        raise InvalidRequestError(
            f"Function {node.name} gives another value each time, so no index can know it",
            "Write the values into a column and index that.",
        )
    if isinstance(node, tuple):
        for part in node:
            _refuse_changing(part)
    elif is_dataclass(node):
        for one in fields(node):
            _refuse_changing(getattr(node, one.name))


def _refuse_casts(node: object, find: Callable[[tuple[str, ...]], Column]) -> None:
    """Refuse casts that a filter may take off: Lance 14 reads ``CAST(d AS BIGINT) = 3`` of a decimal as ``d = 3``.

    It does so where the other side can be given the inner type: for numbers and times, not for texts on one side.
    """
    match node:
        case syn.Cast(child=child, type=type_):
            of_text = isinstance(child, syn.Name) and is_text(plain_type(find(child.names).type))
            if not of_text and not is_text(type_):
                raise InvalidRequestError(
                    f"CAST(… AS {type_}) has another value in a filter than by itself, where Lance leaves it out",
                    "Cast to STRING, cast a text, or index the column in it.",
                )
        case syn.Function(name="arrow_cast" | "arrow_try_cast"):
            raise InvalidRequestError(
                "arrow_cast may have another value in a filter than by itself",
                "Use CAST, to STRING or of a text.",
            )
    if isinstance(node, tuple):
        for part in node:
            _refuse_casts(part, find)
    elif is_dataclass(node):
        for one in fields(node):
            _refuse_casts(getattr(node, one.name), find)


def _refuse_shape(expression: Syntax, spelled: str) -> None:
    match expression:
        case syn.Function() | syn.Cast() | syn.Minus() | syn.Item():
            return
        case syn.Binary(sign=sign) if sign in _ARITHMETIC:
            return
        case _:
            raise InvalidRequestError(
                f"{spelled} is no value that an index can have as a key",
                "Index what is compared in it: lower(name), date_trunc('day', at), json_get_string(doc, 'key').",
            )


def _refuse_column(column: Column, spelled: str) -> None:
    if column.field_id < 0:
        raise InvalidRequestError(
            f"{spelled} reads {column.path}, which every compaction changes", "Use columns of the table."
        )
    if column.leaf_ids != (column.field_id,):
        # Lance names only the leaves when it rewrites one in place, and its coverage goes by the field that is named here.
        raise InvalidRequestError(
            f"{spelled} reads {column.path}, whose values lie in fields below it",
            "Write the expression over one of those fields, or write its value into a column.",
        )
