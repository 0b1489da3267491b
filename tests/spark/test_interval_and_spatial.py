"""Intervals and places are indexed by executors, and Spark scans them as a full scan does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest
import shapely

import lancewright as lw

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ROWS = 200_000


def test_executors_build_an_interval_index_that_a_spark_scan_asks(
    spark: SparkSession, tmp_path: Path
) -> None:
    random = np.random.default_rng(3)
    starts = random.integers(0, 10**9, ROWS)
    uri = str(tmp_path / "stays")
    rows = pa.table(
        {
            "id": range(ROWS),
            "wide": ["x" * 60] * ROWS,
            "arrival": pa.array(starts, pa.timestamp("s")),
            "departure": pa.array(starts + random.integers(-10, 10**5, ROWS), pa.timestamp("s")),
        }
    )
    lance.write_dataset(rows, uri, max_rows_per_file=ROWS // 8)
    table = lw.open(uri, spark=spark, progress=False)
    table.create_index(["arrival", "departure"], kind="interval", segments=3)
    moment = "timestamp '1985-06-01 12:00:00'"
    asked = f"arrival <= {moment} AND departure > {moment}"

    found = table.scan(asked, columns=["id"]).to_spark()

    assert [line.reason for line in table.explain(asked, analyze=True).indexes] == ["USED"]
    whole = lance.dataset(uri).to_table(filter=asked, columns=["id"])
    assert sorted(row.id for row in found.collect()) == sorted(whole["id"].to_pylist()) != []


def test_executors_build_a_spatial_index_of_geometries_that_a_spark_scan_asks(
    spark: SparkSession, tmp_path: Path
) -> None:
    random = np.random.default_rng(3)
    x, y = random.uniform(-180, 180, ROWS), random.uniform(-90, 90, ROWS)
    uri = str(tmp_path / "places")
    shapes = pa.array(shapely.to_wkb(shapely.box(x, y, x + 0.1, y + 0.1)), pa.binary())
    rows = pa.table({"id": range(ROWS), "wide": ["x" * 60] * ROWS, "shape": shapes})
    lance.write_dataset(rows, uri, max_rows_per_file=ROWS // 8)
    table = lw.open(uri, spark=spark, progress=False)
    table.create_index("shape", kind="spatial", segments=3)
    asked = "st_intersects(shape, st_geomfromtext('POLYGON((3 51, 7 51, 7 54, 3 51))'))"

    found = table.scan(asked, columns=["id"]).to_spark()

    assert [line.reason for line in table.explain(asked, analyze=True).indexes] == ["INEXACT_PREFILTER"]
    whole = lance.dataset(uri).to_table(filter=asked, columns=["id"])
    assert sorted(row.id for row in found.collect()) == sorted(whole["id"].to_pylist()) != []
