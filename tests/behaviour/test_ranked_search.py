"""A search goes through an index of our own that ranks, around one that cannot be asked, and says which it was."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancewright as lw
from lancewright.kinds.contract import Hits, IndexKind
from lancewright.kinds.hnsw.kind import HnswKind
from lancewright.kinds.plugins import PLUGINS, register_kind
from lancewright.kinds.segment.store import BLOCKS
from lancewright.kinds.spatial.kind import SpatialKind, SpatialReader
from lancewright.query import prefilter
from lancewright.query.resolve import ScanRequest
from lancewright.query.search import kind_plan, rankers
from lancewright.query.search.open_segments import SEGMENTS
from lancewright.sql_verbs.functions import FunctionCall, answer_call
from support.eager_scans import EAGER
from support.ranked_worlds import RankedWorld, best_rows, found_rows, true_metres
from support.searching import nearest_rows, vector_rows, write_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = (10.0, 50.0)
BOTH = ["lon", "lat"]


@pytest.fixture
def world(tmp_path: Path) -> RankedWorld:
    made = RankedWorld(tmp_path, 4)
    made.index(BOTH, "spatial", "places")
    made.index("vector", "hnsw", "graph")
    return made


@pytest.fixture
def kinds() -> Iterator[None]:
    """What a test registers is gone after it."""
    yield
    for name in ("spatial", "hnsw", "nearest"):
        PLUGINS.unregister(name)
    forget()


def forget() -> None:
    BLOCKS.clear()
    SEGMENTS.clear()


def places_of(world: RankedWorld, k: int, where: str | None = None) -> list[tuple[int, float]]:
    rows = world.rows(where)
    return best_rows(rows, true_metres(rows, HERE), k)


def assert_near(world: RankedWorld, search: lw.Search, k: int = 9, where: str | None = None) -> str:
    """The answer is what looking at every row finds; what explain says of it after the run."""
    found, expected = found_rows(search.to_arrow()), places_of(world, k, where)
    assert [id_ for id_, _ in found] == [id_ for id_, _ in expected]
    np.testing.assert_allclose([far for _, far in found], [far for _, far in expected], rtol=1e-9, atol=1e-3)
    return search.explain().to_text()


def reasons(search: lw.Search) -> dict[str, str]:
    return {line.index: line.reason for line in search.explain().indexes}


def damage(world: RankedWorld, name: str, file: str) -> None:
    segment = world.table.snapshot().segments_named(name)[0]
    path = Path(world.uri) / "_indices" / segment.uuid / file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)
    forget()


def test_a_place_is_searched_through_the_spatial_index_and_explain_says_so(world: RankedWorld) -> None:
    said = assert_near(world, world.table.search(near=HERE, k=9))

    assert "index places (spatial)  best 9 by lon, lat  nearest to longitude 10, latitude 50" in said
    assert "segments 2 of 2" in said
    assert "index graph (hnsw)      not used  QUERY_NOT_ACCEPTED" in said
    assert said.count("rows by index") == 2


def test_what_a_search_through_a_kind_took_is_told_of_each_task(world: RankedWorld) -> None:
    lance.write_dataset(pa.table({"id": [999], "lon": [10.0], "lat": [50.0]}), world.uri, mode="append")
    forget()

    told = world.table.search(near=HERE, k=9, where="g IN (1, 2) OR id = 999").explain(analyze=True)

    assert [(task.way, bool(task.segments), task.fragments > 0) for task in told.tasks] == [
        ("by index", True, True),
        ("by index", True, True),
        ("exactly", False, True),
    ]
    assert all(task.measured is not None and task.measured.read_bytes > 0 for task in told.tasks)
    assert told.measured is not None
    assert told.measured.rows == 9
    assert told.measured.tasks == 3
    assert told.measured.search_bytes == sum(task.measured.read_bytes for task in told.tasks if task.measured)
    assert told.where == "g IN (1, 2) OR id = 999"
    assert {line.index: line.role for line in told.indexes} == {"places": "ranking", "graph": "ranking"}
    assert {note.reason.value for note in told.notes} == {"NOT_COVERED", "FILTER_CHECKED"}
    assert told.to_arrow().num_rows == 2


def test_the_files_of_segments_count_until_they_are_at_hand(world: RankedWorld) -> None:
    forget()
    search = world.table.search(near=HERE, k=9, columns=["id"])

    cold, warm = search.explain(analyze=True).measured, search.explain(analyze=True).measured

    assert cold is not None
    assert warm is not None
    assert cold.search_bytes > warm.search_bytes


def test_without_an_index_none_is_said_to_be_used(world: RankedWorld) -> None:
    search = world.table.search(near=HERE, k=9, use_index=False)

    assert reasons(search)["places"] == "DISABLED"
    assert {task.way for task in search.explain().tasks} == {"exactly"}


def test_the_answer_has_the_columns_asked_for_and_the_schema_is_known_before(world: RankedWorld) -> None:
    search = world.table.search(near=HERE, k=3, columns=["g", "_distance", "_rowid", "id"])

    found = search.to_arrow()

    assert found.schema == search.schema()
    assert found.column_names == ["g", "_distance", "_rowid", "id"]
    assert world.table.search(near=HERE, k=3).to_arrow().column_names[-1] == "_distance"
    assert repr(search).endswith("by near")


def test_places_are_ranked_without_an_index_when_their_columns_are_named(world: RankedWorld) -> None:
    world.table.drop_index("places")

    said = assert_near(world, world.table.search(near=HERE, column=BOTH, k=9, columns=["id"]))

    assert "NO_INDEX" in said


def test_rows_outside_the_index_rank_beside_those_in_it_or_are_left_out(world: RankedWorld) -> None:
    lance.write_dataset(pa.table({"id": [999], "lon": [10.0], "lat": [50.0]}), world.uri, mode="append")

    said = assert_near(world, world.table.search(near=HERE, k=9, columns=["id"]))
    fast = world.table.search(near=HERE, k=9, columns=["id"], fast=True)

    assert "1 fragments with 1 rows outside the index are ranked one by one" in said
    assert 999 not in fast.to_arrow()["id"].to_pylist()
    assert "LEFT_OUT" in fast.explain().to_text()


@pytest.mark.parametrize("where", ["g = 3", "g IN (1, 2) OR id < 7", "lat > 0 AND lon > 0", "id < 0"])
def test_a_filter_restricts_rows_before_they_are_ranked(world: RankedWorld, where: str) -> None:
    assert_near(world, world.table.search(near=HERE, k=9, where=where), where=where)


def test_rows_that_indexes_name_are_all_that_may_be_found(
    world: RankedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefilter, "ScanRequest", partial(ScanRequest, settings=EAGER))
    world.table.create_index(["g", "id"], kind="composite")

    said = assert_near(world, world.table.search(near=HERE, k=9, where="g = 3"), where="g = 3")

    assert "FILTER_ANSWERED" in said


def test_a_damaged_segment_is_searched_around_unless_that_is_refused(world: RankedWorld) -> None:
    damage(world, "places", "entries")

    said = assert_near(world, world.table.search(near=HERE, k=9))

    assert "BROKEN_SEGMENT" in said
    told = world.table.search(near=HERE, k=9).explain(analyze=True)
    places = next(line for line in told.indexes if line.index == "places")
    assert (places.reason, places.used) == ("BROKEN_SEGMENT", True)
    with pytest.raises(lw.CorruptIndexError, match="cannot be asked"):
        world.table.search(near=HERE, k=9, strict=True).to_arrow()


def test_a_damaged_graph_is_searched_around_unless_that_is_refused(world: RankedWorld) -> None:
    vector = [1.0, 2.0, 3.0, 4.0]
    before = world.table.search(vector, index="graph", k=300, columns=["id"]).to_arrow()
    damage(world, "graph", "graph")

    search = world.table.search(vector, index="graph", k=300, columns=["id"])

    assert search.to_arrow() == before
    assert "BROKEN_SEGMENT" in search.explain().to_text()
    with pytest.raises(lw.CorruptIndexError, match="cannot be asked"):
        world.table.search(vector, index="graph", k=300, strict=True).to_arrow()


def test_a_segment_of_a_newer_format_is_searched_around(tmp_path: Path, kinds: None) -> None:
    class Newer(SpatialKind):
        writes = 2
        reads = frozenset({1, 2})

    register_kind(Newer, replace=True)
    world = RankedWorld(tmp_path, 6)
    world.index(BOTH, "spatial", "places")
    PLUGINS.unregister("spatial")

    said = assert_near(world, world.table.search(near=HERE, k=9))

    assert "FORMAT_TOO_NEW" in said
    assert "NO_COVERAGE" in said
    with pytest.raises(lw.UnsupportedError, match="FORMAT_TOO_NEW"):
        world.table.search(near=HERE, k=9, strict=True)


def test_without_its_library_the_graph_is_passed_over(
    world: RankedWorld, monkeypatch: pytest.MonkeyPatch, kinds: None
) -> None:
    vector = [1.0, 2.0, 3.0, 4.0]
    before = world.table.search(vector, index="graph", k=300, columns=["id"]).to_arrow()
    forget()
    monkeypatch.setitem(sys.modules, "usearch", None)

    search = world.table.search(vector, index="graph", k=300, columns=["id"])

    assert search.to_arrow() == before
    assert "NO_PLUGIN" in search.explain().to_text()
    with pytest.raises(lw.UnsupportedError, match=r"lancewright\[hnsw\]"):
        world.table.search(vector, index="graph", k=3, strict=True).to_arrow()
    with pytest.raises(lw.UnsupportedError, match=r"lancewright\[hnsw\]"):
        world.table.create_index("vector", kind="hnsw", name="another")


def test_an_index_whose_kind_is_not_installed_cannot_rank(tmp_path: Path, kinds: None) -> None:
    from lancewright.testing.toys import NearestKind

    register_kind(NearestKind)
    world = RankedWorld(tmp_path, 5)
    world.index("number", "nearest", "numbers")
    PLUGINS.unregister("nearest")

    with pytest.raises(lw.UnsupportedError, match="NO_PLUGIN"):
        world.table.search(query={"near": 0.5}, index="numbers")


@pytest.mark.parametrize("where", [None, "g < 6"])
def test_rows_that_a_kind_leaves_out_are_found_all_the_same(
    world: RankedWorld, kinds: None, where: str | None
) -> None:
    class Lazy(SpatialKind):
        def open(self, spec: Any, store: Any) -> Any:
            del spec
            return LazyReader(store)

    class LazyReader(SpatialReader):
        def search(self, *given: Any) -> Hits:
            hits = super().search(*given)
            return Hits(rows=hits.rows[:2], scores=hits.scores[:2])

    register_kind(Lazy, replace=True)

    said = assert_near(world, world.table.search(near=HERE, k=9, where=where), where=where)

    assert "FEWER_THAN_K" in said


@pytest.mark.parametrize("wrong", ["forbidden", "twice", "nan", "many", "far"])
def test_a_kind_that_breaks_its_word_is_searched_around(world: RankedWorld, kinds: None, wrong: str) -> None:
    class Wrong(SpatialKind):
        def open(self, spec: Any, store: Any) -> Any:
            del spec
            return WrongReader(store)

    class WrongReader(SpatialReader):
        def search(self, probe: Any, statistics: Any, k: int, allow: Any) -> Hits:
            hits = super().search(probe, statistics, k, None if wrong == "forbidden" else allow)
            rows, scores = hits.rows.copy(), hits.scores.copy()
            if wrong == "twice":
                rows[-1] = rows[0]
            if wrong == "nan":
                scores[0] = np.nan
            if wrong == "many":
                rows, scores = np.append(rows, 119), np.append(scores, 1e9)
            if wrong == "far":
                rows[-1] = 10**6
            return Hits(rows=rows.astype(np.uint32), scores=scores)

    register_kind(Wrong, replace=True)

    said = assert_near(world, world.table.search(near=HERE, k=9, where="g < 3"), where="g < 3")

    assert "BROKEN_SEGMENT" in said


def test_a_kind_that_ranks_only_what_it_built_is_not_given_more_than_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kinds: None
) -> None:
    from lancewright.testing.toys import NearestKind

    class Unscored(NearestKind):
        score = IndexKind.score

    register_kind(Unscored)
    world = RankedWorld(tmp_path, 5)
    world.index("number", "nearest", "numbers")
    world._append()
    monkeypatch.setattr(kind_plan, "BUILT_ROWS_MAX", 3)

    with pytest.raises(lw.UnsupportedError, match="More than 3 rows are outside the index"):
        world.table.search(query={"near": 0.5}, index="numbers")
    assert len(world.table.search(query={"near": 0.5}, index="numbers", k=4, fast=True).to_arrow()) == 4


def test_vectors_go_through_the_only_index_on_their_column_or_the_one_that_is_named(tmp_path: Path) -> None:
    uri = write_rows(tmp_path, 400, nulls=False)
    table = lw.open(uri, progress=False)
    query = np.arange(8.0)
    table.create_index("vector", kind="hnsw", name="graph")

    alone = table.search(query, k=7, columns=["id"])
    table.create_index("vector", kind="ivf_flat", name="lance", num_partitions=2)
    beside = table.search(query, k=7, columns=["id"], nprobes=2)
    named = table.search(query, k=7, columns=["id"], index="graph")

    expected = nearest_rows(uri, query, 7)
    assert reasons(alone) == {"graph": "USED"}
    assert reasons(beside)["lance"] == "USED"
    assert reasons(named) == {"graph": "USED", "lance": "OTHER_INDEX_CHOSEN"}
    for search in (alone, beside, named):
        assert sorted(search.to_arrow()["_distance"].to_pylist()) == [far for _, far in expected]


@pytest.mark.parametrize("stable", [False, True])
def test_as_many_live_rows_come_back_as_there_are(tmp_path: Path, stable: bool) -> None:
    uri = write_rows(tmp_path, 3_000, nulls=False, stable_row_ids=stable)
    table = lw.open(uri, progress=False)
    table.create_index("vector", kind="hnsw", name="graph", segments=2)
    lance.dataset(uri).delete("id % 50 != 0")
    moved = vector_rows(range(50, 60 * 50, 500), seed=3, nulls=False)
    lance.dataset(uri).merge_insert("id").when_matched_update_all().execute(moved)
    query = np.arange(8.0)

    for k in (1, 10, 59, 60, 100):
        for where in (None, "group < 3"):
            found = table.search(query, k=k, where=where, columns=["id"]).to_arrow()
            assert found_rows(found) == nearest_rows(uri, query, k, where=where)


def test_a_matrix_is_a_batch_and_every_vector_has_its_rows(tmp_path: Path) -> None:
    uri = write_rows(tmp_path, 300, nulls=False)
    table = lw.open(uri, progress=False)
    table.create_index("vector", kind="hnsw", segments=2)
    queries = np.arange(24.0).reshape(3, 8)

    search = table.search(queries, k=4, columns=["id"])
    found = search.to_arrow()

    assert "hnsw" in search.explain().to_text()
    assert found.schema == search.schema()
    for number, query in enumerate(queries):
        own = found.filter(pa.compute.equal(found["query_index"], number))
        assert found_rows(own) == nearest_rows(uri, query, 4)


def test_vectors_without_a_distance_are_never_found(tmp_path: Path) -> None:
    vectors = [[1.0, 0.0], [0.0, 0.0], [float("nan"), 1.0], [0.0, 2.0], None, [3.0, 3.0]]
    rows = pa.table({"id": range(6), "v": pa.array(vectors, pa.list_(pa.float32(), 2))})
    lance.write_dataset(rows, str(tmp_path / "t"))
    table = lw.open(str(tmp_path / "t"), progress=False)
    table.create_index("v", kind="hnsw", metric="cosine")

    found = table.search([1.0, 0.0], k=6, columns=["id"])

    assert found.to_arrow()["id"].to_pylist() == [0, 5, 3]
    assert reasons(found) == {"v_idx": "USED"}
    with pytest.raises(lw.InvalidRequestError, match="not all zero"):
        table.search([0.0, 0.0], k=6)


def test_a_filter_that_many_rows_pass_is_met_on_the_way_through_the_graph(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    count = 12_000
    vectors = random.normal(size=(count, 8)).astype("f4")
    rows = {"g": np.arange(count) % 2, "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8)}
    lance.write_dataset(pa.table(rows), str(tmp_path / "t"))
    table = lw.open(str(tmp_path / "t"), progress=False)
    table.create_index("v", kind="hnsw", m=8, ef_construction=48)
    hits = 0

    for query in vectors[:20]:
        found = table.search(query, k=10, where="g = 1", columns=["g", "_rowid"]).to_arrow()
        assert found["g"].to_pylist() == [1] * 10
        far = ((vectors - query) ** 2).sum(axis=1)
        far[::2] = np.inf
        hits += len(set(np.argsort(far)[:10].tolist()) & set(found["_rowid"].to_pylist()))

    assert hits >= 180


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"near": (1.0, 91.0)}, "is no place"),
        ({"near": "Paris"}, "is no place"),
        ({"near": (1.0, 2.0), "query": {"near": (1, 2)}}, "Several of"),
        ({"near": (1.0, 2.0), "vector": [1.0]}, "Several of"),
        ({"near": (1.0, 2.0), "nprobes": 3}, "belong to vector="),
        ({"near": (1.0, 2.0), "phrase": True}, "belong to text="),
        ({"near": (1.0, 2.0), "index": "no"}, "no such index"),
        ({"near": (1.0, 2.0), "k": 0}, "is no number of them"),
        ({"near": (1.0, 2.0), "column": ["id", "lat"], "use_index": False}, "cannot index id"),
        ({"near": (1.0, 2.0), "column": "nothing"}, "not in the table"),
        ({"query": {}}, "is no query"),
        ({"query": 7}, "query= is a int"),
        ({"query": {"vector": [1.0]}, "index": "graph"}, "is none that vector"),
        ({"query": {"vector": [1, 2, 3, "x"]}, "index": "graph"}, "is none that vector"),
        ({"vector": [1.0, 2, 3, 4], "index": "graph", "nprobes": 3}, "belong to an index of Lance"),
        ({"vector": [1.0, 2, 3, 4], "metric": "jaccard"}, "ranks by jaccard"),
        ({"vector": [1.0, 2, 3], "index": "graph"}, "3 dimensions"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_before_any_task(
    world: RankedWorld, asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(lw.InvalidRequestError, match=said):
        world.table.search(**asked)


def test_a_query_that_no_index_accepts_is_refused_with_the_reason(world: RankedWorld) -> None:
    with pytest.raises(lw.UnsupportedError, match="places: QUERY_NOT_ACCEPTED"):
        world.table.search(query={"colour": "red"}, index="places")
    with pytest.raises(lw.UnsupportedError, match="does not rank by vector, metric"):
        world.table.search([1.0, 2, 3, 4], index="graph", metric="cosine")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"metric": "jaccard"}, "not defined for vector"),
        ({"metric": "haversine"}, "not defined for vector"),
        ({"m": 1}, "m=1 is no such number"),
        ({"ef": True}, "ef=True"),
        ({"links": 3}, "no parameter 'links'"),
    ],
)
def test_a_graph_that_makes_no_sense_is_refused(
    world: RankedWorld, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(lw.InvalidRequestError, match=said):
        world.table.create_index("vector", kind="hnsw", name="other", **options)


def test_sql_asks_any_index_that_ranks(world: RankedWorld) -> None:
    call = FunctionCall(
        function="lance_index_search",
        positional=(world.uri, '{"near": [10.0, 50.0]}'),
        named={"k": 5, "columns": ["id"], "index": "places"},
    )

    assert found_rows(answer_call(call).to_arrow()) == places_of(world, 5)
    with pytest.raises(lw.InvalidRequestError, match="no JSON"):
        answer_call(FunctionCall(function="lance_index_search", positional=(world.uri, "near")))


def test_sql_explains_what_any_index_ranks(world: RankedWorld) -> None:
    options = {"query": '{"near": [10.0, 50.0]}', "k": 5, "index": "places"}

    told = answer_call(FunctionCall(function="lance_explain", positional=(world.uri,), named=options))

    expected = world.table.search(near=HERE, k=5, index="places").explain().to_arrow()
    assert told.to_arrow().equals(expected)
    with pytest.raises(lw.InvalidRequestError, match="query beside vector or text"):
        answer_call(
            FunctionCall(
                function="lance_explain", positional=(world.uri,), named={**options, "text": "alpha"}
            )
        )


def test_segments_of_the_same_rows_make_the_same_graph(tmp_path: Path) -> None:
    files = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        uri = write_rows(tmp_path / name, 200)
        lw.open(uri, progress=False).create_index("vector", kind="hnsw", segments=1)
        files.append(next(Path(uri, "_indices").glob("*/graph")).read_bytes())

    assert files[0] == files[1]
    assert HnswKind.rows_max <= rankers.BUILT_ROWS_MAX
