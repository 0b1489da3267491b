"""The header of a segment: what its files are and how to check them. Written last, so that its presence means complete. Pure.

One line of text that says what the file is, its format and the CRC-32 and length of the rest; then JSON.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from lancewright.errors import CorruptIndexError, UnsupportedError

HEADER_FILE = "segment.header"
HEADER_FORMAT = 1
BLOCK_BYTES = 64 << 10
_MAGIC = "LANCEWRIGHT-SEGMENT"
_FIRST_LINE_MAX = 128
_FIRST_LINE_WORDS = 4
_REBUILD = "Rebuild the index."


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file: its size, and the CRC-32 of every 64 KiB of it."""

    name: str
    size: int
    checksums: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentHeader:
    """What a segment is. ``fragments`` are (id, physical rows), in the order in which its rows are numbered."""

    kind: str
    format: int
    api: tuple[int, int]
    plugin: str
    fragments: tuple[tuple[int, int], ...]
    files: tuple[FileEntry, ...]

    def file(self, name: str) -> FileEntry | None:
        """The entry of this name."""
        return next((entry for entry in self.files if entry.name == name), None)

    def to_bytes(self) -> bytes:
        """The header as it is on storage."""
        content = {
            "kind": self.kind,
            "format": self.format,
            "api": list(self.api),
            "plugin": self.plugin,
            "fragments": [list(pair) for pair in self.fragments],
            "files": [
                [entry.name, entry.size, np.array(entry.checksums, "<u4").tobytes().hex()]
                for entry in self.files
            ],
        }
        body = json.dumps(content, separators=(",", ":")).encode()
        return f"{_MAGIC} {HEADER_FORMAT} {zlib.crc32(body):08x} {len(body)}\n".encode() + body


def header_from_bytes(content: bytes) -> SegmentHeader:
    """Read a header; raise CorruptIndexError when it is damaged, UnsupportedError when a later release wrote it."""
    first, _, body = content.partition(b"\n")
    words = first[:_FIRST_LINE_MAX].decode("ascii", errors="replace").split(" ")
    if len(words) != _FIRST_LINE_WORDS or words[0] != _MAGIC:
        raise CorruptIndexError("A segment's header is not one", _REBUILD)
    if words[1].isdecimal() and int(words[1]) > HEADER_FORMAT:
        raise UnsupportedError(
            f"A segment's header has format {words[1]}; the newest known here is {HEADER_FORMAT}",
            "Install the release of lancewright that wrote it, or rebuild the index.",
        )
    if words[2] != f"{zlib.crc32(body):08x}" or words[3] != str(len(body)):
        raise CorruptIndexError("A segment's header is damaged: its checksum does not fit", _REBUILD)
    try:
        return _parse(json.loads(body))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise CorruptIndexError(f"A segment's header makes no sense: {error}", _REBUILD) from error


def _parse(content: dict[str, Any]) -> SegmentHeader:  # Any: it is JSON
    major, minor = content["api"]
    return SegmentHeader(
        kind=str(content["kind"]),
        format=int(content["format"]),
        api=(int(major), int(minor)),
        plugin=str(content["plugin"]),
        fragments=tuple((int(fragment), int(rows)) for fragment, rows in content["fragments"]),
        files=tuple(
            FileEntry(
                name=str(name),
                size=int(size),
                checksums=tuple(np.frombuffer(bytes.fromhex(checksums), "<u4").tolist()),
            )
            for name, size, checksums in content["files"]
        ),
    )
