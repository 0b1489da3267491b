"""Reads what the files of one segment say about themselves: metadata, column types, buffers. Reads no posting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lancewright.errors import CorruptIndexError
from lancewright.table.lance_compat import translating
from lancewright.table.opening import open_dataset
from lancewright.table.snapshot_reader import open_root

if TYPE_CHECKING:
    import pyarrow as pa

    from lancewright.model.index import Segment
    from lancewright.table.location import TableRef


class SegmentReader:
    """The files of a segment, also of one that a branch or a clone took over from another table."""

    def __init__(self, table: TableRef, segment: Segment) -> None:
        """Find out where the files are."""
        self._table = table
        self._segment = segment
        self._readers: dict[str, Any] = {}  # Any: pylance's readers are untyped
        self._session = open_root(open_dataset(table), table, segment)

    @property
    def names(self) -> tuple[str, ...]:
        """The files the entry lists."""
        return tuple(file.path for file in self._segment.files or ())

    def read_metadata(self, name: str) -> dict[str, str]:
        """What a file says of itself."""
        metadata = self._schema(name).metadata or {}
        return {key.decode(): value.decode(errors="replace") for key, value in metadata.items()}

    def read_type(self, name: str, field: str) -> pa.DataType | None:
        """The type of a file's column, or None when it has none of this name."""
        schema = self._schema(name)
        return schema.field(field).type if field in schema.names else None

    def read_buffer(self, name: str, number: int) -> bytes:
        """One of a file's global buffers."""
        with translating(self._table, f"read {name} of segment {self._segment.uuid} of"):
            return bytes(self._open(name).read_global_buffer(number))

    def _schema(self, name: str) -> pa.Schema:
        with translating(self._table, f"read {name} of segment {self._segment.uuid} of"):
            return self._open(name).metadata().schema

    def _open(self, name: str) -> Any:  # Any: as above
        if name not in self.names:
            raise CorruptIndexError(
                f"Segment {self._segment.uuid} of index {self._segment.name!r} lists no file {name}",
                "Rebuild the index.",
            )
        if name not in self._readers:
            self._readers[name] = self._session.open_reader(f"_indices/{self._segment.uuid}/{name}")
        return self._readers[name]
