"""Places that keep the files of a segment in memory, count what is read of them, and can be damaged."""

from __future__ import annotations

import itertools
from pathlib import Path

from lancewright.errors import CorruptIndexError

_NUMBERS = itertools.count()


class MemoryPlace:
    """A folder in memory."""

    def __init__(self) -> None:
        """Start empty."""
        self.files: dict[str, bytes] = {}
        self.bytes_read = 0
        self._identity = f"memory-{next(_NUMBERS)}"

    @property
    def identity(self) -> str:
        """Names the folder among all others."""
        return self._identity

    def upload(self, name: str, path: str) -> None:
        """Take a copy of a local file."""
        self.files[name] = Path(path).read_bytes()

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """Read bytes, as many as there are: a store does not say that a file was cut short."""
        if name not in self.files:
            raise CorruptIndexError(f"There is no file {name!r}", "Rebuild the index.")
        content = self.files[name][start : start + length]
        self.bytes_read += len(content)
        return content

    def damaged(self, name: str, content: bytes) -> MemoryPlace:
        """A copy in which one file has other bytes."""
        copy = MemoryPlace()
        copy.files = {**self.files, name: content}
        return copy
