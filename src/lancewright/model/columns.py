"""Answers which column of a table a name means; does not read the table.

A path is written as Lance's SQL dialect writes it: fields joined by dots, a name with special
characters in backticks (``meta.`user id```). Double quotes make a string literal there, so they do not quote.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewright.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# Words a filter reads as something else than a name: on a column ``null`` it finds no row. Of 288 SQL words, these went
# wrong in Lance 14.
_RESERVED_WORDS = frozenset(
    {"current_date", "current_time", "current_timestamp", "exists", "false", "interval"}
    | {"not", "null", "select", "trim", "true", "with"}
)
_NEXT_NAME = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
_SUGGESTED_COLUMNS_MAX = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column or nested field: its path, its field id and the ids under which data files list its data."""

    names: tuple[str, ...]
    field_id: int
    leaf_ids: tuple[int, ...]
    type: pa.DataType
    metadata: tuple[tuple[str, str], ...] = ()

    @property
    def path(self) -> str:
        """The path as a filter or an index call writes it, quoted where needed."""
        return ".".join(quote_name(name) for name in self.names)

    @property
    def extension_name(self) -> str | None:
        """The Arrow extension this column declares, for example ``geoarrow.wkb``."""
        return dict(self.metadata).get("ARROW:extension:name")


def quote_name(name: str) -> str:
    """Quote one name for a filter, if it needs quoting."""
    if _PLAIN_NAME.match(name) and name.lower() not in _RESERVED_WORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


def split_path(path: str) -> tuple[str, ...]:
    """Cut a path into names; raise if it is not a path."""
    if not isinstance(path, str):
        raise InvalidRequestError(f"{path!r:.60} is not a column path", "Name the column as text.")
    names: list[str] = []
    position = 0
    while position <= len(path):
        match = _NEXT_NAME.match(path, position)
        if match is None or (match.end() < len(path) and path[match.end()] != "."):
            raise InvalidRequestError(
                f"{path!r} is not a column path",
                "Write field names joined by dots; put a name with special characters in backticks.",
            )
        names.append(match.group(1).replace("``", "`") if match.group(1) else match.group(2))
        position = match.end() + 1
    return tuple(names)


def find_column(columns: Mapping[tuple[str, ...], Column], path: str) -> Column:
    """Return the column a path names: exactly, or ignoring case when only one matches."""
    whole_name = columns.get((path,))
    if whole_name is not None:
        return whole_name
    names = split_path(path)
    exact = columns.get(names)
    if exact is not None:
        return exact
    folded = tuple(name.lower() for name in names)
    similar = [column for key, column in columns.items() if tuple(name.lower() for name in key) == folded]
    if len(similar) == 1:
        return similar[0]
    if similar:
        raise InvalidRequestError(
            f"Column {path!r} may mean any of {_listing(similar)}",
            "Write the name exactly as the table has it.",
        )
    usable = [column for column in columns.values() if not is_repeated(columns, column)]
    raise InvalidRequestError(f"Column {path!r} is not in the table", f"Use one of: {_listing(usable)}.")


def refuse_doubled(names: Sequence[str], option: str) -> None:
    """Raise when a list of columns to return names one twice."""
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise InvalidRequestError(f"{option} names {', '.join(doubled)} twice", "Name each column once.")


def find_outside_lists(columns: Mapping[tuple[str, ...], Column], path: str) -> Column:
    """The column of a path, of which a row has one value; raises when it lies inside a list."""
    column = find_column(columns, path)
    if is_repeated(columns, column):
        raise InvalidRequestError(
            f"Column {column.path} lies inside a list", "Ask for the list, or for a column outside of it."
        )
    return column


def is_repeated(columns: Mapping[tuple[str, ...], Column], column: Column) -> bool:
    """True when a column lies inside a list or a map, so that one row has many values of it."""
    parents = (columns.get(column.names[:depth]) for depth in range(1, len(column.names)))
    return any(parent is not None and _is_many(parent.type) for parent in parents)


def _is_many(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(type_)
        or pa.types.is_large_list(type_)
        or pa.types.is_fixed_size_list(type_)
        or pa.types.is_map(type_)
    )


def _listing(columns: Iterable[Column]) -> str:
    paths = [column.path for column in columns]
    shown = ", ".join(paths[:_SUGGESTED_COLUMNS_MAX])
    hidden = len(paths) - _SUGGESTED_COLUMNS_MAX
    return f"{shown} and {hidden} more" if hidden > 0 else shown
