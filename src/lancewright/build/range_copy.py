"""Copies a range-partitioned segment into Lance's plain layout: one page file, read and written in order.

Keeps what the segment says of itself, its version and its fragments, so it may be of any age. Runs on an executor; memory is
a few batches.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lancewright.build.journal import Journal
from lancewright.build.spec import BuildSettings, Written
from lancewright.errors import ConflictError
from lancewright.kinds.btree.empty_ranges import defers_remap, find_ranged
from lancewright.kinds.btree.pages import LOOKUP_FILE, lookup_schema, number_pages, page_data_schema
from lancewright.kinds.btree.range_writer import SLICE_ROWS, RangeWriter
from lancewright.kinds.btree.sorted_run import SortedRun
from lancewright.kinds.btree.source import PLAIN_FILE, describe_source
from lancewright.model.index import SegmentFile
from lancewright.runtime.runner import ignore_outcome, run_tasks
from lancewright.runtime.task import Job, Task
from lancewright.table.column_reader import indexed_type, plain_type, plain_values
from lancewright.table.lance_compat import translating
from lancewright.table.segment_files import SegmentFolder
from lancewright.table.side_files import SideFiles

if TYPE_CHECKING:
    import pyarrow as pa

    from lancewright.model.columns import Column
    from lancewright.model.index import Segment
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.runtime.runner import Runner
    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyWork:
    """Copy this uncommitted segment."""

    task_id: str
    spec_number: int
    source: Segment
    rows: int


def copy_ranges(settings: BuildSettings, work: CopyWork) -> Written:
    """Copy one segment and record the copy in the journal."""
    started = time.monotonic()
    spec = settings.specs[work.spec_number]
    with translating(settings.table, f"write index {spec.name!r} as one file of"):
        segment = copy_to_plain(settings.table, work.source, spec.column.type)
    written = Written(
        task_id=work.task_id,
        index=spec.name,
        version=segment.dataset_version,
        segment=segment,
        rows=work.rows,
        seconds=time.monotonic() - started,
    )
    journal = Journal(SideFiles(settings.table), settings.folder)
    if journal.read_lease() is None:
        SideFiles(settings.table).delete_segment(segment.uuid)
        raise ConflictError("The build ended before this task did", "Nothing: another attempt did its work.")
    journal.record_segment(written)
    return written


def plain_where_unsafe(
    table: TableRef,
    snapshot: TableSnapshot,
    column: Column,
    segment: Segment,
    runner: Runner,
    attempts_max: int,
) -> Segment:
    """The segment as it may be shown: where a compaction could empty a range, one worker's copy takes its place."""
    if not find_ranged([segment]) or defers_remap(snapshot):
        return segment
    job = Job(worker=_copy, settings=(table, column))
    task = Task(id="copy", payload=segment, label=segment.name, fragments=tuple(segment.covered))
    try:
        (outcome,) = run_tasks(runner, job, [task], ignore_outcome, attempts_max).values()
    finally:
        SideFiles(table).delete_segment(segment.uuid)
    copied: Segment = outcome.result
    return copied


def copy_to_plain(table: TableRef, segment: Segment, column_type: pa.DataType) -> Segment:
    """Write the copy under an id of its own and return its entry; the source stays."""
    type_ = indexed_type(column_type)
    source_folder = SegmentFolder(table, segment.uuid)
    lookup = source_folder.open_reader(LOOKUP_FILE)
    source = describe_source(lookup.metadata, lookup.rows)
    copy_uuid = str(uuid.uuid4())
    folder = SegmentFolder(table, copy_uuid)
    with folder.open_writer(PLAIN_FILE, page_data_schema(type_)) as data:
        writer = RangeWriter(data, type_, source.page_rows, schema=page_data_schema(type_))
        for batch in source.read(source_folder, 0, source.end, SLICE_ROWS):
            values, addresses = plain_values(batch.column("values")), batch.column("ids").to_numpy()
            writer.write_run(SortedRun(type=plain_type(type_), addresses=addresses, wide=values))
    with folder.open_writer(LOOKUP_FILE, lookup_schema(type_)) as file:
        file.add_metadata({"batch_size": str(source.page_rows), "range_partitioned": "false"})
        file.write_batch(number_pages(writer.pages(), type_))
    files = (
        SegmentFile(path=PLAIN_FILE, size_bytes=data.size_bytes),
        SegmentFile(path=LOOKUP_FILE, size_bytes=file.size_bytes),
    )
    return replace(segment, uuid=copy_uuid, files=files)


def _copy(settings: tuple[TableRef, Column], segment: Segment) -> Segment:
    table, column = settings
    with translating(table, f"write index {segment.name!r} as one file of"):
        return copy_to_plain(table, segment, column.type)
