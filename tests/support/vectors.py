"""Vector tables with a column of its own for every vector kind, and how well a search on it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable

DIMENSION = 32
FRAGMENTS = 8
NEIGHBOURS = 10
_CLUSTERS = 64


def clustered_vectors(count: int, *, seed: int) -> np.ndarray:
    """Points around a few centres, as embeddings are; another seed gives other points around the same centres."""
    centres = np.random.default_rng(0).normal(size=(_CLUSTERS, DIMENSION))
    random = np.random.default_rng(seed)
    spread = 0.6 * random.normal(size=(count, DIMENSION))
    return (centres[random.integers(0, _CLUSTERS, count)] + spread).astype("f4")


def write_vector_table(
    uri: str, columns: Iterable[str], *, rows: int, stable_row_ids: bool = False
) -> lance.LanceDataset:
    """Write the same vectors under each name, in eight fragments; some are NULL and some rows deleted."""
    holes = np.random.default_rng(2).random(rows) < 0.02
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array(clustered_vectors(rows, seed=1).ravel()), DIMENSION, mask=pa.array(holes)
    )
    table = pa.table({"id": pa.array(range(rows), pa.int64()), **dict.fromkeys(columns, vectors)})
    lance.write_dataset(
        table, uri, max_rows_per_file=rows // FRAGMENTS, enable_stable_row_ids=stable_row_ids
    ).delete("id % 11 = 3")
    return lance.dataset(uri)


def nearest(
    dataset: lance.LanceDataset, column: str, queries: np.ndarray, *, k: int = NEIGHBOURS, **options: Any
) -> pa.Table:
    """All queries at once: ``query_index``, ``id`` and ``_distance`` of each one's neighbours, nearest first."""
    search = {"column": column, "q": queries, "k": k, **options}
    found = dataset.to_table(columns=["id", "_distance"], nearest=search)
    return found.sort_by([("query_index", "ascending"), ("_distance", "ascending"), ("id", "ascending")])


def recall(found: pa.Table, exact: pa.Table) -> float:
    """The share of the exact neighbours that were found, over all queries."""
    wanted = set(zip(exact["query_index"].to_pylist(), exact["id"].to_pylist(), strict=True))
    got = set(zip(found["query_index"].to_pylist(), found["id"].to_pylist(), strict=True))
    return len(wanted & got) / len(wanted)
