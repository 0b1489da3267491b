"""The condition of a search restricts the rows to exactly those a scan of the same condition gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancewright as lw
from support.searching import ALL_PROBES, WIDTH, add_text_index, add_vector_index, vector_rows, write_rows

if TYPE_CHECKING:
    from pathlib import Path

QUERY = np.arange(WIDTH) - 3.5
EVERYTHING = 10_000
CONDITIONS = [
    "group = 2",
    "group NOT IN (1) OR group NOT IN (3)",
    "NOT (group IN (1, 2) AND group IN (3, 4))",
    "group < 2.5 AND id > 20",
    "group = 2 OR text LIKE '%alpha%'",
    "id % 5 = 1",
    "group > 5",
]


@pytest.fixture(params=["plain", "stable"])
def uri(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Groups that are NULL, rewritten or updated, an index over them of two versions, a fragment outside of it."""
    uri = write_rows(tmp_path, stable_row_ids=request.param == "stable")
    add_vector_index(uri, [[0, 1], [2]])
    add_text_index(uri, [[0, 1, 2, 3]])
    lance.dataset(uri).update({"group": "NULL"}, where="id % 7 = 0")
    lance.dataset(uri).create_scalar_index("group", "BITMAP")
    rewrite_groups(uri, 3)
    lance.dataset(uri).update({"group": "1"}, where="id % 11 = 0")
    lance.dataset(uri).optimize.optimize_indices(index_names=["group_idx"], num_indices_to_merge=0)
    lance.write_dataset(vector_rows(range(500, 540), seed=5), uri, mode="append")
    return uri


def rewrite_groups(uri: str, number: int) -> None:
    dataset = lance.dataset(uri)
    fragment = dataset.get_fragment(number)
    ids = fragment.to_table(columns=["id"])["id"]
    group_type = dataset.schema.field("group").type
    new = pa.table({"id": ids, "group": pa.array([4] * len(ids), group_type)})
    updated, fields = fragment.update_columns(new, left_on="id", right_on="id")
    operation = lance.LanceOperation.Update(updated_fragments=[updated], fields_modified=fields)
    lance.LanceDataset.commit(dataset, operation, read_version=dataset.version)


def meeting(uri: str, where: str) -> set[int]:
    """The rows that meet a condition and have a vector, by a scan that was compared with Arrow elsewhere."""
    rows = lw.open(uri, progress=False).scan(where, columns=["id", "vector"], use_indexes=False).to_arrow()
    return set(rows.filter(pa.compute.is_valid(rows["vector"]))["id"].to_pylist())


@pytest.mark.parametrize("where", CONDITIONS)
def test_a_vector_search_ranks_just_the_rows_that_meet_its_condition(uri: str, where: str) -> None:
    table = lw.open(uri, progress=False)

    found = table.search(QUERY, k=EVERYTHING, nprobes=ALL_PROBES, where=where, columns=["id"]).to_arrow()

    assert set(found["id"].to_pylist()) == meeting(uri, where)


@pytest.mark.parametrize("where", CONDITIONS)
def test_a_text_search_ranks_just_the_rows_that_meet_its_condition(uri: str, where: str) -> None:
    table = lw.open(uri, progress=False)
    every = (
        table.search(text="alpha", column="text", k=EVERYTHING, columns=["id"]).to_arrow()["id"].to_pylist()
    )

    found = table.search(text="alpha", column="text", k=EVERYTHING, where=where, columns=["id"]).to_arrow()

    rows = table.scan(where, columns=["id"], use_indexes=False).to_arrow()["id"].to_pylist()
    assert set(found["id"].to_pylist()) == set(every) & set(rows)


def test_a_condition_that_indexes_answer_reaches_no_task(uri: str) -> None:
    table = lw.open(uri, progress=False)
    table.create_index("id", kind="btree")

    few = table.search(QUERY, k=3, where="id IN (3, 5)", columns=["id"], nprobes=ALL_PROBES)
    written = table.search(QUERY, k=3, where=lw.col("id").isin([3, 5]), columns=["id"], nprobes=ALL_PROBES)

    assert few.to_arrow() == written.to_arrow()
    assert set(few.to_arrow()["id"].to_pylist()) == meeting(uri, "id IN (3, 5)")


def test_a_frame_of_queries_and_a_hybrid_search_take_the_condition_too(uri: str) -> None:
    table = lw.open(uri, progress=False)
    queries = pa.table({"v": pa.array([QUERY.tolist()], pa.list_(pa.float32()))})
    where = CONDITIONS[1]

    joined = table.search(queries, k=EVERYTHING, where=where, columns=["id"], nprobes=ALL_PROBES).to_arrow()
    both = table.hybrid_search(QUERY, "alpha", k=50, where=where, columns=["id"]).to_arrow()

    assert set(joined["id"].to_pylist()) == meeting(uri, where)
    rows = set(table.scan(where, columns=["id"], use_indexes=False).to_arrow()["id"].to_pylist())
    assert set(both["id"].to_pylist()) <= rows
