"""A store over a place in memory, without checks: for files that have no header yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from lancewright.errors import UnsupportedError

if TYPE_CHECKING:
    from lancewright.testing.fake import MemoryPlace


class PlainStore:
    """Reads what lies in a place."""

    def __init__(self, place: MemoryPlace) -> None:
        """Read from this place."""
        self._place = place

    def create(self, name: str) -> BinaryIO:
        """Nothing is written."""
        raise UnsupportedError(f"{name!r} cannot be written", "This store reads.")

    def open(self, name: str) -> PlainFile:
        """A file in ranges."""
        return PlainFile(self._place.files[name])

    def local(self, name: str) -> str:
        """There are no local copies."""
        raise UnsupportedError(f"{name!r} has no copy", "This store is in memory.")


class PlainFile:
    """Bytes in memory."""

    def __init__(self, content: bytes) -> None:
        """Hold them."""
        self._content = content

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self._content)

    def read(self, start: int, length: int) -> memoryview:
        """Some of them."""
        return memoryview(self._content)[start : start + length]
