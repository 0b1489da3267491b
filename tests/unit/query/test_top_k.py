"""The best rows of several answers are the same whatever their order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lancewright.query.search.fusion import RELEVANCE, fuse_ranks
from lancewright.query.search.top_k import keep_best

ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([0.0, 0.5, 1.0, 2.0, float("inf")]), st.integers(0, 9)),
    max_size=40,
)


def table(rows: list[tuple[int, float, int]]) -> pa.Table:
    queries, ranks, ids = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            "query": pa.array(queries, pa.int32()),
            "rank": pa.array(ranks, pa.float32()),
            "_rowid": pa.array(ids, pa.uint64()),
        }
    )


@given(ROWS, st.integers(1, 5), st.booleans(), st.randoms(use_true_random=False))
def test_each_query_keeps_its_k_best_rows_once_each_with_ties_by_row_id(
    rows: list[tuple[int, float, int]], k: int, descending: bool, random: object
) -> None:
    sign = -1 if descending else 1
    expected = []
    for query in sorted({row[0] for row in rows}):
        best: dict[int, float] = {}
        for _, rank, id_ in sorted((row for row in rows if row[0] == query), key=lambda row: sign * row[1]):
            best.setdefault(id_, rank)
        ranked = sorted((sign * rank, id_) for id_, rank in best.items())[:k]
        expected += [(query, sign * rank, id_) for rank, id_ in ranked]
    random.shuffle(rows)  # type: ignore[attr-defined] # Hypothesis types it loosely

    kept = keep_best(table(rows), "rank", k, descending=descending)

    assert list(zip(*(kept[name].to_pylist() for name in kept.schema.names), strict=True)) == expected


def test_nan_ranks_last_in_both_directions() -> None:
    rows = table([(0, float("nan"), 1), (0, 5.0, 2), (0, 7.0, 3)])

    assert keep_best(rows, "rank", 2, descending=False)["_rowid"].to_pylist() == [2, 3]
    assert keep_best(rows, "rank", 2, descending=True)["_rowid"].to_pylist() == [3, 2]


def ranking(name: str, ids: list[int]) -> pa.Table:
    return pa.table(
        {
            name: pa.array(np.arange(len(ids)), pa.float32()),
            "_rowid": pa.array(ids, pa.uint64()),
            "_rowaddr": pa.array([id_ + 100 for id_ in ids], pa.uint64()),
        }
    )


def test_a_row_counts_the_reciprocal_of_its_rank_in_each_ranking() -> None:
    fused = fuse_ranks(ranking("_distance", [4, 8, 2]), ranking("_score", [8, 6]), k=3, constant=60)

    assert fused["_rowid"].to_pylist() == [8, 4, 6]
    assert fused[RELEVANCE].to_pylist() == [1 / 62 + 1 / 61, 1 / 61, 1 / 62]
    assert fused["_distance"].to_pylist() == [1.0, 0.0, None]
    assert fused["_score"].to_pylist() == [0.0, None, 1.0]
    assert fused["_rowaddr"].to_pylist() == [108, 104, 106]


def test_equal_sums_go_to_the_lower_row_id() -> None:
    fused = fuse_ranks(ranking("_distance", [9, 3]), ranking("_score", [3, 9]), k=5, constant=1)

    assert fused["_rowid"].to_pylist() == [3, 9]


def test_nothing_fused_with_nothing_is_nothing() -> None:
    assert len(fuse_ranks(ranking("_distance", []), ranking("_score", []), k=5, constant=60)) == 0
