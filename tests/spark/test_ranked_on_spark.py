"""Executors rank through indexes of our own, and look keys up, as this process does."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancewright as lw
from lancewright.query import prefilter
from lancewright.query.prefilter import FilterRequest, choose_prefilter
from lancewright.query.resolve import ScanRequest
from lancewright.query.search.request import RowsPrefilter
from lancewright.table.location import table_ref
from support.eager_scans import EAGER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ROWS = 9_000


@pytest.fixture(scope="module", params=[False, True], ids=["addresses", "stable"])
def uri(spark: SparkSession, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Indexed by executors, then changed: rows outside of the indexes, deleted ones and moved ones."""
    uri = str(tmp_path_factory.mktemp("ranked") / "places.lance")
    lance.write_dataset(_rows(0, ROWS), uri, max_rows_per_file=ROWS // 6, enable_stable_row_ids=request.param)
    table = lw.open(uri, spark=spark, progress=False)
    table.create_index(["lon", "lat"], kind="spatial", name="places", segments=3)
    table.create_index("vector", kind="hnsw", name="graph", segments=3, m=8, ef_construction=48)
    table.create_index(["g", "id"], kind="composite", name="groups")
    table.create_index("id", kind="key", name="ids", segments=2)
    lance.write_dataset(_rows(ROWS, 500), uri, mode="append")
    lance.dataset(uri).delete("id % 9 = 0")
    lance.dataset(uri).update({"lon": "lon + 1", "g": "g"}, where="id % 50 = 1")
    return uri


def _rows(first: int, count: int) -> pa.Table:
    random = np.random.default_rng(first)
    vectors = random.normal(size=(count, 8)).astype("f4")
    return pa.table(
        {
            "id": pa.array(range(first, first + count), pa.int64()),
            "g": random.integers(0, 10, count),
            "lon": random.uniform(-180, 180, count).round(0),
            "lat": random.uniform(-90, 90, count).round(0),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8),
        }
    )


@pytest.mark.parametrize("where", [None, "g = 3", "lat > 40 AND g < 5"])
def test_executors_find_the_places_that_this_process_finds(
    spark: SparkSession, uri: str, where: str | None
) -> None:
    columns = ["id", "lon", "lat", "_rowid"]
    here, there = lw.open(uri, progress=False), lw.open(uri, spark=spark, progress=False)

    found = there.search(near=(4.9, 52.37), k=40, where=where, columns=columns)

    every = here.search(near=(4.9, 52.37), k=40, where=where, columns=columns, use_index=False).to_arrow()
    assert "segments 3 of 3" in found.explain().to_text()
    assert found.to_arrow() == every
    assert here.search(near=(4.9, 52.37), k=40, where=where, columns=columns).to_arrow() == every
    assert [row.id for row in found.to_spark().collect()] == every["id"].to_pylist()


def test_executors_walk_the_graphs_that_this_process_walks(spark: SparkSession, uri: str) -> None:
    queries = np.random.default_rng(7).normal(size=(3, 8))
    here, there = lw.open(uri, progress=False), lw.open(uri, spark=spark, progress=False)

    for where in (None, "g = 3"):
        found = there.search(queries, k=10, where=where, columns=["id", "g"])

        text = found.explain().to_text()
        assert "index graph (hnsw)" in text
        assert "segments 3 of 3" in text
        assert found.to_arrow() == here.search(queries, k=10, where=where, columns=["id", "g"]).to_arrow()
        assert len(found.to_arrow()) == 30


def test_executors_look_up_the_keys_of_a_frame(spark: SparkSession, uri: str) -> None:
    keys = pa.table({"id": [3, 9, 77_777, ROWS + 1, 51, 3], "note": ["x"] * 6})
    here, there = lw.open(uri, progress=False), lw.open(uri, spark=spark, progress=False)

    found = there.lookup(spark.createDataFrame(keys.to_pandas()), index="ids", columns=["id", "lon"])

    assert "key, 2 segments, one probe each" in found.explain().to_text()
    assert found.to_arrow() == here.lookup(keys, on="id", columns=["id", "lon"], strict=True).to_arrow()
    assert sorted(row.id for row in found.to_spark().collect()) == [3, 3, 51, ROWS + 1]


@pytest.mark.parametrize("where", ["g = 3 AND id < 9000", "lon BETWEEN 0 AND 40 AND lat BETWEEN 0 AND 60"])
def test_a_composite_and_a_spatial_index_prefilter_a_vector_search_exactly(
    spark: SparkSession, uri: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefilter, "ScanRequest", partial(ScanRequest, settings=EAGER))
    table = lw.open(uri, spark=spark, progress=False)
    table.refresh()
    pinned = table_ref(uri).pinned(table.snapshot().version)
    query = np.zeros(8)

    assert isinstance(choose_prefilter(FilterRequest(table=pinned, where=where)), RowsPrefilter)
    found = table.search(query, k=12, where=where, columns=["id"], use_index=False)

    assert "FILTER_ANSWERED" in found.explain().to_text()
    rows = lance.dataset(uri).to_table(filter=where, columns=["id", "vector"], with_row_id=True)
    far = (np.stack(rows["vector"].to_numpy()) ** 2).sum(axis=1)
    order = np.lexsort((rows["_rowid"].to_numpy(), far))[:12]
    assert found.to_arrow()["id"].to_pylist() == rows["id"].to_numpy()[order].tolist()
