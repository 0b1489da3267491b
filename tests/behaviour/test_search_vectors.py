"""A vector search returns the nearest live rows, whatever happened to the table since its index was built."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancewright as lw
from lancewright.model.row_set import row_set
from lancewright.query.search.notes import SearchReason
from lancewright.query.search.planner import plan_search
from lancewright.query.search.request import RowsPrefilter, Scope, VectorRequest, VectorTuning
from lancewright.query.search.search import prepare_search
from lancewright.runtime.local_runner import LocalRunner
from lancewright.table.location import table_ref
from support.searching import (
    ALL_PROBES,
    WIDTH,
    add_vector_index,
    answered,
    assert_nearest,
    fragment_numbers,
    nearest_rows,
    vector_rows,
    write_rows,
)
from support.vectors import clustered_vectors, nearest, write_vector_table

if TYPE_CHECKING:
    from pathlib import Path

QUERY = np.arange(WIDTH) - 3.5
EVERYTHING = 1_000


def open_table(uri: str) -> lw.Table:
    return lw.open(uri, progress=False)


@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["address", "stable"])
def test_deleted_updated_and_appended_rows_are_ranked_with_the_indexed_ones(
    tmp_path: Path, stable_row_ids: bool
) -> None:
    uri = write_rows(tmp_path, stable_row_ids=stable_row_ids)
    add_vector_index(uri, [[0, 1], [2, 3]])
    nearest_ids = [id_ for id_, _ in nearest_rows(uri, QUERY, 40)]
    lance.dataset(uri).delete(f"id IN ({', '.join(map(str, nearest_ids[:10]))})")
    lance.dataset(uri).merge_insert("id").when_matched_update_all().execute(
        vector_rows(nearest_ids[10:25], seed=3)
    )
    lance.write_dataset(vector_rows(range(900, 960), seed=4), uri, mode="append")
    table = open_table(uri)

    for k in (1, 10, EVERYTHING):
        found = table.search(QUERY, k=k, columns=["id"], nprobes=ALL_PROBES).to_arrow()
        assert_nearest(uri, found, QUERY, k)
    explained = table.search(QUERY).explain()
    assert [line.reason for line in explained.indexes] == ["USED"]
    assert SearchReason.NOT_COVERED in {note.reason for note in explained.notes}


@pytest.mark.parametrize(
    ("dtype", "metric"),
    [("f4", "l2"), ("f4", "cosine"), ("f4", "dot"), ("f2", "l2"), ("f8", "dot"), ("u1", "hamming")],
)
@pytest.mark.parametrize("indexed", [False, True], ids=["no index", "half indexed"])
def test_every_metric_and_type_means_the_same_with_an_index_and_without(
    tmp_path: Path, dtype: str, metric: str, indexed: bool
) -> None:
    uri = write_rows(tmp_path, dtype=dtype)
    if indexed:
        add_vector_index(uri, [[0], [1]], metric=metric)
    query = np.arange(WIDTH) if dtype == "u1" else QUERY

    # With an index the metric is the index's; without, Lance's default for the type would be another.
    search = open_table(uri).search(query, k=30, nprobes=ALL_PROBES, metric=None if indexed else metric)

    assert_nearest(uri, search.to_arrow(), query, 30, metric=metric)


def test_a_metric_the_index_was_not_built_for_is_answered_without_it(tmp_path: Path) -> None:
    uri = write_rows(tmp_path)
    add_vector_index(uri, [[0, 1, 2, 3]], metric="l2")

    search = open_table(uri).search(QUERY, k=20, metric="dot")

    assert_nearest(uri, search.to_arrow(), QUERY, 20, metric="dot")
    assert "METRIC_DIFFERS" in str(search.explain())


def test_a_column_without_an_index_is_searched_exactly_and_equal_distances_go_to_the_lower_row_id(
    tmp_path: Path,
) -> None:
    uri = write_rows(tmp_path, 300, fragments=5)

    found = open_table(uri).search(QUERY, k=100, columns=["id"]).to_arrow()

    assert answered(found) == nearest_rows(uri, QUERY, 100)


@pytest.mark.parametrize("indexed", [False, True])
def test_more_neighbours_than_rows_are_all_rows_that_have_a_vector(tmp_path: Path, indexed: bool) -> None:
    uri = write_rows(tmp_path, 60)
    if indexed:
        add_vector_index(uri, [[0, 1], [2, 3]])

    found = open_table(uri).search(QUERY, k=EVERYTHING, columns=["id"]).to_arrow()

    assert 0 < len(found) < 60
    assert_nearest(uri, found, QUERY, EVERYTHING)


@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["address", "stable"])
@pytest.mark.parametrize("nprobes", [None, 1])
def test_a_condition_few_rows_meet_still_yields_k_of_them(
    tmp_path: Path, stable_row_ids: bool, nprobes: int | None
) -> None:
    uri = write_rows(tmp_path, 600, stable_row_ids=stable_row_ids)
    add_vector_index(uri, [[0], [1, 2]])
    where = "id % 60 = 7"

    found = open_table(uri).search(QUERY, k=8, where=where, nprobes=nprobes, columns=["id"]).to_arrow()

    assert len(found) == 8
    assert_nearest(uri, found, QUERY, 8, where=where)


@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["address", "stable"])
def test_a_set_of_rows_restricts_a_search_to_exactly_these(tmp_path: Path, stable_row_ids: bool) -> None:
    uri = write_rows(tmp_path, stable_row_ids=stable_row_ids)
    add_vector_index(uri, [[0], [1, 2]])
    lance.dataset(uri).merge_insert("id").when_matched_update_all().execute(
        vector_rows(range(0, 90, 3), seed=8)
    )
    where = "id % 4 = 1 AND id < 170"
    wanted = lance.dataset(uri).scanner(columns=[], filter=where, with_row_address=True).to_table()
    scope = Scope(prefilter=RowsPrefilter(rows=row_set(wanted["_rowaddr"].to_numpy())))
    request = VectorRequest(
        vectors=QUERY.reshape(1, -1), batch=False, scope=scope, tuning=VectorTuning(k=EVERYTHING, nprobes=1)
    )
    snapshot = open_table(uri).snapshot()

    search = prepare_search(table_ref(uri), snapshot, request, ("id",), LocalRunner())

    assert_nearest(uri, search.to_arrow(), QUERY, EVERYTHING, where=where)
    assert 3 not in {fragment for group in search.plan().groups for fragment in group.fragments}


def test_no_task_is_made_for_a_set_without_rows(tmp_path: Path) -> None:
    uri = write_rows(tmp_path)
    scope = Scope(prefilter=RowsPrefilter(rows=row_set(np.zeros(0, np.uint64))))
    request = VectorRequest(vectors=QUERY.reshape(1, -1), batch=False, scope=scope, tuning=VectorTuning())
    snapshot = open_table(uri).snapshot()

    assert plan_search(snapshot, request, 2).groups == ()
    assert len(prepare_search(table_ref(uri), snapshot, request, ("id",), LocalRunner()).to_arrow()) == 0


def test_each_vector_of_a_batch_gets_what_it_gets_alone(tmp_path: Path) -> None:
    uri = write_rows(tmp_path)
    add_vector_index(uri, [[0], [1, 2]])
    queries = np.random.default_rng(3).normal(size=(7, WIDTH))
    table = open_table(uri)

    batch = table.search(queries, k=5, columns=["id"], nprobes=ALL_PROBES).to_arrow()

    for number, query in enumerate(queries):
        mine = batch.filter(pa.compute.equal(batch["query_index"], number))
        alone = table.search(query, k=5, columns=["id"], nprobes=ALL_PROBES).to_arrow()
        assert answered(mine) == answered(alone)


def test_distances_from_the_lower_bound_on_and_below_the_upper_one_are_returned(tmp_path: Path) -> None:
    uri = write_rows(tmp_path)
    add_vector_index(uri, [[0, 1]])
    every = nearest_rows(uri, QUERY, EVERYTHING)
    lower, upper = every[20][1], every[120][1]

    found = open_table(uri).search(
        QUERY, k=EVERYTHING, columns=["id"], nprobes=ALL_PROBES, lower_bound=lower, upper_bound=upper
    )

    expected = {id_ for id_, distance in every if lower <= distance < upper}
    assert set(found.to_arrow()["id"].to_pylist()) == expected


def test_fast_leaves_rows_without_an_index_out_and_says_so(tmp_path: Path) -> None:
    uri = write_rows(tmp_path)
    add_vector_index(uri, [[0], [1]])

    search = open_table(uri).search(QUERY, k=EVERYTHING, fast=True, nprobes=ALL_PROBES, columns=["id"])

    assert_nearest(uri, search.to_arrow(), QUERY, EVERYTHING, where="id < 120")
    assert "LEFT_OUT" in str(search.explain())


def test_of_several_indexes_the_one_that_covers_most_is_used_and_another_by_its_name(tmp_path: Path) -> None:
    uri = write_rows(tmp_path)
    add_vector_index(uri, [[0]])
    lance.dataset(uri).create_index("vector", "IVF_FLAT", name="whole", num_partitions=2, metric="cosine")
    table = open_table(uri)

    for name, metric in ((None, "cosine"), ("vectors", "l2"), ("whole", "cosine")):
        search = table.search(QUERY, k=9, index=name, nprobes=ALL_PROBES)
        assert_nearest(uri, search.to_arrow(), QUERY, 9, metric=metric)
    assert "OTHER_INDEX_CHOSEN" in str(table.search(QUERY).explain())


def test_use_index_false_looks_at_every_row(tmp_path: Path) -> None:
    uri = write_rows(tmp_path)
    add_vector_index(uri, [[0, 1, 2, 3]])

    search = open_table(uri).search(QUERY, k=10, use_index=False, columns=["id"])

    assert answered(search.to_arrow()) == nearest_rows(uri, QUERY, 10)
    assert not search.plan().segment_groups


def test_columns_come_as_asked_and_all_of_them_when_none_are_named(tmp_path: Path) -> None:
    uri = str(tmp_path / "columns.lance")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(8, dtype="f4")), 2)
    nested = pa.array([{"x": number, "y": str(number)} for number in range(4)])
    lance.write_dataset(
        pa.table({"odd name-1": range(4), "nested": nested, "v": vectors}), uri, max_rows_per_file=2
    )
    table = open_table(uri)

    every = table.search([6.0, 7.0], k=2).to_arrow()
    some = table.search(
        [6.0, 7.0], k=2, columns=["nested.y", "_distance", "`odd name-1`", "_rowaddr"]
    ).to_arrow()

    assert every.schema.names == ["odd name-1", "nested", "v", "_distance"]
    assert every["odd name-1"].to_pylist() == [3, 2]
    assert some.to_pydict() == {
        "nested.y": ["3", "2"],
        "_distance": [0.0, 8.0],
        "`odd name-1`": [3, 2],
        "_rowaddr": [(1 << 32) + 1, 1 << 32],
    }


@pytest.fixture(scope="module")
def clustered(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An index of three segments for each of two quantized kinds."""
    uri = str(tmp_path_factory.mktemp("clustered") / "table.lance")
    write_vector_table(uri, ["product", "bits"], rows=4_000)
    table = open_table(uri)
    requests = (
        lw.IndexRequest(
            column="product",
            kind="ivf_pq",
            segments=3,
            parameters={"num_partitions": 4, "num_sub_vectors": 16, "metric": "cosine", "max_iters": 5},
        ),
        lw.IndexRequest(column="bits", kind="ivf_rq", segments=3, parameters={"num_partitions": 4}),
    )
    table.create_indexes(requests)
    return uri


