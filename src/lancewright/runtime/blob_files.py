"""Keeps blobs by partition in files of this machine: the local runner's stand-in for a shuffle."""

from __future__ import annotations

import struct
import threading
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LENGTH = struct.Struct("<q")


class BlobFiles:
    """One file per partition: lengths and blobs, one after the other."""

    def __init__(self, folder: Path) -> None:
        """Use a folder that exists and that the caller removes."""
        self._folder = folder
        self._lock = threading.Lock()

    def append(self, partition: int, blob: bytes) -> None:
        """Add a blob; several threads may."""
        with self._lock, self._path(partition).open("ab") as file:
            file.write(_LENGTH.pack(len(blob)))
            file.write(blob)

    def partitions(self) -> tuple[int, ...]:
        """The partitions that got a blob, ascending."""
        return tuple(sorted(int(path.stem) for path in self._folder.glob("*.blobs")))

    def read(self, partition: int) -> Iterator[pa.Buffer]:
        """Every blob of a partition, one at a time."""
        path = self._path(partition)
        if not path.exists():
            return
        with pa.memory_map(str(path)) as file:
            while header := file.read(_LENGTH.size):
                yield file.read_buffer(_LENGTH.unpack(header)[0])

    def _path(self, partition: int) -> Path:
        return self._folder / f"{partition}.blobs"
