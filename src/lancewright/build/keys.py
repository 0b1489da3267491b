"""Answers what the keys of a requested index are: columns, or expressions over columns, whose type Lance is asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from lancewright.errors import InvalidRequestError, UnsupportedError
from lancewright.model.columns import Column, find_column, is_repeated
from lancewright.model.computed import ComputedColumn, find_expression, refuse_type, spell_expression
from lancewright.model.predicate.type_names import arrow_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from lancewright.kinds.registry import AnyKind
    from lancewright.model.predicate.syntax import Syntax
    from lancewright.model.request import IndexRequest
    from lancewright.model.snapshot import TableSnapshot

    TypeOf: TypeAlias = Callable[[str], pa.DataType]


INCLUDE = "include"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedKeys:
    """The columns that are read, each once, the keys, and the columns whose values the index keeps."""

    columns: tuple[Column, ...]
    keys: tuple[Column | ComputedColumn, ...]
    kept: tuple[Column, ...] = ()

    @property
    def are_columns(self) -> bool:
        """True when every column that is read is a key, and every key a column."""
        return self.columns == self.keys

    @property
    def default_name(self) -> str:
        """The name of an index that is given none."""
        words = (
            ".".join(key.names) if isinstance(key, Column) else re.sub(r"\W+", "_", key.path).strip("_")
            for key in self.keys
        )
        return "_".join([*words, "idx"])


def find_keys(snapshot: TableSnapshot, request: IndexRequest, type_of: TypeOf) -> RequestedKeys:
    """The keys of a request; the first that cannot be one raises."""
    keys: list[Column | ComputedColumn] = []
    columns: dict[int, Column] = {}
    for text in request.columns:
        expression = find_expression(text, snapshot.columns)
        if expression is None:
            column = find_column(snapshot.columns, text)
            read: tuple[Column, ...] = (column,)
            keys.append(column)
        else:
            computed, read = _compute(snapshot, expression, type_of)
            keys.append(computed)
        for column in read:
            _require_plain_field(snapshot, column)
            _require_plain_name(column)
            columns.setdefault(column.field_id, column)
    if len({key.path for key in keys}) < len(keys):
        raise InvalidRequestError(
            f"A column is named twice in {list(request.columns)}", "Name each column once."
        )
    included = _find_included(snapshot, request)
    own = tuple(key for key in keys if isinstance(key, Column) and _can_be_kept(key)) if included else ()
    kept = tuple(dict.fromkeys((*own, *included)))
    columns |= {column.field_id: column for column in kept}
    return RequestedKeys(columns=tuple(columns.values()), keys=tuple(keys), kept=kept)


def require_native_key(kind: AnyKind, keys: RequestedKeys) -> None:
    """Refuse what Lance's own kinds cannot have: several columns, or an expression."""
    computed = next((key for key in keys.keys if isinstance(key, ComputedColumn)), None)
    if computed is not None:
        raise UnsupportedError(
            f"Kind {kind.name!r} is Lance's, and Lance would take an index of {computed.path} for one of the column",
            "Use kind='composite' for ranges and order, or kind='key' for equality.",
        )
    if len(keys.keys) > 1:
        raise InvalidRequestError(
            f"Kind {kind.name!r} takes one column, not {len(keys.keys)}",
            "Use kind='composite' for several columns, or build one index for each.",
        )


def _find_included(snapshot: TableSnapshot, request: IndexRequest) -> tuple[Column, ...]:
    given = request.parameters.get(INCLUDE)
    if given is None:
        return ()
    if (
        isinstance(given, str)
        or not isinstance(given, Sequence)
        or not all(isinstance(one, str) for one in given)
    ):
        raise InvalidRequestError(f"include={given!r} is no list of columns", 'Write include=["name"].')
    found = tuple(find_column(snapshot.columns, path) for path in given)
    for column in found:
        _require_plain_name(column)
        if not _can_be_kept(column):
            raise InvalidRequestError(
                f"Column {column.path} is {column.type}, or a field of another, and cannot be included",
                "Include columns of numbers, texts, bytes, booleans, dates or times.",
            )
    return found


def _can_be_kept(column: Column) -> bool:
    """True for a column at the top whose values come out of an Arrow file, and of a filter on them, as they went in.

    A column with fields below it is known to Lance by those when it is rewritten, and a description in its metadata may be
    lost on the way.
    """
    plain = column.leaf_ids == (column.field_id,) and len(column.names) == 1 and not column.metadata
    type_ = column.type
    odd = pa.types.is_nested(type_) or pa.types.is_dictionary(type_) or pa.types.is_null(type_)
    return plain and not odd and not isinstance(type_, pa.BaseExtensionType)


def _compute(
    snapshot: TableSnapshot, expression: Syntax, type_of: TypeOf
) -> tuple[ComputedColumn, tuple[Column, ...]]:
    spelled, columns = spell_expression(expression, snapshot.columns)
    type_ = type_of(spelled)
    refuse_type(expression, spelled, type_)
    if arrow_name(type_) is None:
        raise InvalidRequestError(
            f"{spelled} is a {type_}, which no condition can compare",
            "Write an expression with one plain value.",
        )
    fields = tuple((column.path, column.field_id) for column in columns)
    return ComputedColumn(path=spelled, type=type_, fields=fields), columns


def _require_plain_field(snapshot: TableSnapshot, column: Column) -> None:
    if is_repeated(snapshot.columns, column):
        raise InvalidRequestError(
            f"Column {column.path!r} lies inside a list or a map, so a row has many of it",
            "Index the list itself, with label_list or inverted.",
        )


def _require_plain_name(column: Column) -> None:
    if any("`" in name for name in column.names):
        raise UnsupportedError(
            f"Lance indexes no column with a backtick in its name, as {'.'.join(column.names)!r} has",
            "Rename it first, with alter_columns of Lance's dataset.",
        )
