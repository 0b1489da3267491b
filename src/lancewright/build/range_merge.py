"""Merges sorted segments of one BTree index into one, range by range on the executors. Publishes nothing.

The sources may be range-partitioned or plain, by whichever engine. Their lookups tell where to cut, so nothing of the table
is read: each task reads the pages of its range from every source, leaves out rows of fragments that a source does not
answer for any more, follows deferred compactions, and writes one part. The driver holds the lookups.
"""

from __future__ import annotations

import io
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
from pyroaring import BitMap, FrozenBitMap

from lancewright.build.merge_cuts import Cut, PageEntries, cut_segments
from lancewright.build.merge_worker import (
    Bound,
    MergedRange,
    MergeRangeWork,
    MergeSettings,
    MergeSource,
    merge_range,
)
from lancewright.build.range_build import count_ranges, write_lookup
from lancewright.build.range_copy import plain_where_unsafe
from lancewright.build.range_worker import read_part
from lancewright.build.sizes import SORT_MEMORY_MIB, estimate_bytes_per_row
from lancewright.errors import CorruptIndexError, InvalidRequestError, UnsupportedError
from lancewright.kinds.btree.empty_ranges import BTREE_TYPE_URL
from lancewright.kinds.btree.pages import LOOKUP_FILE
from lancewright.kinds.btree.source import describe_source
from lancewright.model.index import Segment
from lancewright.runtime.runner import ATTEMPTS_MAX, ignore_outcome, run_tasks
from lancewright.runtime.task import Job, Task
from lancewright.table.column_reader import indexed_type, plain_type, plain_values
from lancewright.table.fragment_reuse import FRAGMENT_REUSE_NAME
from lancewright.table.index_reader import IndexReader
from lancewright.table.segment_files import SegmentFolder
from lancewright.table.side_files import SideFiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lancewright.model.columns import Column
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.runtime.runner import Runner
    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeMerge:
    """Which segments of an index to merge, at a version that shows all of them.

    ``parameters`` are those of a range-sorted build: ``ranges`` or ``rows_per_range``, ``page_rows``, ``task_memory_mib``,
    and ``keep_ranges`` to keep ranges where a compaction may empty one.
    """

    table: TableRef
    snapshot: TableSnapshot
    column: Column
    sources: tuple[Segment, ...]
    parameters: Mapping[str, object] = field(default_factory=dict)
    attempts_max: int = ATTEMPTS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedSegment:
    """A finished segment that nobody can see; its caller swaps it for the sources in one commit.

    ``rows_dropped`` are postings of rows that are gone or that another segment answers for.
    """

    segment: Segment
    rows: int
    rows_dropped: int
    rows_per_range: tuple[int, ...]
    seconds: float


def merge_ranges(merge: RangeMerge, runner: Runner) -> MergedSegment:
    """Merge the sources into one segment over all fragments they answer for at this version."""
    started = time.monotonic()
    kept = _fragments_kept(merge)
    _require_mergeable(merge, kept)
    reader = IndexReader(merge.table.pinned(merge.snapshot.version))
    opened = [_open(reader, merge, source, kept[source.uuid]) for source in merge.sources]
    settings = _settings(merge, [source for source, _ in opened])
    cuts = cut_segments(
        [entries for _, entries in opened],
        plain_type(merge.column.type),
        _count(merge, kept, runner.parallelism),
    )
    try:
        merged = _run(merge, settings, cuts, runner)
        segment = _finish(merge, settings, merged, kept, runner)
    except BaseException:
        SideFiles(merge.table).delete_segment(settings.segment_uuid)
        raise
    rows = tuple(entry.written.rows for entry in merged if entry.written is not None)
    return MergedSegment(
        segment=segment,
        rows=sum(rows),
        rows_dropped=sum(entry.rows_read for entry in merged) - sum(rows),
        rows_per_range=rows,
        seconds=time.monotonic() - started,
    )


def _fragments_kept(merge: RangeMerge) -> dict[str, FrozenBitMap]:
    """What each source answers for; of two that claim one fragment, the one built later."""
    left = BitMap(merge.snapshot.fragments_by_id)
    kept = {}
    for source in sorted(merge.sources, key=lambda source: -source.dataset_version):
        kept[source.uuid] = FrozenBitMap(left & source.covered)
        left -= source.covered
    return kept


def _require_mergeable(merge: RangeMerge, kept: Mapping[str, FrozenBitMap]) -> None:
    if not any(kept.values()):
        raise InvalidRequestError(
            "The segments to merge cover no fragment of this version", "Build the index again, or drop it."
        )
    for source in merge.sources:
        if source.type_url != BTREE_TYPE_URL:
            raise UnsupportedError(f"Segment {source.uuid} is no B-tree", "Merge it with Lance's own merge.")
        if source.base_id is not None:
            raise UnsupportedError(
                f"Segment {source.uuid} lies with another table", "Build the index again on this table."
            )
        if merge.snapshot.stable_row_ids and source.index_version != 1:
            raise UnsupportedError(
                f"Segment {source.uuid} holds stable row ids, as older releases wrote them, and not row addresses",
                "Build the index again.",
            )


