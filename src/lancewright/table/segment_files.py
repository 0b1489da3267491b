"""Writes Lance files into the folder of a segment that nobody sees yet, and reads them back by row number."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lance.file import LanceFileSession

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from lancewright.table.location import TableRef


class SegmentFolder:
    """The folder ``_indices/<uuid>`` of one segment."""

    def __init__(self, table: TableRef, uuid: str) -> None:
        """Point at the folder; makes no request."""
        self._session = LanceFileSession(table.root_uri, dict(table.storage_options) or None)
        self.path = f"_indices/{uuid}"

    @contextmanager
    def open_writer(self, name: str, schema: pa.Schema) -> Iterator[SegmentFile]:
        """Write one file; it is complete when the block ends without an error."""
        file = SegmentFile(self._session.open_writer(f"{self.path}/{name}", schema=schema))
        yield file
        file.close()

    def open_reader(self, name: str) -> SegmentReader:
        """Open one file; reads its footer."""
        return SegmentReader(self._session.open_reader(f"{self.path}/{name}"))

    def list(self) -> tuple[str, ...]:
        """Names of the files in the folder."""
        prefix = f"{self.path}/"
        return tuple(path.partition(prefix)[2] for path in self._session.list(self.path))

    def delete(self, name: str) -> None:
        """Delete one file."""
        self._session.delete_file(f"{self.path}/{name}")


class SegmentReader:
    """One file being read."""

    def __init__(self, reader: Any) -> None:  # Any: pylance's reader is untyped
        """Take over a reader."""
        self._reader = reader
        self.rows = int(reader.metadata().num_rows)

    @property
    def metadata(self) -> dict[str, str]:
        """The file's schema metadata."""
        found = self._reader.metadata().schema.metadata or {}
        return {key.decode(): value.decode() for key, value in found.items()}

    def read(self, start: int, stop: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Some rows, batch by batch; nothing else of the file is read, but for a few bytes around them."""
        if stop > start:
            results = self._reader.read_range(start, stop - start, batch_size=batch_rows, batch_readahead=2)
            yield from results.to_batches()


class SegmentFile:
    """One file being written."""

    def __init__(self, writer: Any) -> None:  # Any: pylance's writer is untyped
        """Take over a writer."""
        self._writer = writer
        self.size_bytes = 0

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Append a batch."""
        self._writer.write_batch(batch)

    def add_metadata(self, entries: Mapping[str, str]) -> None:
        """Add to the file's schema metadata."""
        for key, value in entries.items():
            self._writer.add_schema_metadata(key, value)

    def close(self) -> None:
        """Finish the file and learn its size."""
        self._writer.close()
        self.size_bytes = int(self._writer.size_bytes)
