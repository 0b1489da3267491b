"""Carries blobs between tasks through Spark's own shuffle.

A blob is one binary cell and a partition is placed by its number (``repartitionById``), so no row of the table ever
becomes a row of the JVM: 100 million rows are some thousand cells.
"""

from __future__ import annotations

import pickle
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewright.runtime.exchange import ExchangeJob, run_gather
from lancewright.spark.task_frame import make_task_frame
from lancewright.spark.worker_process import freeze_imports, keep_memory
from lancewright.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lancewright.runtime.task import Task

_BLOB_SCHEMA = "part int, blob binary"
_OUTCOME_SCHEMA = "part int, outcome binary"
_ARROW_BLOB_SCHEMA = pa.schema([("part", pa.int32()), ("blob", pa.binary())])
_ARROW_OUTCOME_SCHEMA = pa.schema([("part", pa.int32()), ("outcome", pa.binary())])


def exchange_frame(spark: SparkSession, job: ExchangeJob, tasks: Sequence[Task]) -> DataFrame:
    """The whole exchange as one lazy frame with one outcome per partition."""
    cuts = make_task_frame(spark, tasks).mapInArrow(partial(run_cuts, job), _BLOB_SCHEMA)
    return cuts.repartitionById(job.partitions, "part").mapInArrow(partial(run_gathers, job), _OUTCOME_SCHEMA)


def run_cuts(job: ExchangeJob, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run on an executor: the blobs of one map task, each in a batch of its own so that none waits for another."""
    if job.package_version != __version__:
        raise RuntimeError(
            f"The worker has lancewright {__version__}, the driver {job.package_version}. Install the same on both."
        )
    freeze_imports()
    keep_memory()
    for batch in batches:
        for payload in batch.column("task").to_pylist():
            task: Task = pickle.loads(payload)  # noqa: S301 - made by the driver of this very job
            for partition, blob in job.cut(job.settings, task.payload):
                yield pa.RecordBatch.from_arrays(
                    [pa.array([partition], pa.int32()), _one_cell(blob)], schema=_ARROW_BLOB_SCHEMA
                )


def run_gathers(job: ExchangeJob, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run on an executor: one partition's blobs, read as they arrive. A partition nobody sent anything to is silent."""
    freeze_imports()
    keep_memory()
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return
    partition = first.column("part")[0].as_py()
    outcome = run_gather(job, partition, _cells(first, batches))
    yield pa.RecordBatch.from_pydict(
        {"part": [partition], "outcome": [pickle.dumps(outcome)]}, schema=_ARROW_OUTCOME_SCHEMA
    )


def _cells(first: pa.RecordBatch, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Buffer]:
    for cell in first.column("blob"):
        yield cell.as_buffer()
    for batch in batches:
        for cell in batch.column("blob"):
            yield cell.as_buffer()


def _one_cell(blob: bytes) -> pa.Array:
    # Lays the blob into an Arrow array without copying it.
    offsets = pa.array([0, len(blob)], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(blob)])
