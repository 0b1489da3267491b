"""An index that cannot be read makes a vector search slower and not wrong; strict=True refuses it instead."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancewright as lw
from support.searching import (
    ALL_PROBES,
    WIDTH,
    add_text_index,
    add_vector_index,
    answered,
    assert_nearest,
    nearest_rows,
    write_rows,
)
from support.vectors import clustered_vectors, nearest, write_vector_table

QUERY = np.arange(WIDTH) - 3.5


def damage(uri: str, segment: str, name: str, keep: float) -> None:
    """Cut a file of a segment, or remove it."""
    path = Path(uri, "_indices", segment, name)
    content = path.read_bytes()
    if keep:
        path.write_bytes(content[: int(len(content) * keep)])
    else:
        path.unlink()


@pytest.mark.parametrize("keep", [0.5, 0], ids=["truncated", "missing"])
@pytest.mark.parametrize("name", ["index.idx", "auxiliary.idx"])
def test_a_damaged_segment_is_searched_around_and_named(tmp_path: Path, name: str, keep: float) -> None:
    uri = write_rows(tmp_path)
    segments = add_vector_index(uri, [[0], [1], [2]])
    damage(uri, segments[1], name, keep)
    table = lw.open(uri, progress=False)

    search = table.search(QUERY, k=50, columns=["id"], nprobes=ALL_PROBES)

    assert_nearest(uri, search.to_arrow(), QUERY, 50)
    assert f"BROKEN_SEGMENT             {segments[1]}" in str(search.explain())
    with pytest.raises(lw.CorruptIndexError, match="'vectors' cannot be read"):
        table.search(QUERY, k=50, strict=True).to_arrow()


def test_beside_a_damaged_segment_the_others_measure_their_candidates_again(tmp_path: Path) -> None:
    uri = str(tmp_path / "table.lance")
    write_vector_table(uri, ["product"], rows=2_400)
    table = lw.open(uri, progress=False)
    table.create_index(
        "product", kind="ivf_pq", segments=3, num_partitions=2, num_sub_vectors=16, max_iters=5
    )
    damage(uri, table.indexes()[0].segments[0].uuid, "auxiliary.idx", 0.5)
    query = clustered_vectors(1, seed=3)

    found = table.search(query[0], k=20, columns=["id"], nprobes=2).to_arrow()

    exact = nearest(lance.dataset(uri), "product", query, k=2_400, use_index=False, metric="l2")
    distances = dict(zip(exact["id"].to_pylist(), exact["_distance"].to_pylist(), strict=True))
    for id_, distance in answered(found):
        assert distance == pytest.approx(distances[id_], rel=1e-4)


@pytest.mark.parametrize("keep", [0.5, 0], ids=["truncated", "missing"])
@pytest.mark.parametrize("where", [None, "id % 3 = 1", "id IN (3, 7, 11)"])
def test_around_a_damaged_text_index_the_texts_are_cut_as_it_did(
    tmp_path: Path, keep: float, where: str | None
) -> None:
    uri = write_rows(tmp_path)
    segments = add_text_index(uri, [[0, 1], [2, 3]], stem=False)
    lance.dataset(uri).delete("id % 10 = 3")
    table = lw.open(uri, progress=False)
    before = table.search(text="alpha beta", k=500, columns=["id"], where=where).to_arrow()
    damage(uri, segments[0], "part_0_docs.lance", keep)

    search = table.search(text="alpha beta", k=500, columns=["id"], where=where)

    after = search.to_arrow()
    assert sorted(after["id"].to_pylist()) == sorted(before["id"].to_pylist())
    assert "READ_WHOLE" in str(search.explain())
    with pytest.raises(lw.CorruptIndexError, match="'texts' cannot be read"):
        table.search(text="alpha beta", strict=True).to_arrow()
    both = table.hybrid_search(QUERY, "alpha", k=5, columns=["id"])
    assert both.to_arrow().num_rows == 5
    assert "READ_WHOLE" in str(both.explain())


def test_a_text_index_of_which_nothing_says_how_it_cuts_is_refused(tmp_path: Path) -> None:
    uri = write_rows(tmp_path)
    (segment,) = add_text_index(uri, [[0, 1, 2, 3]])
    for name in ("part_0_docs.lance", "metadata.lance"):
        damage(uri, segment, name, 0.5)

    with pytest.raises(lw.CorruptIndexError, match="how it cuts texts into words is lost"):
        lw.open(uri, progress=False).search(text="alpha").to_arrow()


@pytest.mark.parametrize("kind", ["IVF_HNSW_FLAT", "IVF_HNSW_SQ"])
def test_graphs_that_a_deferred_compaction_went_over_are_not_asked(tmp_path: Path, kind: str) -> None:
    uri = write_rows(tmp_path, 600, nulls=False)
    add_vector_index(uri, [[0, 1], [2, 3]], kind=kind)
    lance.dataset(uri).delete("id % 10 = 3")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=300, defer_index_remap=True)
    with pytest.raises(Exception, match="HNSW graph"):
        lance.dataset(uri).to_table(nearest={"column": "vector", "q": QUERY.astype("f4"), "k": 3})

    search = lw.open(uri, progress=False).search(QUERY, k=40, columns=["id"])

    assert answered(search.to_arrow()) == nearest_rows(uri, QUERY, 40)
    assert "NOT_TRUSTED" in str(search.explain())


def test_a_graph_that_ends_early_does_not_cut_the_answer_short(tmp_path: Path) -> None:
    """Between clusters that lie far apart a sparse graph has no way: Lance itself returns a part of the rows."""
    # Lance draws a graph by chance; most of these have no way from the first cluster to the others.
    graphs = (_write_clusters(tmp_path / f"clusters-{place}.lance") for place in range(20))
    uri = next((uri for uri in graphs if _count_found(uri) < 800), None)
    assert uri is not None, "every graph leads everywhere"

    search = lw.open(uri, progress=False).search(QUERY, k=800, columns=["id"])

    assert_nearest(uri, search.to_arrow(), QUERY, 800)
    assert "FEWER_THAN_K" in str(search.explain())


def _write_clusters(path: Path) -> str:
    random = np.random.default_rng(0)
    vectors = np.concatenate([random.normal(size=(100, WIDTH)) + 1_000 * place for place in range(8)])
    random.shuffle(vectors)
    rows = pa.FixedSizeListArray.from_arrays(pa.array(vectors.astype("f4").ravel()), WIDTH)
    lance.write_dataset(pa.table({"id": range(800), "vector": rows}), str(path), max_rows_per_file=400)
    add_vector_index(str(path), [[0, 1]], kind="IVF_HNSW_FLAT", m=4, ef_construction=4)
    return str(path)


def _count_found(uri: str) -> int:
    nearest = {"column": "vector", "q": QUERY.astype("f4"), "k": 800}
    return len(lance.dataset(uri).to_table(nearest=nearest))