@pytest.mark.parametrize("refine_factor", [None, 3])
@pytest.mark.parametrize(("column", "metric"), [("product", "cosine"), ("bits", "l2")])
def test_quantized_segments_give_the_rows_and_distances_that_lance_gives_over_all_of_them(
    clustered: str, column: str, metric: str, refine_factor: int | None
) -> None:
    queries = clustered_vectors(20, seed=4)
    options = {"nprobes": 4, "refine_factor": refine_factor}

    ours = open_table(clustered).search(queries, column=column, columns=["id"], **options).to_arrow()

    theirs = nearest(lance.dataset(clustered), column, queries, metric=metric, **options)
    ours = ours.sort_by([(name, "ascending") for name in ("query_index", "_distance", "id")])
    for name in ("query_index", "_distance"):
        assert ours[name].to_pylist() == theirs[name].to_pylist()
    if refine_factor is not None:  # estimates are often equal, and then Lance returns either
        assert ours["id"].to_pylist() == theirs["id"].to_pylist()


def test_estimated_distances_are_measured_again_beside_exact_ones(clustered: str, tmp_path: Path) -> None:
    table = open_table(clustered)
    rows = lance.dataset(clustered).to_table(limit=40)
    uri = str(tmp_path / "more.lance")
    lance.write_dataset(lance.dataset(clustered).to_table(), uri, max_rows_per_file=1_000)
    open_table(uri).create_index("product", kind="ivf_pq", num_partitions=2, num_sub_vectors=16, max_iters=5)
    lance.write_dataset(rows, uri, mode="append")
    query = clustered_vectors(1, seed=5)[0]

    search = open_table(uri).search(query, column="product", k=20, columns=["id"], nprobes=2)

    exact = table.search(
        query, column="product", k=4_000, columns=["id"], use_index=False, metric="l2"
    ).to_arrow()
    distances = dict(answered(exact))
    for id_, distance in answered(search.to_arrow()):
        assert distance == pytest.approx(distances[id_], rel=1e-4)
    assert any(note.reason is SearchReason.RESCORED for note in search.plan().notes)


