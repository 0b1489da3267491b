"""Looks whether the files of a segment are there and as long as its entry says, and reads single columns of them.

Lance's files have no checksums: what is flipped inside of a value cannot be seen here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lance.file import LanceFileSession

from lancewright.errors import CorruptIndexError, InvalidRequestError, LancewrightError, NotFoundError
from lancewright.table.lance_compat import translating
from lancewright.table.segment_files import SegmentReader
from lancewright.table.segment_place import place_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lancewright.model.index import Segment
    from lancewright.table.location import TableRef

_TOO_SHORT = re.compile(r"fill whole buffer|invalid range|out of range|requested range|416", re.IGNORECASE)


class IndexFiles:
    """The files of one segment, also of one that a branch or a clone took over."""

    def __init__(self, table: TableRef, segment: Segment) -> None:
        """Find out where they are."""
        self._table = table
        self._segment = segment
        self._place = place_of(table, segment)
        self._session: Any = LanceFileSession(
            self._place.root, dict(table.storage_options) or None
        )  # Any: untyped

    def find_damage(self) -> str | None:
        """What is wrong with a file, as far as its length and, of a file of Lance's, its footer tell; None when nothing is."""
        for file in self._segment.files or ():
            try:
                if file.size_bytes:
                    self._place.read_range(file.path, file.size_bytes - 1, 1)
                if file.path.endswith((".lance", ".idx")):
                    with self._reading(file.path):
                        self._open(file.path).metadata()
            except NotFoundError:
                return f"{file.path} is gone"
            except LancewrightError as error:
                if isinstance(error, InvalidRequestError) or _TOO_SHORT.search(str(error.__cause__)) is None:
                    raise
                return f"{file.path} is shorter than its entry says"
        return None

    def open_reader(self, name: str) -> SegmentReader:
        """A file of Lance's, to be read by row number."""
        with self._reading(name):
            return SegmentReader(self._open(name))

    def read_column(self, name: str, column: str) -> Iterator[pa.Array]:
        """One column of a file, batch by batch."""
        with self._reading(name):
            reader = self._session.open_reader(f"_indices/{self._segment.uuid}/{name}", columns=[column])
            for batch in reader.read_all().to_batches():
                yield batch.column(0)

    def _open(self, name: str) -> Any:  # Any: pylance's reader is untyped
        if name not in {file.path for file in self._segment.files or ()}:
            raise CorruptIndexError(f"Its entry lists no file {name}", "Rebuild the index.")
        return self._session.open_reader(f"_indices/{self._segment.uuid}/{name}")

    def _reading(self, name: str) -> Any:  # Any: a context manager of nothing
        return translating(self._table, f"read {name} of segment {self._segment.uuid} of")
