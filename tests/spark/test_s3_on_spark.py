"""On Spark the storage options travel to the workers with the tasks, and show nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pytest

import lancewright as lw
from lancewright.observe.events import SegmentReused, TaskFinished
from lancewright.observe.sinks import MemorySink
from support.busy_table import busy_rows
from support.runners import BusyRunner
from support.s3 import BUCKET, S3, s3_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def server() -> Iterator[S3]:
    with s3_server() as running:
        yield running


def test_a_build_on_s3_that_broke_off_is_finished_by_spark(spark: SparkSession, server: S3) -> None:
    uri = f"s3://{BUCKET}/table"
    options = server.options()
    lance.write_dataset(busy_rows(range(400)), uri, max_rows_per_file=100, storage_options=options)
    local = lw.open(uri, storage_options=options, runner=BusyRunner(failing=[1, 2]), progress=False)
    with pytest.raises(lw.TasksFailedError):
        local.create_index("number", kind="btree", name="ours", segments=4)
    sink = MemorySink()

    table = lw.open(uri, spark=spark, storage_options=options, sink=sink, progress=False)
    table.create_index("number", kind="btree", name="ours", segments=4)

    built = [event.fragments for event in sink.events if isinstance(event, TaskFinished)]
    assert sorted(built) == [(1,), (2,)]
    assert len([event for event in sink.events if isinstance(event, SegmentReused)]) == 2
    dataset = lance.dataset(uri, storage_options=options)
    scanned = dataset.to_table(filter="number = 5", use_scalar_index=False)
    assert dataset.to_table(filter="number = 5").num_rows == scanned.num_rows > 0
    assert not server.keys("table/_lancewright")
    assert server.builder.secret not in repr(sink.events) + repr(table)


def test_the_data_source_and_the_functions_read_s3_with_the_options_of_the_session(
    spark: SparkSession, server: S3
) -> None:
    uri = f"s3://{BUCKET}/read"
    options = server.options()
    lance.write_dataset(busy_rows(range(40)), uri, max_rows_per_file=10, storage_options=options)
    expected = [(number,) for number in range(3)]
    lw.register(spark, storage_options=options)
    try:
        frames = [
            spark.read.format("lancewright").option("where", "id < 3").option("columns", "id").load(uri),
            spark.sql("SELECT id FROM lance_scan(:t, where => 'id < 3')", args={"t": uri}),
        ]
        for frame in frames:
            assert sorted(tuple(row) for row in frame.collect()) == expected
    finally:
        lw.register(spark)

    named = {f"storage.{name}": value for name, value in options.items()}
    given = spark.read.format("lancewright").options(**named).option("columns", "id").load(uri)
    query = f"SELECT id FROM lance.`{uri}` WHERE id < 3"  # noqa: S608 - the test's own
    through_lw = lw.sql(spark, query, storage_options=options)
    assert given.count() == 40
    assert sorted(tuple(row) for row in through_lw.collect()) == expected
    unreachable = {"storage.aws_endpoint": "http://127.0.0.1:9", "storage.client_max_retries": "0"}
    with pytest.raises(Exception, match="Could not open") as raised:
        spark.read.format("lancewright").options(**(named | unreachable)).load(uri)
    assert server.builder.secret not in str(raised.value)