def test_a_frame_of_queries_is_joined_with_the_rows_nearest_to_each(tmp_path: Path) -> None:
    uri = write_rows(tmp_path)
    add_vector_index(uri, [[0], [1]])
    vectors = [[float(x) for x in row] for row in np.random.default_rng(1).normal(size=(5, WIDTH))]
    queries = pa.table({"name": [*"abcde", "none"], "like": [*vectors, None]})
    table = open_table(uri)

    for frame in (queries, queries.to_pandas()):
        joined = table.search(frame, k=3, columns=["id"], nprobes=ALL_PROBES).to_arrow()
        assert joined.schema.names == ["name", "like", "id", "_distance"]
        assert joined["name"].to_pylist() == [name for name in "abcde" for _ in range(3)]
        for number, vector in enumerate(vectors):
            assert_nearest(uri, joined.slice(3 * number, 3), np.array(vector), 3)


def test_a_search_sees_the_version_it_was_made_on(tmp_path: Path) -> None:
    uri = write_rows(tmp_path)
    search = open_table(uri).search(QUERY, k=5, columns=["id"])
    before = nearest_rows(uri, QUERY, 5)
    lance.dataset(uri).delete("true")

    assert answered(search.to_arrow()) == before
    assert len(open_table(uri).search(QUERY, columns=["id"]).to_arrow()) == 0
    assert answered(open_table(uri).search(QUERY, k=5, columns=["id"], version=1).to_arrow()) == before


