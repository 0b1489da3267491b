"""Frames made of rows on the driver: Spark is given what it can take."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lancewright.spark.frames import SparkFrames


class Session:
    """Keeps what a frame is made of."""

    def createDataFrame(self, rows: pa.Table, _: Any) -> pa.Table:  # noqa: N802 - Spark's name
        return rows


def test_no_rows_are_given_as_empty_chunks_because_spark_cannot_take_a_list_of_no_chunk() -> None:
    schema = pa.schema([("id", pa.int64()), ("vector", pa.list_(pa.float32()))])
    nothing = pa.table([pa.chunked_array([], field.type) for field in schema], schema=schema)

    given: Any = SparkFrames(Session()).make_frame(nothing)  # type: ignore[arg-type] # a fake session

    assert given.num_rows == 0
    assert [column.num_chunks for column in given.columns] == [1, 1]
