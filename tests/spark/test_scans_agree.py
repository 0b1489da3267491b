"""Tables with a life behind them: the local process, a frame of a scan, the data source and SQL find the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lancewright as lw
from support.query_worlds import make_world

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FILTERS = [
    "i = 7",
    "i IN (1, 2, 5) AND s >= 'ab'",
    "f > 0.25 OR i = 3",
    "NOT (f <= 0.0) AND b",
    "s LIKE 'ab%' OR n.x = 2",
    "array_has(l, 'ab') AND other < 5",
    "f IS NULL OR t < timestamp '1970-01-01 00:00:03'",
]


@pytest.mark.parametrize("seed", [3, 8])
def test_every_way_to_a_table_finds_the_same_rows(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    world = make_world(tmp_path, seed)
    lw.register(spark)
    local, on_spark = lw.open(world.uri, progress=False), lw.open(world.uri, spark=spark, progress=False)

    for where in FILTERS:
        expected = sorted(local.scan(where, columns=["id"], use_indexes=False).to_arrow()["id"].to_pylist())
        call = f"SELECT id FROM lance_scan('{world.uri}', where => :where)"  # noqa: S608 - the test's own
        frames = {
            "scan": on_spark.scan(where, columns=["id"]).to_spark(),
            "data source": spark.read.format("lancewright")
            .options(where=where, columns="id")
            .load(world.uri),
            "spark.sql": spark.sql(call, {"where": where}),
            "lw.sql": lw.sql(spark, call, {"where": where}),
        }
        found = {way: sorted(row.id for row in frame.collect()) for way, frame in frames.items()}
        assert found == dict.fromkeys(frames, expected), (where, world.history)
