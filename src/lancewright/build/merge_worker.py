"""What runs on an executor to merge sorted segments: read the pages of one range from each, and write one part.

Reads page files only, never the table. Memory is that of a sorting task: one range, spilling past ``budget_bytes``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancewright.build.range_spill import RangeSorter
from lancewright.build.range_worker import write_range
from lancewright.build.splitters import search_run
from lancewright.kinds.btree.sorted_run import take_sorted
from lancewright.table.column_reader import plain_type, plain_values
from lancewright.table.lance_compat import translating
from lancewright.table.row_translation import RowTranslator
from lancewright.table.segment_files import SegmentFolder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lancewright.build.merge_cuts import Place
    from lancewright.build.sort_journal import WrittenRange
    from lancewright.kinds.btree.source import SortedSource
    from lancewright.model.columns import Column
    from lancewright.table.location import TableRef

_READ_ROWS = 64 * 1024
_READ_BYTES_MAX = 16 << 20
_FRAGMENT_BITS = np.uint64(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSource:
    """One segment: its files, and the fragments it answers for. Rows of all others are left out.

    ``row_bytes`` is what a row takes in its files, so that batches of large values have few rows.
    """

    segment_uuid: str
    files: SortedSource
    fragments: tuple[int, ...]
    row_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSettings:
    """What all tasks of a merge share. ``moved`` says that the table remembers compactions to follow."""

    table: TableRef
    column: Column
    segment_uuid: str
    page_rows: int
    budget_bytes: int
    sources: tuple[MergeSource, ...]
    moved: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A cut as a task takes it: its key as an Arrow stream of one value, and its place in each source."""

    key: bytes
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRangeWork:
    """Merge the rows between two cuts; None for the ends."""

    number: int
    left: Bound | None
    right: Bound | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedRange:
    """What a task leaves: the part, if any row was left, and which rows of each source it read."""

    number: int
    written: WrittenRange | None
    read: tuple[tuple[int, int], ...]
    rows_read: int


def merge_range(settings: MergeSettings, work: MergeRangeWork) -> MergedRange:
    """Read one range of every source and write it as one part."""
    with translating(settings.table, f"merge a key range of column {settings.column.path!r} of"):
        return _merge(settings, work)


def _merge(settings: MergeSettings, work: MergeRangeWork) -> MergedRange:
    translator = RowTranslator(settings.table) if settings.moved else None
    spans, rows_read = [], 0
    with RangeSorter(plain_type(settings.column.type), settings.budget_bytes) as sorter:
        for number, source in enumerate(settings.sources):
            start = 0 if work.left is None else find_place(settings, source, work.left, number)
            stop = (
                source.files.end if work.right is None else find_place(settings, source, work.right, number)
            )
            rows_read += _add_rows(settings, source, (start, stop), sorter, translator)
            spans.append((start, stop))
        written = write_range(settings, work.number, sorter)
    return MergedRange(number=work.number, written=written, read=tuple(spans), rows_read=rows_read)


def find_place(settings: MergeSettings, source: MergeSource, bound: Bound, number: int) -> int:
    """The row at which a cut divides a source; looks into the one page it may lie in, where its start does not tell."""
    place = bound.places[number]
    if place.row is not None:
        return place.row
    with pa.ipc.open_stream(bound.key) as reader:
        key = reader.read_next_batch().column(0)
    low = place.page * source.files.page_rows
    high = low + source.files.page_rows
    folder = _folder(settings, source)
    while low < high:
        # As many rows at a time as memory allows: a page of strings of 1 MB would be 4 GB.
        step = min(high - low, _batch_rows(source))
        start = low + (high - low - step) // 2
        rows, before = _count_less(list(source.files.read(folder, start, start + step, step)), key)
        if before < rows or rows < step:
            # The last page of a file may be short: behind its last row comes nothing that is less.
            low, high = (start + before, start + before) if before else (low, start)
        else:
            low = start + step
    return low


def _count_less(batches: list[pa.RecordBatch], key: pa.Array) -> tuple[int, int]:
    """How many rows there are, and how many of them come before the key."""
    if not batches:
        return 0, 0
    values = pa.concat_arrays([plain_values(batch.column("values")) for batch in batches])
    nulls = int(values.null_count)
    run = take_sorted(values.slice(nulls), np.zeros(len(values) - nulls, dtype=np.uint64))
    lower, _ = search_run(run, key)
    return len(values), nulls + lower[0]


def _add_rows(
    settings: MergeSettings,
    source: MergeSource,
    span: tuple[int, int],
    sorter: RangeSorter,
    translator: RowTranslator | None,
) -> int:
    rows = 0
    fragments = np.array(source.fragments, dtype=np.uint64)
    for batch in source.files.read(_folder(settings, source), *span, _batch_rows(source)):
        rows += batch.num_rows
        values, addresses = plain_values(batch.column("values")), batch.column("ids").to_numpy()
        alive = None
        if translator is not None:
            addresses, alive = translator.translate(addresses)
        keep = _covered(addresses, fragments)
        if alive is not None:
            keep &= alive
        if not keep.all():
            values, addresses = values.filter(pa.array(keep)), addresses[keep]
        _add(sorter, values, addresses)
    return rows


def _add(sorter: RangeSorter, values: pa.Array, addresses: NDArray[np.uint64]) -> None:
    nulls = values.null_count
    if nulls:
        # Sorted, so the NULLs are in front.
        sorter.add_nulls(addresses[:nulls])
        values, addresses = values.slice(nulls), addresses[nulls:]
    if len(addresses):
        sorter.add_run(take_sorted(values, addresses))


def _covered(addresses: NDArray[np.uint64], fragments: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which rows lie in one of these ascending fragments."""
    if not len(fragments):
        return np.zeros(len(addresses), dtype=np.bool_)
    owner = addresses >> _FRAGMENT_BITS
    if int(fragments[-1] - fragments[0]) == len(fragments) - 1:
        inside: NDArray[np.bool_] = (owner >= fragments[0]) & (owner <= fragments[-1])
        return inside
    places = np.minimum(np.searchsorted(fragments, owner), len(fragments) - 1)
    found: NDArray[np.bool_] = fragments[places] == owner
    return found


def _folder(settings: MergeSettings, source: MergeSource) -> SegmentFolder:
    return SegmentFolder(settings.table, source.segment_uuid)


def _batch_rows(source: MergeSource) -> int:
    return max(1, min(_READ_ROWS, _READ_BYTES_MAX // max(1, source.row_bytes)))
