"""The store a kind writes to and reads from: local files while it writes, checked ranges while it reads.

Where the bytes lie is a ``Place``: a table's storage, or memory in tests.
"""

from __future__ import annotations

import tempfile
import threading
import zlib
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, Self, cast

from lancewright.errors import CorruptIndexError, InvalidRequestError
from lancewright.kinds.segment.header import BLOCK_BYTES, HEADER_FILE, FileEntry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lancewright.kinds.segment.header import SegmentHeader

CACHE_BYTES_MAX = 256 << 20
_REBUILD = "Rebuild the index."


class Place(Protocol):
    """A folder of files that are written whole and read in ranges."""

    @property
    def identity(self) -> str:
        """Names the folder among all others; its files never change."""
        ...

    def upload(self, name: str, path: str) -> None:
        """Put a local file there."""
        ...

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """Read bytes; an error when they are not there."""
        ...


class WritingStore:
    """Writes files of a segment: each is a local file until it is closed, then it goes to its place."""

    def __init__(self, place: Place) -> None:
        """Write to this place."""
        self._place = place
        self._entries: dict[str, FileEntry] = {}
        self._open: set[str] = set()

    @property
    def files(self) -> tuple[FileEntry, ...]:
        """What was written; raises when a file was not closed."""
        if self._open:
            raise InvalidRequestError(
                f"The kind did not close {min(self._open)!r}", "Close every file that build() creates."
            )
        return tuple(self._entries.values())

    def create(self, name: str) -> BinaryIO:
        """Write a new file."""
        if not name or name != Path(name).name or name.startswith("_") or name in self._entries:
            raise InvalidRequestError(
                f"{name!r} cannot be the name of another file of a segment",
                "Use a new name without '/', not beginning with '_'.",
            )
        return self.create_own(name)

    def create_own(self, name: str) -> BinaryIO:
        """Write a file of the framework's, whose name begins with an underscore."""
        self._open.add(name)
        return cast(
            "BinaryIO", _WrittenFile(self, name)
        )  # it has what writers use of a file: write and close

    def open(self, name: str) -> CheckedFile:
        """A segment is read when it is finished."""
        raise InvalidRequestError(f"{name!r} is being written", "Read it in open(), not in build().")

    def local(self, name: str) -> str:
        """As ``open``."""
        raise InvalidRequestError(f"{name!r} is being written", "Read it in open(), not in build().")

    def upload_header(self, path: str) -> None:
        """Put the header there, which says that the segment is complete."""
        self._place.upload(HEADER_FILE, path)

    def finish_file(self, entry: FileEntry, path: str) -> None:
        """Take over a file that is complete."""
        self._place.upload(entry.name, path)
        self._open.discard(entry.name)
        self._entries[entry.name] = entry


class _WrittenFile:
    """A file that counts its checksums while it is written."""

    def __init__(self, store: WritingStore, name: str) -> None:
        self._store = store
        self._name = name
        self._file = tempfile.NamedTemporaryFile(prefix="lancewright-")  # noqa: SIM115 - closed by close()
        self._size = 0
        self._checksum = 0
        self._checksums: list[int] = []

    def write(self, content: bytes | memoryview) -> int:
        view = memoryview(content).cast("B")
        self._file.write(view)
        place = 0
        while place < len(view):
            free = BLOCK_BYTES - self._size % BLOCK_BYTES
            piece = view[place : place + free]
            self._checksum = zlib.crc32(piece, self._checksum)
            self._size += len(piece)
            place += len(piece)
            if self._size % BLOCK_BYTES == 0:
                self._checksums.append(self._checksum)
                self._checksum = 0
        return len(view)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        if self._file.closed:
            return
        if self._size % BLOCK_BYTES:
            self._checksums.append(self._checksum)
        self._file.flush()
        entry = FileEntry(name=self._name, size=self._size, checksums=tuple(self._checksums))
        try:
            self._store.finish_file(entry, self._file.name)
        finally:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        if kind is None:
            self.close()
        else:
            self._file.close()


