"""Keeps the best rows of several answers. Pure, and the same whatever the order of the answers: ties go to the lower row id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


def keep_best(rows: pa.Table, rank: str, k: int, *, descending: bool) -> pa.Table:
    """The ``k`` best rows by a column, best first; with a column ``query``, of each query, in the order of the queries.

    A row that comes twice counts once, with its better rank. NaN ranks last.
    """
    ranks = rows[rank].to_numpy().astype("f8")
    ids = rows["_rowid"].to_numpy()
    queries = (
        rows["query"].to_numpy() if "query" in rows.schema.names else np.zeros(len(rows), dtype=np.int32)
    )
    order = np.lexsort((ids, -ranks if descending else ranks, queries))
    order = order[_first_of_each(queries[order], ids[order])]
    return rows.take(order[_place_in_run(queries[order]) < k])


def _first_of_each(queries: NDArray[np.int32], ids: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Where a row id comes up for the first time in its query."""
    by_id = np.lexsort((np.arange(len(ids)), ids, queries))
    repeated = np.zeros(len(ids), dtype=bool)
    repeated[1:] = (ids[by_id][1:] == ids[by_id][:-1]) & (queries[by_id][1:] == queries[by_id][:-1])
    first = np.ones(len(ids), dtype=bool)
    first[by_id] = ~repeated
    return first


def _place_in_run(queries: NDArray[np.int32]) -> NDArray[np.int64]:
    """For ascending numbers, how many equal ones stand before each."""
    places = np.arange(len(queries))
    starts = (
        np.concatenate(([True], queries[1:] != queries[:-1])) if len(queries) else np.zeros(0, dtype=bool)
    )
    begun = np.maximum.accumulate(np.where(starts, places, 0)) if len(queries) else places
    result: NDArray[np.int64] = places - begun
    return result