def _open(
    reader: IndexReader, merge: RangeMerge, source: Segment, kept: FrozenBitMap
) -> tuple[MergeSource, PageEntries]:
    lookup, metadata = reader.read_file(source, LOOKUP_FILE)
    files = describe_source(metadata, lookup.num_rows)
    type_ = plain_type(merge.column.type)
    mins, maxs = (_plain(lookup[name], type_) for name in ("min", "max"))
    entries = PageEntries(
        mins=mins,
        maxs=maxs,
        null_counts=lookup["null_count"].to_numpy().astype("i8"),
        page_rows=files.page_rows,
    )
    size = (source.size_bytes or 0) // max(1, files.end)
    merge_source = MergeSource(
        segment_uuid=source.uuid, files=files, fragments=tuple(kept), row_bytes=max(16, 4 * size)
    )
    return merge_source, entries


def _plain(column: pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    chunks = [plain_values(chunk) for chunk in column.chunks]
    return pa.concat_arrays(chunks) if chunks else pa.array([], type_)


def _settings(merge: RangeMerge, sources: Sequence[MergeSource]) -> MergeSettings:
    parameters = merge.parameters
    page_rows = parameters.get("page_rows", parameters.get("zone_size", sources[0].files.page_rows))
    return MergeSettings(
        table=merge.table.pinned(merge.snapshot.version),
        column=merge.column,
        segment_uuid=str(uuid.uuid4()),
        page_rows=_whole(page_rows),
        budget_bytes=_whole(parameters.get("task_memory_mib", SORT_MEMORY_MIB)) << 20,
        sources=tuple(sources),
        moved=any(segment.name == FRAGMENT_REUSE_NAME for segment in merge.snapshot.segments),
    )


def _count(merge: RangeMerge, kept: Mapping[str, FrozenBitMap], parallelism: int) -> int:
    by_id = merge.snapshot.fragments_by_id
    rows = sum(by_id[fragment].rows for fragments in kept.values() for fragment in fragments)
    width = estimate_bytes_per_row("btree", plain_type(merge.column.type))
    return count_ranges(rows, width, merge.parameters, parallelism)


def _run(
    merge: RangeMerge, settings: MergeSettings, cuts: Sequence[Cut], runner: Runner
) -> list[MergedRange]:
    bounds = [None, *(_bound(cut) for cut in cuts), None]
    tasks = [
        Task(
            id=f"merge-{number}",
            payload=MergeRangeWork(number=number, left=bounds[number], right=bounds[number + 1]),
            label="merge",
        )
        for number in range(len(bounds) - 1)
    ]
    job = Job(worker=merge_range, settings=settings)
    outcomes = run_tasks(runner, job, tasks, ignore_outcome, merge.attempts_max)
    merged = sorted((outcome.result for outcome in outcomes.values()), key=lambda entry: entry.number)
    _require_seamless(settings, merged)
    return merged


def _require_seamless(settings: MergeSettings, merged: Sequence[MergedRange]) -> None:
    """Every row of every source must have been read by exactly one task."""
    for number, source in enumerate(settings.sources):
        spans = [entry.read[number] for entry in merged]
        starts = [start for start, _ in spans]
        stops = [stop for _, stop in spans]
        ascending = all(start <= stop for start, stop in spans)
        if starts != [0, *stops[:-1]] or stops[-1] != source.files.end or not ascending:
            raise CorruptIndexError(
                f"The pages of segment {source.segment_uuid} are not in the order its lookup says",
                "Build the index again.",
            )


def _finish(
    merge: RangeMerge,
    settings: MergeSettings,
    merged: Sequence[MergedRange],
    kept: Mapping[str, FrozenBitMap],
    runner: Runner,
) -> Segment:
    fragments = FrozenBitMap().union(*kept.values())
    written = [entry.written for entry in merged if entry.written is not None]
    _require_all_rows(merge, fragments, sum(entry.rows for entry in written))
    parts = [read_part(entry) for entry in written]
    folder = SegmentFolder(merge.table, settings.segment_uuid)
    files = write_lookup(folder, parts, indexed_type(merge.column.type), settings.page_rows)
    segment = Segment(
        uuid=settings.segment_uuid,
        name=merge.sources[0].name,
        field_ids=(merge.column.field_id,),
        dataset_version=merge.snapshot.version,
        fragments=fragments,
        index_version=1 if merge.snapshot.stable_row_ids else 0,
        type_url=BTREE_TYPE_URL,
        created_at=datetime.now(UTC),
        files=files,
    )
    if merge.parameters.get("keep_ranges"):
        return segment
    return plain_where_unsafe(merge.table, merge.snapshot, merge.column, segment, runner, merge.attempts_max)


def _require_all_rows(merge: RangeMerge, fragments: FrozenBitMap, rows: int) -> None:
    by_id = merge.snapshot.fragments_by_id
    live = sum(by_id[fragment].rows for fragment in fragments)
    if rows < live:
        raise CorruptIndexError(
            f"The segments of index {merge.sources[0].name!r} hold {rows:,} rows of fragments that have {live:,}",
            "Build the index again: queries over it miss rows.",
        )


def _bound(cut: Cut) -> Bound:
    batch = pa.record_batch([cut.key], names=["key"])
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return Bound(key=sink.getvalue(), places=cut.places)


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no number of rows or MiB")
    return value
