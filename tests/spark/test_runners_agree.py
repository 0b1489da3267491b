"""The same call makes the same indexes in this process, on classic Spark and through Spark Connect."""

from __future__ import annotations

import importlib
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pytest
from lance.query import MinHashQuery

import lancewright as lw
from support.kind_cases import CASES, FRAGMENTS, make_sentence, write_kind_table
from support.tables import DIMENSION, ids
from support.vectors import nearest, recall

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

pytestmark = pytest.mark.spark

SEGMENTS = 3
NEIGHBOURS = 10
_random = np.random.default_rng(3)
QUERIES = _random.normal(size=(50, DIMENSION)).astype("f4")
CENTROIDS = _random.normal(size=(4, DIMENSION)).astype("f4")
CODEBOOK = _random.normal(size=(8, 16, DIMENSION // 8)).astype("f4")
ROTATION = importlib.import_module("lance.lance").indices.build_rq_model(DIMENSION, num_bits=5)

# With the model given, nothing of a vector index is left to chance but the graphs.
_CODES = {"num_sub_vectors": 8, "num_bits": 4, "pq_codebook": CODEBOOK}
VECTOR_PARAMETERS: dict[str, dict[str, Any]] = {
    "ivf_flat": {},
    "ivf_pq": _CODES,
    "ivf_sq": {},
    "ivf_rq": {"num_bits": 5, "rabitq_model": ROTATION},
    "ivf_hnsw_flat": {},
    "ivf_hnsw_pq": _CODES,
    "ivf_hnsw_sq": {},
}
# SQ cannot have several segments, and RQ chooses what it looks at closely within each segment: from several it finds
# more than from one.
VECTOR_SEGMENTS = dict.fromkeys(VECTOR_PARAMETERS, SEGMENTS) | {
    "ivf_sq": None,
    "ivf_hnsw_sq": None,
    "ivf_rq": 1,
}
COPIES = ("local", "classic", "connect")


@dataclass(frozen=True)
class Copy:
    """One copy of the table and what the call that indexed it reported."""

    table: lw.Table
    receipt: lw.Receipt
    dataset: lance.LanceDataset


@pytest.fixture(scope="module")
def copies(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Copy]:
    folder = tmp_path_factory.mktemp("copies")
    base = str(folder / "base.lance")
    write_kind_table(base, vector_columns=list(VECTOR_PARAMETERS))
    sessions = {
        "local": None,
        "classic": request.getfixturevalue("spark"),
        "connect": request.getfixturevalue("connect"),
    }
    return {name: _index(base, folder / f"{name}.lance", session) for name, session in sessions.items()}


@pytest.fixture(scope="module")
def native(copies: dict[str, Copy], tmp_path_factory: pytest.TempPathFactory) -> lance.LanceDataset:
    """Vector indexes that Lance builds alone from the same models."""
    uri = str(tmp_path_factory.mktemp("native") / "native.lance")
    dataset = write_kind_table(uri, vector_columns=list(VECTOR_PARAMETERS))
    for kind, parameters in VECTOR_PARAMETERS.items():
        dataset = dataset.create_index(
            kind,
            kind.upper(),
            metric="l2",
            num_partitions=len(CENTROIDS),
            ivf_centroids=CENTROIDS,
            **parameters,
        )
    return dataset


def test_receipts_are_equal_but_for_place_and_time(copies: dict[str, Copy]) -> None:
    """Kinds, covered fragments, rows and numbers of segments: every index of the call."""
    local, classic, connect = (copies[name].receipt.indexes for name in COPIES)

    assert local == classic == connect
    assert len(local) == len(CASES) + len(VECTOR_PARAMETERS)
    assert {entry.fragments for entry in local} == {FRAGMENTS}


def test_segments_are_cut_and_described_alike(copies: dict[str, Copy]) -> None:
    """The same fragments in the same segments, of the same type and version, with the same details."""
    local, classic, connect = (_describe_segments(copies[name].table) for name in COPIES)

    assert local == classic
    assert local == connect


@pytest.mark.parametrize("case", [case for case in CASES if case.served], ids=lambda case: case.name)
def test_filters_find_the_same_rows(copies: dict[str, Copy], case: Any) -> None:
    """Whoever built the index; and a scan agrees."""
    for filter_ in (*case.served, *case.unserved):
        answers = [ids(copies[name].dataset, filter_, use_index=True) for name in COPIES]
        scanned = ids(copies["local"].dataset, filter_, use_index=False)

        assert answers == [scanned] * len(COPIES), filter_


@pytest.mark.parametrize("query", ["alpha", "beta kappa", "rare", "doc17"])
def test_full_text_search_scores_the_same(copies: dict[str, Copy], query: str) -> None:
    """Rows and scores, to the last bit."""
    local, classic, connect = (_scores(copies[name].dataset, query) for name in COPIES)

    assert local == classic == connect != {}


@pytest.mark.parametrize("number", [0, 77, 1234])
def test_near_duplicates_are_the_same(copies: dict[str, Copy], number: int) -> None:
    """Rows and estimated distances, to the last bit."""
    local, classic, connect = (_near_duplicates(copies[name].dataset, number) for name in COPIES)

    assert local == classic == connect != []


@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize("kind", [kind for kind in VECTOR_PARAMETERS if "hnsw" not in kind])
def test_a_given_model_gives_the_distances_of_a_native_index(
    copies: dict[str, Copy], native: lance.LanceDataset, kind: str, copy: str
) -> None:
    """Same centroids, codebook and rotation: the same codes, hence equal distances in every segment."""
    ours = _neighbours(copies[copy].dataset, kind)
    alone = _neighbours(native, kind)

    np.testing.assert_allclose(ours["_distance"], alone["_distance"], rtol=1e-5)
    assert _inner(ours) == _inner(alone)


@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize("kind", [kind for kind in VECTOR_PARAMETERS if "hnsw" in kind])
def test_a_graph_over_a_given_model_finds_what_a_native_one_finds(
    copies: dict[str, Copy], native: lance.LanceDataset, kind: str, copy: str
) -> None:
    """Graphs are built by several threads and differ from build to build; what a wide search finds does not."""
    ours = _neighbours(copies[copy].dataset, kind, ef=500)
    alone = _neighbours(native, kind, ef=500)

    assert recall(ours, alone) > 0.99


@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize("kind", VECTOR_PARAMETERS)
def test_given_centroids_are_those_in_the_index(copies: dict[str, Copy], kind: str, copy: str) -> None:
    """To the last bit, read back from the index files."""
    model = importlib.import_module("lance.lance").indices.get_ivf_model(
        copies[copy].dataset._ds, f"{kind}_idx"
    )

    stored = model.centroids.flatten().to_numpy().reshape(-1, DIMENSION)
    assert np.array_equal(stored, CENTROIDS)


def _index(base: str, path: Path, session: Any) -> Copy:
    shutil.copytree(base, path)
    table = lw.open(str(path), spark=session, progress=False)
    vectors = [
        lw.IndexRequest(
            column=kind,
            kind=kind,
            parameters={"ivf_centroids": CENTROIDS, "metric": "l2", **parameters},
            segments=VECTOR_SEGMENTS[kind],
        )
        for kind, parameters in VECTOR_PARAMETERS.items()
    ]
    receipt = table.create_indexes([*(case.request(SEGMENTS) for case in CASES), *vectors])
    return Copy(table, receipt, lance.dataset(str(path)))


def _describe_segments(table: lw.Table) -> dict[str, list[Any]]:
    # Lance writes the options among the details in any order.
    return {
        info.name: sorted(
            (tuple(segment.covered), segment.type_url, segment.index_version, sorted(segment.details))
            for segment in info.segments
        )
        for info in table.indexes()
    }


def _scores(dataset: lance.LanceDataset, query: str) -> dict[int, float]:
    search = {"query": query, "columns": ["inverted"]}
    found = dataset.to_table(columns=["id", "_score"], full_text_query=search, limit=10_000)
    return dict(zip(found["id"].to_pylist(), found["_score"].to_pylist(), strict=True))


def _near_duplicates(dataset: lance.LanceDataset, number: int) -> list[tuple[int, float]]:
    query = MinHashQuery(make_sentence(number), "minhash_lsh")
    found = dataset.to_table(columns=["id", "_distance"], nearest=query, limit=10_000)
    return sorted(zip(found["id"].to_pylist(), found["_distance"].to_pylist(), strict=True))


def _neighbours(dataset: lance.LanceDataset, kind: str, **options: Any) -> pa.Table:
    return nearest(dataset, kind, QUERIES, k=NEIGHBOURS, nprobes=len(CENTROIDS), **options)


def _inner(found: pa.Table) -> set[tuple[int, int]]:
    """Neighbours nearer than the last of their query: of equal distances at the end, any may be left out."""
    queries, numbers = found["query_index"].to_numpy(), found["id"].to_numpy()
    distances = found["_distance"].to_numpy().reshape(len(QUERIES), NEIGHBOURS)
    inner = (distances < distances[:, -1:] * (1 - 1e-5)).ravel()
    return set(zip(queries[inner].tolist(), numbers[inner].tolist(), strict=True))
