"""Reads a finished BTree segment back in its own order, plain or range-partitioned, page by page. Never the table.

A row has a place: the number of its page times the rows of a page, plus its position in the page. Only the last page of
a file may be short, so places ascend with gaps and are known without opening a file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

from lancewright.errors import CorruptIndexError
from lancewright.kinds.btree.pages import PAGE_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

PLAIN_FILE = "page_data.lance"


class PageFile(Protocol):
    """A file of sorted rows."""

    @property
    def rows(self) -> int:
        """How many it has."""
        ...

    def read(self, start: int, stop: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Some of them."""
        ...


class PageFolder(Protocol):
    """Where the files of one segment are."""

    def open_reader(self, name: str) -> PageFile:
        """Open one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRun:
    """One file and the pages in it."""

    file_name: str
    first_page: int
    pages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedSource:
    """The files of one segment in order, as its lookup's metadata lists them."""

    runs: tuple[PageRun, ...]
    page_rows: int

    @property
    def pages(self) -> int:
        """Pages of all files."""
        return sum(run.pages for run in self.runs)

    @property
    def end(self) -> int:
        """The place after the last row, at most."""
        return self.pages * self.page_rows

    def read(self, folder: PageFolder, start: int, stop: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows between two places, in order; only files that hold some of them are opened."""
        for run in self.runs:
            base = run.first_page * self.page_rows
            first, last = max(start, base), min(stop, base + run.pages * self.page_rows)
            if first < last:
                file = folder.open_reader(run.file_name)
                yield from file.read(min(first - base, file.rows), min(last - base, file.rows), batch_rows)


def describe_source(metadata: Mapping[str, str], pages: int) -> SortedSource:
    """The files of a segment, from its lookup's metadata and the number of its entries."""
    page_rows = int(metadata.get("batch_size", PAGE_ROWS))
    if metadata.get("range_partitioned") != "true":
        return SortedSource(
            runs=(PageRun(file_name=PLAIN_FILE, first_page=0, pages=pages),), page_rows=page_rows
        )
    listed = json.loads(metadata["page_num_per_range_partition"])
    firsts = accumulate((count for _, count in listed), initial=0)
    runs = tuple(
        PageRun(file_name=f"part_{part_id}_page_data.lance", first_page=first, pages=count)
        for (part_id, count), first in zip(listed, firsts, strict=False)
    )
    source = SortedSource(runs=runs, page_rows=page_rows)
    if source.pages != pages:
        raise CorruptIndexError(
            f"A lookup lists {pages:,} pages and its parts have {source.pages:,}", "Build the index again."
        )
    return source
