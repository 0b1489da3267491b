"""What runs on an executor for a range-sorted BTree: sample the column, cut it by range, sort and write one range.

Memory of a task: a cut holds one chunk of the column and its sorted copy; a gather holds one range, and spills past
``budget_bytes``. Both are bounded by settings and not by the table.
"""

from __future__ import annotations

import io
import secrets
import time
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from lancewright.build.range_shuffle import bytes_per_row, cut_chunk
from lancewright.build.range_spill import RangeSorter
from lancewright.build.sort_journal import SortJournal, WrittenRange
from lancewright.build.splitters import Splitters
from lancewright.errors import CorruptIndexError
from lancewright.kinds.btree.pages import Part, data_schema, page_schema
from lancewright.kinds.btree.range_writer import RangeWriter
from lancewright.kinds.btree.sort_keys import key_width
from lancewright.table.column_reader import indexed_type, plain_type, read_column, sample_column
from lancewright.table.lance_compat import translating
from lancewright.table.segment_files import SegmentFolder
from lancewright.table.side_files import SideFiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from lancewright.model.columns import Column
    from lancewright.table.location import TableRef

# A chunk's arrays fit the processor's cache: a gather over 1 M keys takes 1 ns a row, over 4 M 7 to 10; one of 36-byte texts
# 2.5 ns over 256 k rows, and 19 over 1 M.
CHUNK_ROWS_MAX = 1 << 20
_WIDE_CHUNK_ROWS_MAX = 1 << 18
_READ_ROWS = 64 * 1024
_PART_NUMBER_BITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSettings:
    """What all tasks that sort one index share.

    ``first_partition`` is the number of its first range among those of all indexes of the exchange; ranges in ``done`` are
    on storage already and get no rows. Finished ranges are recorded below ``journal_folder``.
    """

    table: TableRef
    column: Column
    segment_uuid: str
    splitters_path: str
    page_rows: int
    budget_bytes: int
    journal_folder: str | None = None
    first_partition: int = 0
    done: frozenset[int] = frozenset()
    seed: int = 0


class PartSettings(Protocol):
    """What writing a part needs to know."""

    @property
    def table(self) -> TableRef:
        """Where."""
        ...

    @property
    def column(self) -> Column:
        """Of which column."""
        ...

    @property
    def segment_uuid(self) -> str:
        """Into which segment."""
        ...

    @property
    def page_rows(self) -> int:
        """In pages of how many rows."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SortSettings:
    """What all tasks of one exchange share: several indexes are sorted in one, so that no executor idles between two."""

    indexes: tuple[RangeSettings, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleWork:
    """Sample these fragments, given as (id, how many rows), for one index."""

    fragments: tuple[tuple[int, int], ...]
    index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CutWork:
    """Cut these neighbouring fragments for one index."""

    fragments: tuple[int, ...]
    index: int = 0


def sample_one(settings: SortSettings, work: SampleWork) -> tuple[int, bytes, bytes]:
    """Sample the column of one index; returns the index's number with the sample."""
    return work.index, *sample_fragments(settings.indexes[work.index], work)


def cut_one(settings: SortSettings, work: CutWork) -> Iterator[tuple[int, bytes]]:
    """Cut fragments for one index, leaving out ranges that are done."""
    index = settings.indexes[work.index]
    for number, blob in cut_fragments(index, work):
        if number not in index.done:
            yield index.first_partition + number, blob


def gather_one(settings: SortSettings, partition: int, blobs: Iterable[pa.Buffer]) -> WrittenRange | None:
    """Sort and record the range that has this number among those of all indexes."""
    firsts = [index.first_partition for index in settings.indexes]
    index = settings.indexes[bisect_right(firsts, partition) - 1]
    written = gather_range(index, partition - index.first_partition, blobs)
    if written is not None and index.journal_folder is not None:
        SortJournal(SideFiles(index.table), index.journal_folder).record_range(written)
    return written


def read_part(written: WrittenRange) -> Part:
    """A range as the lookup's merge takes it."""
    with pa.ipc.open_stream(written.pages) as reader:
        pages = reader.read_next_batch()
    return Part(part_id=written.part_id, size_bytes=written.size_bytes, rows=written.rows, pages=pages)


def sample_fragments(settings: RangeSettings, work: SampleWork) -> tuple[bytes, bytes]:
    """Read a sample of the column; returns values as an Arrow stream and addresses as bytes."""
    with translating(settings.table, f"sample column {settings.column.path!r} of"):
        values, addresses = sample_column(settings.table, settings.column, work.fragments, settings.seed)
    return _one_column_stream(values), addresses.tobytes()


