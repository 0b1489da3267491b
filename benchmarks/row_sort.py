"""The row-based range sort: every value becomes a row of the JVM, Spark sorts the rows, each partition writes one part.

What lance-spark did when it had a range mode: ``repartitionByRange`` + ``sortWithinPartitions`` + ``mapInArrow``. The
column is read through a scan in Python workers, as lance-spark reads it through its connector. The index is the same
as lancewright's, so that only the ways there differ.
"""

from __future__ import annotations

import pickle
import uuid
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyroaring import FrozenBitMap

from lancewright.build.range_build import ROWS_PER_RANGE, write_lookup
from lancewright.build.range_worker import CHUNK_ROWS_MAX
from lancewright.kinds.btree.empty_ranges import BTREE_TYPE_URL
from lancewright.kinds.btree.pages import PAGE_ROWS, Part, data_schema
from lancewright.kinds.btree.range_writer import RangeWriter
from lancewright.kinds.btree.sorted_run import take_sorted
from lancewright.model.columns import Column, find_column
from lancewright.model.index import Segment
from lancewright.spark.worker_process import freeze_imports
from lancewright.table.column_reader import read_column
from lancewright.table.commit import IndexChange, commit_segments
from lancewright.table.location import table_ref
from lancewright.table.segment_files import SegmentFolder
from lancewright.table.snapshot_reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from lancewright.table.location import TableRef


def build_by_rows(spark: SparkSession, uri: str, column_name: str, name: str) -> None:
    """Build and commit one index."""
    from pyspark.sql.pandas.types import from_arrow_type

    snapshot = read_snapshot(table_ref(uri))
    table = table_ref(uri).pinned(snapshot.version)
    column = find_column(snapshot.columns, column_name)
    segment_uuid = str(uuid.uuid4())
    ranges = max(1, -(-snapshot.rows // ROWS_PER_RANGE))
    spark_type = from_arrow_type(column.type, prefer_timestamp_ntz=True).simpleString()
    fragments = spark.createDataFrame([(fragment.id,) for fragment in snapshot.fragments], "fragment int")
    rows = fragments.repartitionById(len(snapshot.fragments), "fragment").mapInArrow(
        partial(_read, table, column), f"value {spark_type}, address long"
    )
    sorted_rows = rows.repartitionByRange(ranges, "value", "address").sortWithinPartitions("value", "address")
    written = sorted_rows.mapInArrow(
        partial(_write, table, column, segment_uuid), "number int, part binary"
    ).collect()
    parts = [pickle.loads(row["part"]) for row in sorted(written, key=lambda row: row["number"])]  # noqa: S301 - ours
    files = write_lookup(SegmentFolder(table, segment_uuid), parts, column.type, PAGE_ROWS)
    segment = Segment(
        uuid=segment_uuid,
        name=name,
        field_ids=(column.field_id,),
        dataset_version=snapshot.version,
        fragments=FrozenBitMap(snapshot.fragments_by_id),
        index_version=0,
        type_url=BTREE_TYPE_URL,
        created_at=datetime.now(UTC),
        files=files,
    )
    commit_segments(table, snapshot, IndexChange(add=(segment,)))


def _read(table: TableRef, column: Column, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    freeze_imports()
    for batch in batches:
        for fragment in batch.column("fragment").to_pylist():
            for values, addresses in read_column(table, column, [fragment], 64 * 1024):
                yield pa.record_batch([values, pa.array(addresses.view("i8"))], names=["value", "address"])


def _write(
    table: TableRef, column: Column, segment_uuid: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    freeze_imports()
    context: Any = TaskContext.get()  # Any: None outside a task, which this never is
    number = int(context.partitionId())
    folder = SegmentFolder(table, segment_uuid)
    name = f"part_{number}_page_data.lance"
    with folder.open_writer(name, data_schema(column.type, PAGE_ROWS)) as file:
        writer = RangeWriter(file, column.type, PAGE_ROWS)
        for values, addresses in _slices(batches):
            writer.write_run(take_sorted(values.cast(column.type), addresses))
    part = Part(part_id=number, size_bytes=file.size_bytes, rows=writer.rows, pages=writer.pages())
    yield pa.RecordBatch.from_pydict({"number": pa.array([number], pa.int32()), "part": [pickle.dumps(part)]})


def _slices(
    batches: Iterator[pa.RecordBatch],
) -> Iterator[tuple[pa.Array, np.ndarray[Any, np.dtype[np.uint64]]]]:
    """Spark hands over 10,000 rows at a time; Lance's writer wants more."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= CHUNK_ROWS_MAX // 4:
            yield _join(waiting)
            waiting = []
    if waiting:
        yield _join(waiting)


def _join(batches: list[pa.RecordBatch]) -> tuple[pa.Array, np.ndarray[Any, np.dtype[np.uint64]]]:
    values = pa.concat_arrays([batch.column(0) for batch in batches])
    addresses = np.concatenate([batch.column(1).to_numpy() for batch in batches])
    return values, addresses.view("u8")