def test_segments_and_fragments_are_dealt_out_to_no_more_tasks_than_run_at_once(tmp_path: Path) -> None:
    uri = write_rows(tmp_path, fragments=8)
    add_vector_index(uri, [[0], [1], [2], [3], [4]])
    request = VectorRequest(vectors=QUERY.reshape(1, -1), batch=False, scope=Scope(), tuning=VectorTuning())

    plan = plan_search(open_table(uri).snapshot(), request, 3)

    assert sorted(len(group.parts) for group in plan.segment_groups) == [1, 2, 2]
    assert [group.fragments for group in plan.fragment_groups] == [(5, 6, 7)]
    assert fragment_numbers(uri) == sorted(fragment for group in plan.groups for fragment in group.fragments)


@pytest.mark.parametrize("kind", ["ivf_flat", "ivf_sq", "ivf_hnsw_flat"])
def test_rows_that_a_compaction_took_away_take_no_places(tmp_path: Path, kind: str) -> None:
    """With stable row ids nothing in the index is rewritten; Lance itself finds none of the rows that are left."""
    uri = write_rows(tmp_path, 800, stable_row_ids=True, nulls=False)
    table = open_table(uri)
    table.create_index("vector", kind=kind, num_partitions=1)
    gone = [id_ for id_, _ in nearest_rows(uri, QUERY, 300)]
    lance.dataset(uri).delete(f"id IN ({', '.join(map(str, gone))})")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=2_000)
    alone = lance.dataset(uri).to_table(nearest={"column": "vector", "q": QUERY.astype("f4"), "k": 10})
    assert len(alone) < 10, "Lance has mended it: say so in docs/guides/search.md"

    for k in (1, 10, 450):
        found = table.search(QUERY, k=k, columns=["id"], nprobes=ALL_PROBES).to_arrow()

        assert found.num_rows == k
        if kind != "ivf_sq":  # whose distances are estimates
            assert_nearest(uri, found, QUERY, k)
