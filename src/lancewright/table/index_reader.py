"""Asks the index files of one table version: which rows a condition has, and the small tables at an index's root.

Reads index pages only, never the table. Decides nothing; whoever asks names the indexes that may answer.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from lancewright.errors import UnsupportedError
from lancewright.table.lance_compat import translating
from lancewright.table.opening import open_dataset

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from lancewright.model.index import Segment
    from lancewright.table.location import TableRef

# A condition that Lance sees to be TRUE for no row.
_NOTHING = re.compile(r"LanceRead: .*full_filter=Boolean\(false\)")
# Lance's plan names an index as ``[condition]@name(Kind)``.
_ASKED_INDEX = re.compile(r"\]@(.+?)\((BTree|Bitmap|LabelList|[A-Za-z]+)\)")
_INDEX_ONLY = re.compile(
    r"\ALanceRead: .*projection=\[\].*refine_filter=--\s*\n\s*ScalarIndexQuery: ", re.DOTALL
)


class NotAnsweredError(UnsupportedError):
    """Lance would read the table to answer: nothing is wrong with the index, the question is not one for it alone."""


class OtherIndexError(NotAnsweredError):
    """Lance would ask an index that may not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRows:
    """The addresses of the live rows an index named, and what reading it took."""

    addresses: NDArray[np.uint64]
    pages: int
    read_requests: int
    read_bytes: int
    seconds: float


class _Kept:
    """The small files read last, up to so many bytes together."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._files: OrderedDict[Hashable, tuple[tuple[pa.Table, dict[str, str]], int]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, key: Hashable) -> tuple[pa.Table, dict[str, str]] | None:
        """A file that was kept."""
        with self._lock:
            entry = self._files.get(key)
            if entry is None:
                return None
            self._files.move_to_end(key)
            return entry[0]

    def keep(self, key: Hashable, file: tuple[pa.Table, dict[str, str]], size: int) -> None:
        """Keep a file, and forget those that were not asked for longest."""
        if size > self._bytes_max:
            return
        with self._lock:
            if key not in self._files:
                self._bytes += size
            self._files[key] = (file, size)
            while self._bytes > self._bytes_max:
                _, (_, gone) = self._files.popitem(last=False)
                self._bytes -= gone


_kept = _Kept(64 << 20)


class IndexReader:
    """The indexes of a table at one version, opened once, when first asked. ``root_bytes``: read of small files so far."""

    def __init__(self, table: TableRef) -> None:
        """Read nothing yet; the reference names a version."""
        self._table = table
        self._session: Any = None
        self.root_bytes = 0

    @cached_property
    def _dataset(self) -> Any:  # Any: pylance's scanner is untyped
        return open_dataset(self._table)

    def find_rows(self, sql: str, indexes: frozenset[str], fragments: Sequence[int] | None) -> FoundRows:
        """The live rows of these fragments (None: of all) for which the condition is TRUE, by these indexes alone.

        Raises NotAnsweredError when Lance would read the table as well, or would ask another index.
        """
        started = time.perf_counter()
        statistics: list[Any] = []
        with translating(self._table, "ask the indexes of"):
            options = {
                "columns": [],
                "filter": sql,
                "with_row_address": True,
                "scan_stats_callback": statistics.append,
            }
            if fragments is not None:
                options["fragments"] = [self._dataset.get_fragment(fragment) for fragment in fragments]
            scanner = self._dataset.scanner(**options)
            plan = str(scanner.explain_plan())
            if _NOTHING.search(plan):
                return FoundRows(
                    addresses=np.empty(0, dtype=np.uint64),
                    pages=0,
                    read_requests=0,
                    read_bytes=0,
                    seconds=time.perf_counter() - started,
                )
            _require_index_only(plan, indexes)
            self._dataset.io_stats_incremental()
            addresses = scanner.to_table().column("_rowaddr").to_numpy()
            io = self._dataset.io_stats_incremental()
        return FoundRows(
            addresses=addresses,
            pages=sum(one.parts_loaded for one in statistics),
            read_requests=io.read_iops,
            read_bytes=io.read_bytes,
            seconds=time.perf_counter() - started,
        )

    def read_file(
        self, segment: Segment, name: str, columns: Iterable[str] | None = None
    ) -> tuple[pa.Table, dict[str, str]]:
        """A small file of a segment as a table, with the file's metadata. Kept for the next query: such files never change."""
        return self._read(segment, name, None if columns is None else tuple(columns), last=False)

    def read_last_row(self, segment: Segment, name: str, column: str) -> pa.Table:
        """One column of the last row of a small file, without what stands before it; no row when there is none. Kept too."""
        return self._read(segment, name, (column,), last=True)[0]

    def _read(
        self, segment: Segment, name: str, columns: tuple[str, ...] | None, *, last: bool
    ) -> tuple[pa.Table, dict[str, str]]:
        if segment.base_id is not None:
            raise UnsupportedError(
                f"Segment {segment.uuid} lies with another table",
                "Its statistics are not read; nothing is to be done.",
            )
        path = f"_indices/{segment.uuid}/{name}"
        key = (self._table.name, path, columns, last)
        known = _kept.get(key)
        if known is not None:
            return known
        with translating(self._table, f"read {path} of"):
            reader = self._files().open_reader(path, columns=None if columns is None else list(columns))
            metadata = reader.metadata().schema.metadata or {}
            rows = reader.metadata().num_rows
            found = reader.take_rows([rows - 1]) if last and rows else reader.read_all()
            table = found.to_table()
            self.root_bytes += table.nbytes if last else _size_of(reader, columns)
        answer = (table, {word.decode(): value.decode(errors="replace") for word, value in metadata.items()})
        _kept.keep(key, answer, table.nbytes)
        return answer

    def _files(self) -> Any:  # Any: pylance's file session is untyped
        if self._session is None:
            self._session = self._dataset.new_file_session()
        return self._session


def _size_of(reader: Any, columns: Collection[str] | None) -> int:  # Any: pylance's reader is untyped
    """The bytes of the columns that are read, and of what the file says of itself."""
    told = reader.metadata()
    sizes = [column.size_bytes for column in reader.file_statistics().columns]
    names = told.schema.names
    if columns is not None and len(names) == len(sizes):
        sizes = [size for name, size in zip(names, sizes, strict=True) if name in columns]
    return int(sum(sizes) + told.num_column_metadata_bytes + told.num_global_buffer_bytes)


def _require_index_only(plan: str, indexes: frozenset[str]) -> None:
    asked = {name for name, _ in _ASKED_INDEX.findall(plan)}
    if not asked or not _INDEX_ONLY.search(plan):
        raise NotAnsweredError(
            "Lance would read the table to answer this condition", "The fragments are scanned instead."
        )
    if not asked <= indexes:
        raise OtherIndexError(
            f"Lance would answer from index {min(asked - indexes)!r} instead",
            "Drop one of the two indexes on this column.",
        )
