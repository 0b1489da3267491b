"""Makes the frame that carries tasks to executors: one row and one partition for each task."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

_TASK_SCHEMA = pa.schema([("number", pa.int32()), ("task", pa.binary())])


def make_task_frame(spark: SparkSession, tasks: Sequence[object]) -> DataFrame:
    """A lazy frame of (number, pickled task), each task in a partition of its own."""
    # As an Arrow table, which the JVM reads itself. A list of rows travels as a pickled RDD, and a classic session starts
    # a second daemon and its Python workers only to pickle that again: a CPU second on two cores, before the first task.
    columns = [
        pa.array(range(len(tasks)), pa.int32()),
        pa.array([pickle.dumps(task) for task in tasks], pa.binary()),
    ]
    frame = spark.createDataFrame(pa.Table.from_arrays(columns, schema=_TASK_SCHEMA))
    # Placement by number: a hash would put several tasks into one partition and leave others empty. One row has one partition.
    return frame if len(tasks) == 1 else frame.repartitionById(max(1, len(tasks)), "number")
