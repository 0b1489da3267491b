"""Turns the options of ``spark.read.format("lancewright")`` into what is to be read, and refuses those it does not know. Pure.

Spark hands every option over as text, its name in any case.
"""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancewright.errors import InvalidRequestError
from lancewright.model.columns import refuse_doubled
from lancewright.table.location import table_ref

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lancewright.table.location import TableRef

STORAGE_PREFIX = "storage."
OPTIONS = (
    *("version", "tag", "branch", "columns", "where", "limit"),
    *("use_indexes", "strict", "parallelism", "push_filters"),
)
_PLACE = frozenset({"path"})
# A name, or one in backticks, in which a comma is a part of the name.
_LISTED_NAME = re.compile(r"\s*((?:`(?:[^`]|``)*`|[^,`])*)(?:,|\Z)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What the options ask for. ``parallelism`` of None is the session's."""

    table: TableRef
    tag: str | None
    columns: tuple[str, ...] | None
    where: str | None
    limit: int | None
    use_indexes: bool
    strict: bool
    parallelism: int | None
    push_filters: bool


def parse_options(options: Mapping[str, str], storage_options: Mapping[str, str]) -> ReadOptions:
    """Read the options; ``storage_options`` are those of the session, which options named ``storage.…`` replace."""
    given = {name.lower(): value for name, value in options.items()}
    own = {name: value for name, value in given.items() if not name.startswith(STORAGE_PREFIX)}
    _refuse_unknown(own)
    storage = {
        name.removeprefix(STORAGE_PREFIX): value
        for name, value in given.items()
        if name.startswith(STORAGE_PREFIX)
    }
    if "path" not in own:
        raise InvalidRequestError("No table was named", 'Pass its place: .load("s3://lake/events").')
    if "tag" in own and ("version" in own or "branch" in own):
        raise InvalidRequestError(
            "A tag names a version of a branch, and version or branch is given too", "Pass the tag alone."
        )
    version = _whole_number(own, "version", 1)
    session = {name: value for name, value in storage_options.items() if name.lower() not in storage}
    return ReadOptions(
        table=table_ref(
            own["path"], version=version, branch=own.get("branch"), storage_options=session | storage
        ),
        tag=own.get("tag"),
        columns=None if "columns" not in own else parse_columns(own["columns"]),
        where=own.get("where"),
        limit=_whole_number(own, "limit", 0),
        use_indexes=_truth(own, "use_indexes", default=True),
        strict=_truth(own, "strict", default=False),
        parallelism=_whole_number(own, "parallelism", 1),
        push_filters=_truth(own, "push_filters", default=False),
    )


def parse_columns(text: str) -> tuple[str, ...]:
    """Column paths from a list: ``id, user.age, `odd, name` ``, or a JSON array of them."""
    names = _json_names(text) if text.lstrip().startswith("[") else _listed_names(text)
    refuse_doubled(names, "columns")
    return names


def _json_names(text: str) -> tuple[str, ...]:
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise _no_names(text)
    return tuple(names)


def _listed_names(text: str) -> tuple[str, ...]:
    names: list[str] = []
    position = 0
    while True:
        match = _LISTED_NAME.match(text, position)
        if match is None or not match.group(1).strip():
            raise _no_names(text)
        names.append(match.group(1).strip())
        position = match.end()
        if not match.group().endswith(","):
            return tuple(names)


def _no_names(text: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"columns={text!r} is no list of columns",
        "Write names with commas between them, odd ones in backticks, or a JSON array of them.",
    )


def _refuse_unknown(options: Mapping[str, str]) -> None:
    unknown = sorted(options.keys() - _PLACE - set(OPTIONS))
    if "paths" in unknown:
        raise InvalidRequestError("Several tables were named", "Load one at a time, and union the frames.")
    if unknown:
        near = difflib.get_close_matches(unknown[0], OPTIONS, n=1)
        meant = f"Did you mean {near[0]!r}? " if near else ""
        raise InvalidRequestError(
            f"Option {unknown[0]!r} is unknown",
            f"{meant}Use one of: {', '.join(OPTIONS)}; options of the object store begin with {STORAGE_PREFIX!r}.",
        )


def _whole_number(options: Mapping[str, str], name: str, least: int) -> int | None:
    if name not in options:
        return None
    text = options[name].strip()
    if not (text.isascii() and text.isdecimal()) or int(text) < least:
        raise InvalidRequestError(f"{name}={text!r} is no number", f"Pass a whole number, {least} or more.")
    return int(text)


def _truth(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name, str(default)).strip().lower()
    if text not in {"true", "false"}:
        raise InvalidRequestError(f"{name}={text!r} is neither true nor false", "Pass one of the two.")
    return text == "true"