def read_sample(sample: tuple[bytes, bytes]) -> tuple[pa.Array, NDArray[np.uint64]]:
    """What ``sample_fragments`` returned, as arrays."""
    with pa.ipc.open_stream(sample[0]) as reader:
        values = reader.read_next_batch().column(0)
    return values, np.frombuffer(sample[1], dtype=np.uint64)


def cut_fragments(settings: RangeSettings, work: CutWork) -> Iterator[tuple[int, bytes]]:
    """Read the column chunk by chunk and cut each by range."""
    with translating(settings.table, f"sort column {settings.column.path!r} of"):
        yield from _cut(settings, work)


def _cut(settings: RangeSettings, work: CutWork) -> Iterator[tuple[int, bytes]]:
    splitters = _read_splitters(settings)
    # A compaction puts new fragments where old ones were, so neighbours need not ascend; their addresses must.
    for values, addresses in _chunks(settings, tuple(sorted(work.fragments))):
        yield from cut_chunk(values, addresses, splitters)


def gather_range(settings: RangeSettings, number: int, blobs: Iterable[pa.Buffer]) -> WrittenRange | None:
    """Sort one range and write its part file; None when it has no rows, because an empty part kills Lance's reader."""
    with translating(settings.table, f"write a key range of column {settings.column.path!r} of"):
        return _gather(settings, number, blobs)


def _gather(settings: RangeSettings, number: int, blobs: Iterable[pa.Buffer]) -> WrittenRange | None:
    type_ = plain_type(settings.column.type)
    with RangeSorter(type_, settings.budget_bytes) as sorter:
        for blob in blobs:
            sorter.add(blob)
        return write_range(settings, number, sorter)


def write_range(settings: PartSettings, number: int, sorter: RangeSorter) -> WrittenRange | None:
    """Write what the sorter holds as one part file; None, and no file, when it holds nothing."""
    started = time.monotonic()
    stored_type = indexed_type(settings.column.type)
    # A fresh id for each attempt: two attempts of one range never write the same file.
    part_id = (number << _PART_NUMBER_BITS) | secrets.randbits(_PART_NUMBER_BITS)
    folder = SegmentFolder(settings.table, settings.segment_uuid)
    name = Part(part_id=part_id, size_bytes=0, rows=0, pages=_no_pages(stored_type)).file_name
    with folder.open_writer(name, data_schema(stored_type, settings.page_rows)) as file:
        writer = RangeWriter(file, stored_type, settings.page_rows)
        for addresses in sorter.null_addresses():
            writer.write_nulls(addresses)
        for run in sorter.sorted_runs():
            writer.write_run(run)
    if not writer.rows:
        folder.delete(name)
        return None
    return WrittenRange(
        segment_uuid=settings.segment_uuid,
        number=number,
        part_id=part_id,
        size_bytes=file.size_bytes,
        rows=writer.rows,
        pages=_batch_stream(writer.pages()),
        spilled_runs=sorter.spilled_runs,
        seconds=time.monotonic() - started,
    )


def _chunks(
    settings: RangeSettings, fragments: tuple[int, ...]
) -> Iterator[tuple[pa.Array, NDArray[np.uint64]]]:
    """Gather read batches into chunks as large as the budget allows: fewer, larger blobs."""
    type_ = plain_type(settings.column.type)
    rows_max = CHUNK_ROWS_MAX if key_width(type_) is not None else _WIDE_CHUNK_ROWS_MAX
    values: list[pa.Array] = []
    addresses: list[NDArray[np.uint64]] = []
    rows, size = 0, 0.0
    for batch, places in read_column(settings.table, settings.column, fragments, _READ_ROWS):
        values.append(batch)
        addresses.append(places)
        rows += len(batch)
        size += len(batch) * bytes_per_row(type_, batch.nbytes / max(1, len(batch)))
        if rows >= rows_max or size >= settings.budget_bytes:
            yield pa.concat_arrays(values), np.concatenate(addresses)
            values, addresses, rows, size = [], [], 0, 0.0
    if rows:
        yield pa.concat_arrays(values), np.concatenate(addresses)


def _read_splitters(settings: RangeSettings) -> Splitters:
    content = SideFiles(settings.table).read(settings.splitters_path)
    if content is None:
        raise CorruptIndexError(
            f"The key ranges of this build ({settings.splitters_path}) are gone", "Run the build again."
        )
    return Splitters.from_bytes(content)


def _no_pages(type_: pa.DataType) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=page_schema(type_))


def _one_column_stream(values: pa.Array) -> bytes:
    return _batch_stream(pa.record_batch([values], names=["value"]))


def _batch_stream(batch: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()
