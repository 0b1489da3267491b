"""Finds the column a filter names, or says which it may have meant."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa

from lancewright.errors import InvalidRequestError
from lancewright.model.columns import Column, is_repeated, quote_name

if TYPE_CHECKING:
    from collections.abc import Mapping

# Columns every table has without listing them. They are numbers of rows, and never NULL.
SYSTEM_COLUMNS: dict[tuple[str, ...], Column] = {
    (name,): Column(names=(name,), field_id=-1, leaf_ids=(), type=pa.uint64())
    for name in ("_rowid", "_rowaddr", "_rowoffset")
}


def find_filter_column(columns: Mapping[tuple[str, ...], Column], names: tuple[str, ...]) -> Column:
    """The column with exactly these names, or the only one when case is ignored."""
    found = columns.get(names) or SYSTEM_COLUMNS.get(names)
    if found is None:
        folded = _fold(names)
        similar = [column for key, column in columns.items() if _fold(key) == folded]
        similar = similar or [column for key, column in SYSTEM_COLUMNS.items() if key == folded]
        if len(similar) > 1:
            paths = " or ".join(column.path for column in similar)
            raise InvalidRequestError(
                f"Column {_path(names)} may mean {paths}", "Write it exactly as the table has it."
            )
        if not similar:
            _refuse(columns, names)
        found = similar[0]
    if is_repeated(columns, found):
        raise InvalidRequestError(
            f"{found.path} has many values in a row", "Ask for items of a list with array_has(list, value)."
        )
    return found


def _refuse(columns: Mapping[tuple[str, ...], Column], names: tuple[str, ...]) -> NoReturn:
    known = {_path(_fold(key)): column.path for key, column in columns.items()}
    near = difflib.get_close_matches(_path(_fold(names)), known, n=3)
    within = [column.path for key, column in columns.items() if key[: len(names)] == names]
    hints = [known[path] for path in near] or within[:3] or list(known.values())[:12]
    raise InvalidRequestError(
        f"Column {_path(names)} is not in the table",
        f"Use {' or '.join(hints)}. Strings are in single quotes, names with special characters in backticks.",
    )


def _fold(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)


def _path(names: tuple[str, ...]) -> str:
    return ".".join(quote_name(name) for name in names)
