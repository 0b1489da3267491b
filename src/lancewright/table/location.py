"""Answers where a table is: the value that tasks carry. Opens nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from lancewright.errors import InvalidRequestError

# A user with a password ends at the last "@" of all: a secret with an unquoted "@", "/" or "?" makes no valid URI, but people
# write it, and then a name that says too little is better than one that says too much. A port is no password.
_USER_INFO = re.compile(r"(?<=://)(?:[^/?#:@]*:(?!\d*(?:[/?#]|\Z)).*|[^/?#]*)@", re.DOTALL)
_QUERY = re.compile(r"\?.*\Z", re.DOTALL)
_QUERY_VALUE = re.compile(r"=([^&]+)")
# Options that say where and how; the value of any other option counts as a secret.
_OPEN_OPTION = re.compile(
    r"region|endpoint|allow|timeout|retr|bucket|container|account_name|virtual|path_style|conditional|checksum|express",
    re.IGNORECASE,
)
_SECRET_CHARACTERS_MIN = 4  # a shorter value is no secret, and hiding it would blank ordinary words
_MAIN_BRANCH = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRef:
    """A table, optionally pinned to a version, with what is needed to reach it.

    Credentials are part of it and of nothing it prints: ``repr`` and ``name`` leave them out.
    """

    uri: str = field(repr=False)
    version: int | None = None
    branch: str | None = None
    storage_options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    name: str = field(init=False, default="")

    def __post_init__(self) -> None:
        """Derive the printable name, so that every other place can use it without thinking."""
        if self.version is not None and not _is_version(self.version):
            raise InvalidRequestError(
                f"version={self.version!r} is no version of a table", "Pass a whole number, the first is 1."
            )
        object.__setattr__(self, "name", redact_uri(self.root_uri))

    @property
    def root_uri(self) -> str:
        """The folder that holds this branch's versions and indexes: a branch has a root of its own."""
        root = self.uri.rstrip("/")
        return root if self.branch is None else f"{root}/tree/{self.branch}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """Every text that no message may show, the longest first."""
        values = [value for key, value in self.storage_options if not _OPEN_OPTION.search(key)]
        user_info = _USER_INFO.search(self.uri)
        query = _QUERY.search(self.uri)
        urls = [value for key, value in self.storage_options if _OPEN_OPTION.search(key) and "://" in value]
        found = [match.group()[:-1] for match in map(_USER_INFO.search, urls) if match]
        values += [text.partition(":")[2] or text for text in found]
        values += [user_info.group()[:-1].partition(":")[2] or user_info.group()[:-1]] if user_info else []
        values += [query.group()[1:], *_QUERY_VALUE.findall(query.group())] if query else []
        return tuple(sorted({value for value in values if _is_secret(value)}, key=len, reverse=True))

    def pinned(self, version: int) -> TableRef:
        """The same table at one version."""
        return replace(self, version=version)

    def latest(self) -> TableRef:
        """The same table, not pinned."""
        return replace(self, version=None)


def table_ref(
    uri: str | os.PathLike[str],
    *,
    version: int | None = None,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> TableRef:
    """Make a reference from what a caller has at hand; a local path becomes absolute, so that it means one place."""
    named = None if branch == _MAIN_BRANCH else branch
    return TableRef(
        uri=_whole_uri(uri), version=version, branch=named, storage_options=_whole_options(storage_options)
    )


def redact_uri(uri: str) -> str:
    """Remove what a URI may carry besides the place: user, password, signed query."""
    return _QUERY.sub("?…", _USER_INFO.sub("…@", uri))


def _whole_uri(uri: object) -> str:
    if not isinstance(uri, str | os.PathLike) or not (text := os.fspath(uri)) or not isinstance(text, str):
        given = "An empty text" if uri == "" else type(uri).__name__
        raise InvalidRequestError(
            f"{given} is no place of a table", "Pass a path or an object store URI as text."
        )
    return text if "://" in text else str(Path(text).expanduser().absolute())


def _whole_options(options: object) -> tuple[tuple[str, str], ...]:
    if options is None:
        return ()
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise InvalidRequestError(
            "storage_options are not names with values", "Pass a mapping of text to text."
        )
    return tuple(sorted((name, _option_text(name, value)) for name, value in options.items()))


def _option_text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"  # as the object stores write it
    if isinstance(value, str | int):
        return str(value)
    raise InvalidRequestError(
        f"Storage option {name!r} is a {type(value).__name__}", "Write its value as text."
    )


def _is_secret(value: str) -> bool:
    return len(value) >= _SECRET_CHARACTERS_MIN and value.lower() not in {"true", "false"}


def _is_version(version: object) -> bool:
    # Lance would take text for the name of a tag, and True for 1.
    return isinstance(version, int) and not isinstance(version, bool) and version >= 0
