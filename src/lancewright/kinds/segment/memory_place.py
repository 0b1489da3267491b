"""A place in memory, for a segment that lives as long as one query."""

from __future__ import annotations

import itertools
from pathlib import Path

from lancewright.errors import CorruptIndexError

_NUMBERS = itertools.count()


class MemoryPlace:
    """The files of one segment, in this process."""

    def __init__(self) -> None:
        """Start empty."""
        self._files: dict[str, bytes] = {}
        self._identity = f"memory of a query {next(_NUMBERS)}"

    @property
    def identity(self) -> str:
        """Names it among all others."""
        return self._identity

    def upload(self, name: str, path: str) -> None:
        """Take a copy of a local file."""
        self._files[name] = Path(path).read_bytes()

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """Read bytes."""
        if name not in self._files:
            raise CorruptIndexError(f"There is no file {name!r}", "Report it: it was written just now.")
        return self._files[name][start : start + length]
