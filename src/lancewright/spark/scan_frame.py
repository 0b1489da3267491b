"""A resolved scan as a lazy Spark frame: one row for each task, one partition for each row, batches out of each."""

from __future__ import annotations

import pickle
from functools import partial
from typing import TYPE_CHECKING

from lancewright.query.worker import ScanJob, read_task
from lancewright.spark.arrow_types import cast_batch, spark_arrow_schema, to_spark_schema
from lancewright.spark.task_frame import make_task_frame
from lancewright.spark.worker_process import freeze_imports

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lancewright.query.resolve import ResolvedScan
    from lancewright.query.tasks import ScanTask


def scan_frame(spark: SparkSession, scan: ResolvedScan) -> DataFrame:
    """The rows of a scan; with a limit, at most so many."""
    schema = spark_arrow_schema(scan.schema())
    found = make_task_frame(spark, scan.tasks).mapInArrow(
        partial(read_batches, scan.job, schema), to_spark_schema(schema)
    )
    return found if scan.job.limit is None else found.limit(scan.job.limit)


def read_batches(
    job: ScanJob, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run on an executor: the rows of each task, in the types Spark takes."""
    freeze_imports()
    for batch in batches:
        for payload in batch.column("task").to_pylist():
            task: ScanTask = pickle.loads(payload)  # noqa: S301 - made by the driver of this very job
            for found in read_task(job, task):
                yield cast_batch(found, schema)
