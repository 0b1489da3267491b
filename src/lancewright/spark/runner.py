"""Runs tasks as rows of a DataFrame: one row, one partition, one Spark task."""

from __future__ import annotations

import pickle
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewright.runtime.task import Job, Task, TaskOutcome, run_task
from lancewright.spark.exchange import exchange_frame
from lancewright.spark.failures import translate_spark_error
from lancewright.spark.task_frame import make_task_frame
from lancewright.spark.worker_process import freeze_imports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lancewright.runtime.exchange import ExchangeJob

_OUTCOME_SCHEMA = "number int, outcome binary"
_ARROW_OUTCOME_SCHEMA = pa.schema([("number", pa.int32()), ("outcome", pa.binary())])
# More rows than any cluster has slots, so that every slot gets a partition of the range.
_PARALLELISM_PROBE_ROWS = 1 << 20


class SparkRunner:
    """Runs tasks on Spark executors, through a classic session or Spark Connect alike."""

    def __init__(self, spark: SparkSession) -> None:
        """Keep the session; the session stays the caller's to stop."""
        self._spark = spark
        self._parallelism: int | None = None

    @property
    def session(self) -> SparkSession:
        """The session it runs on."""
        return self._spark

    @property
    def parallelism(self) -> int:
        """Spark's default parallelism, measured once: Connect has no context to ask."""
        if self._parallelism is None:
            self._parallelism = self._measure_parallelism()
        return self._parallelism

    def map(self, job: Job, tasks: Sequence[Task], on_outcome: Callable[[TaskOutcome], None]) -> None:
        """Run every task once; outcomes are reported when the Spark job ends."""
        try:
            rows = self._outcome_frame(job, tasks).collect()
        except Exception as error:
            fragments = tuple(sorted({fragment for task in tasks for fragment in task.fragments}))
            raise translate_spark_error(error, fragments) from error
        for row in rows:
            on_outcome(pickle.loads(row["outcome"]))  # noqa: S301 - made by our own worker in this very job

    def exchange(
        self, job: ExchangeJob, tasks: Sequence[Task], on_outcome: Callable[[TaskOutcome], None]
    ) -> None:
        """Cut on executors, shuffle through Spark, gather on executors; outcomes are reported when the job ends."""
        try:
            rows = exchange_frame(self._spark, job, tasks).collect()
        except Exception as error:
            fragments = tuple(sorted({fragment for task in tasks for fragment in task.fragments}))
            raise translate_spark_error(error, fragments) from error
        for row in rows:
            on_outcome(pickle.loads(row["outcome"]))  # noqa: S301 - made by our own worker in this very job

    def _outcome_frame(self, job: Job, tasks: Sequence[Task]) -> DataFrame:
        return make_task_frame(self._spark, tasks).mapInArrow(worker_function(job), _OUTCOME_SCHEMA)

    def _measure_parallelism(self) -> int:
        try:
            # As SQL text: pyspark.sql.functions makes columns of one kind per process, and a process may hold both.
            probe = self._spark.range(_PARALLELISM_PROBE_ROWS).selectExpr("spark_partition_id() AS partition")
            return max(1, probe.distinct().count())
        except Exception as error:
            raise translate_spark_error(error, ()) from error


def worker_function(job: Job) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What is sent to executors: a top-level function by name and the frozen job, some hundred bytes."""
    return partial(run_batches, job)


def run_batches(job: Job, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run on an executor: one outcome row per task row."""
    freeze_imports()
    for batch in batches:
        for number, payload in zip(
            batch.column("number").to_pylist(), batch.column("task").to_pylist(), strict=True
        ):
            task: Task = pickle.loads(payload)  # noqa: S301 - made by the driver of this very job
            outcome = pickle.dumps(run_task(job, task))
            yield pa.RecordBatch.from_pydict(
                {"number": [number], "outcome": [outcome]}, schema=_ARROW_OUTCOME_SCHEMA
            )
