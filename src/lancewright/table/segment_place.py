"""The files of a segment of our own kinds: written whole, read in ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance.file import LanceFileSession

from lancewright.table.lance_compat import translating
from lancewright.table.opening import open_dataset

if TYPE_CHECKING:
    from lancewright.model.index import Segment
    from lancewright.table.location import TableRef


class SegmentPlace:
    """The files of one segment of our own, written whole and read in ranges."""

    def __init__(self, table: TableRef, uuid: str, root: str | None = None) -> None:
        """Point at ``_indices/<uuid>`` below the table, or below the ``root`` of the table it was branched or cloned from."""
        self._table = table
        self._root = table.root_uri if root is None else root
        self._session = LanceFileSession(self._root, dict(table.storage_options) or None)
        self._folder = f"_indices/{uuid}"

    @property
    def root(self) -> str:
        """The root of the table whose folder it is in."""
        return self._root

    @property
    def identity(self) -> str:
        """Names the folder among all others."""
        return f"{self._root}/{self._folder}"

    def upload(self, name: str, path: str) -> None:
        """Put a local file there."""
        with translating(self._table, f"write {self._folder}/{name} of"):
            self._session.upload_file(path, f"{self._folder}/{name}")

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """Read bytes; a file that is gone or too short is an error of ours."""
        with translating(self._table, f"read {self._folder}/{name} of"):
            return bytes(self._session.read_range(f"{self._folder}/{name}", start, length))


def place_of(table: TableRef, segment: Segment) -> SegmentPlace:
    """Where a segment's files are: a branch and a clone also use segments of the table they come from."""
    if segment.base_id is None:
        return SegmentPlace(table, segment.uuid)
    dataset: Any = open_dataset(table)  # Any: pylance leaves it untyped
    with translating(table, "find the base of"):
        root = dataset._ds.base_paths()[segment.base_id].path  # noqa: SLF001 - pylance has no public way to it
    return SegmentPlace(table, segment.uuid, str(root))
