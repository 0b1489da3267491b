"""Searches on a classic and on a Connect session return what they return in the local process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import lancewright as lw
from support.searching import (
    WIDTH,
    add_text_index,
    add_vector_index,
    assert_nearest,
    nearest_rows,
    vector_rows,
    write_rows,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

import lance

pytestmark = pytest.mark.spark

QUERY = np.arange(WIDTH) - 3.5


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three segments, a fragment outside of them, deleted and updated rows."""
    path: Path = tmp_path_factory.mktemp("search")
    uri = write_rows(path, 300, fragments=6, stable_row_ids=True)
    add_vector_index(uri, [[0, 1], [2, 3], [4]])
    add_text_index(uri, [[0, 1, 2], [3, 4]])
    lance.dataset(uri).delete("id % 10 = 3")
    lance.dataset(uri).merge_insert("id").when_matched_update_all().execute(
        vector_rows([5, 55, 105, 155, 256], seed=9)
    )
    return uri


@pytest.fixture(scope="module", params=["classic", "connect"])
def session(request: pytest.FixtureRequest) -> Any:
    """Any: the two kinds of session share no public base."""
    return request.getfixturevalue("spark" if request.param == "classic" else "connect")


def test_a_vector_search_returns_the_nearest_rows(session: SparkSession, uri: str) -> None:
    search = lw.open(uri, spark=session, progress=False).search(QUERY, k=12, columns=["id"], nprobes=64)

    found = search.to_spark().toPandas()

    assert_nearest(uri, pa.Table.from_pandas(found), QUERY, 12)


def test_a_batch_a_text_and_both_return_what_the_local_process_returns(
    session: SparkSession, uri: str
) -> None:
    ours, local = lw.open(uri, spark=session, progress=False), lw.open(uri, progress=False)
    asked: tuple[dict[str, Any], ...] = (
        {"vector": np.stack([QUERY, -QUERY]), "k": 4, "where": "group < 5", "nprobes": 64},
        {"text": "alpha beta", "k": 9},
    )

    for request in asked:
        assert ours.search(**request).to_arrow() == local.search(**request).to_arrow()
    hybrid = [table.hybrid_search(QUERY, "gamma", k=8).to_arrow() for table in (ours, local)]
    assert hybrid[0] == hybrid[1]


def test_every_row_of_a_frame_is_joined_with_its_nearest_rows(session: SparkSession, uri: str) -> None:
    random = np.random.default_rng(5)
    vectors = random.integers(-8, 8, (40, WIDTH)) + 0.5
    rows = [(f"q{number}", [float(x) for x in vector]) for number, vector in enumerate(vectors)]
    queries = session.createDataFrame(
        [*rows, ("nothing", None)], "name string, embedding array<double>"
    ).repartition(3)
    table = lw.open(uri, spark=session, progress=False)

    joined = table.search(queries, k=5, columns=["id"], where="id % 2 = 0", nprobes=64).to_spark()

    assert joined.columns == ["name", "embedding", "id", "_distance"]
    found: dict[str, list[tuple[int, float]]] = {}
    for row in joined.collect():
        found.setdefault(row["name"], []).append((row["_distance"], row["id"]))
    assert set(found) == {name for name, _ in rows}
    for number, vector in enumerate(vectors):
        expected = [distance for _, distance in nearest_rows(uri, vector, 5, where="id % 2 = 0")]
        assert sorted(distance for distance, _ in found[f"q{number}"]) == pytest.approx(expected)


def test_a_join_returns_the_same_rows_on_spark_and_locally(session: SparkSession, uri: str) -> None:
    vectors = [[float(x) for x in row] for row in np.random.default_rng(6).normal(size=(20, WIDTH))]
    frame = pa.table({"name": [f"q{number}" for number in range(20)], "embedding": vectors})
    on_spark = lw.open(uri, spark=session, progress=False).search(
        session.createDataFrame(frame.to_pandas()), k=3, columns=["id", "text", "_rowid"]
    )
    local = lw.open(uri, progress=False).search(frame, k=3, columns=["id", "text", "_rowid"])

    left, right = on_spark.to_pandas(), local.to_pandas()

    order = ["name", "_distance", "id"]
    columns = ["name", "id", "text", "_distance"]
    left, right = (one.sort_values(order)[columns].reset_index(drop=True) for one in (left, right))
    assert left.equals(right)


def test_a_wrong_query_in_a_frame_is_told_when_it_is_met(session: SparkSession, uri: str) -> None:
    queries = session.createDataFrame([("q", [1.0, 2.0])], "name string, embedding array<double>")
    search = lw.open(uri, spark=session, progress=False).search(queries, k=3, columns=["id"])

    with pytest.raises(lw.TasksFailedError):
        search.to_arrow()


def test_columns_that_the_queries_have_as_well_are_refused_before_any_job(
    session: SparkSession, uri: str
) -> None:
    queries = session.createDataFrame([(1, [1.0] * WIDTH)], "id int, embedding array<double>")

    with pytest.raises(lw.InvalidRequestError, match="both have the columns id"):
        lw.open(uri, spark=session, progress=False).search(queries, columns=["id"])


def test_types_spark_does_not_have_come_back_as_the_next_wider_ones(
    session: SparkSession, tmp_path: Path
) -> None:
    half = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(8, "f2")), 2)
    rows = pa.table(
        {
            "id": pa.array(range(4), pa.uint32()),
            "vector": half,
            "name": pa.array(list("abcd")).dictionary_encode(),
        }
    )
    uri = str(tmp_path / "types.lance")
    lance.write_dataset(rows, uri)
    table = lw.open(uri, spark=session, progress=False)

    found = table.search([1, 1], k=1, columns=["id", "vector", "name", "_rowid", "_rowaddr"]).to_spark()

    assert dict(found.dtypes) == {
        "id": "bigint",
        "vector": "array<float>",
        "name": "string",
        "_rowid": "bigint",
        "_rowaddr": "bigint",
        "_distance": "float",
    }
    assert found.collect()[0]["vector"] == [1.0, 1.0]


def test_a_search_and_a_join_are_explained_with_what_they_took_on_the_executors(
    session: SparkSession, uri: str
) -> None:
    table = lw.open(uri, spark=session, progress=False)
    queries = session.createDataFrame(pa.table({"near": vector_rows(range(40), nulls=False)["vector"]}))

    near = table.search(QUERY, k=5, columns=["id"]).explain(analyze=True)
    joined = table.search(queries, query_column="near", k=3, columns=["id"]).explain(analyze=True)

    for told, rows in ((near, 5), (joined, 120)):
        assert next(line for line in told.indexes if line.index == "vectors").used
        assert told.measured is not None
        assert told.measured.rows == rows
        assert told.measured.search_bytes > 0
        assert told.measured.read_bytes > 0
        assert all(task.measured is not None and task.measured.rows for task in told.tasks)