class ReadingStore:
    """Reads the files of a finished segment."""

    def __init__(self, place: Place, header: SegmentHeader, cache: BlockCache | None = None) -> None:
        """Read from this place what the header lists."""
        self._place = place
        self._header = header
        self._cache = BLOCKS if cache is None else cache
        self._copies: dict[str, str] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._copying = threading.Lock()

    def create(self, name: str) -> BinaryIO:
        """A segment never changes."""
        raise InvalidRequestError(f"{name!r} cannot be written", "A finished segment never changes.")

    def open(self, name: str) -> CheckedFile:
        """Read a file in ranges."""
        entry = self._header.file(name)
        if entry is None:
            raise CorruptIndexError(f"The segment has no file {name!r}", _REBUILD)
        return CheckedFile(self._place, entry, self._cache)

    @property
    def names(self) -> tuple[str, ...]:
        """The files the header lists."""
        return tuple(entry.name for entry in self._header.files)

    def has(self, name: str) -> bool:
        """True when the header lists the file."""
        return self._header.file(name) is not None

    def local(self, name: str) -> str:
        """The path of a checked copy on this machine; it lives as long as the store."""
        with self._copying:
            if name not in self._copies:
                self._folder = self._folder or tempfile.TemporaryDirectory(prefix="lancewright-segment-")
                path = Path(self._folder.name) / name
                file = self.open(name)
                with path.open("wb") as copy:
                    for start in range(0, file.size, 1 << 24):
                        copy.write(file.read(start, min(1 << 24, file.size - start)))
                self._copies[name] = str(path)
            return self._copies[name]


class CheckedFile:
    """A file read in ranges; every block is compared with its checksum."""

    def __init__(self, place: Place, entry: FileEntry, cache: BlockCache) -> None:
        """Read nothing yet."""
        self._place = place
        self._entry = entry
        self._cache = cache

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self._entry.size

    def read(self, start: int, length: int) -> memoryview:
        """These bytes; blocks that are not at hand are read in one request for each run of them."""
        if start < 0 or length < 0 or start + length > self._entry.size:
            raise CorruptIndexError(
                f"{self._entry.name!r} has {self._entry.size} bytes, and {start} to {start + length} were asked for",
                _REBUILD,
            )
        if not length:
            return memoryview(b"")
        first, last = start // BLOCK_BYTES, (start + length - 1) // BLOCK_BYTES
        blocks = self._blocks(first, last)
        joined = blocks[0] if len(blocks) == 1 else b"".join(blocks)
        inside = start - first * BLOCK_BYTES
        return memoryview(joined)[inside : inside + length]

    def _blocks(self, first: int, last: int) -> list[bytes]:
        found = {
            number: block
            for number in range(first, last + 1)
            if (block := self._cache.get(self._key(number)))
        }
        for low, high in _runs([number for number in range(first, last + 1) if number not in found]):
            start = low * BLOCK_BYTES
            end = min((high + 1) * BLOCK_BYTES, self._entry.size)
            content = memoryview(self._place.read_range(self._entry.name, start, end - start))
            if len(content) != end - start:
                raise CorruptIndexError(f"{self._entry.name!r} was cut short", _REBUILD)
            for number in range(low, high + 1):
                place = (number - low) * BLOCK_BYTES
                found[number] = self._checked(number, bytes(content[place : place + BLOCK_BYTES]))
        return [found[number] for number in range(first, last + 1)]

    def _checked(self, number: int, block: bytes) -> bytes:
        checksums = self._entry.checksums
        if number >= len(checksums) or zlib.crc32(block) != checksums[number]:
            raise CorruptIndexError(
                f"{self._entry.name!r} is damaged: the checksum of block {number} does not fit", _REBUILD
            )
        self._cache.put(self._key(number), block)
        return block

    def _key(self, number: int) -> tuple[str, str, int]:
        return (self._place.identity, self._entry.name, number)


class BlockCache:
    """The blocks read last, up to so many bytes. Files never change, so a block is right for ever."""

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        """Start empty."""
        self._bytes_max = bytes_max
        self._bytes = 0
        self._blocks: OrderedDict[tuple[str, str, int], bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, str, int]) -> bytes | None:
        """A block that is at hand."""
        with self._lock:
            block = self._blocks.get(key)
            if block is not None:
                self._blocks.move_to_end(key)
            return block

    def put(self, key: tuple[str, str, int], block: bytes) -> None:
        """Keep a block, letting go of those not used for longest."""
        with self._lock:
            if key in self._blocks or len(block) > self._bytes_max:
                return
            self._blocks[key] = block
            self._bytes += len(block)
            while self._bytes > self._bytes_max:
                _, gone = self._blocks.popitem(last=False)
                self._bytes -= len(gone)

    def clear(self) -> None:
        """Let go of all."""
        with self._lock:
            self._blocks.clear()
            self._bytes = 0


# The one piece of state of a process: bytes of files that never change.
BLOCKS = BlockCache()


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for place in range(1, len(numbers) + 1):
        if place == len(numbers) or numbers[place] != numbers[place - 1] + 1:
            yield numbers[start], numbers[place - 1]
            start = place
