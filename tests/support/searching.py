"""What a search has to return, computed by NumPy from the rows themselves, and tables to search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

WIDTH = 8
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
# Every partition of a small index.
ALL_PROBES = 64


def vector_rows(ids: Sequence[int], *, seed: int = 0, dtype: str = "f4", nulls: bool = True) -> pa.Table:
    """Rows with a vector of small whole numbers, exact in every type; about one in ten is NULL."""
    random = np.random.default_rng([seed, len(ids), int(ids[0]) if len(ids) else 0])
    low, high = (0, 16) if dtype == "u1" else (-8, 8)
    vectors = random.integers(low, high, (len(ids), WIDTH)).astype(dtype)
    holes = pa.array(random.random(len(ids)) < (0.1 if nulls else 0))
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "group": pa.array([int(id_) % 7 for id_ in ids], pa.int64()),
            "text": pa.array([" ".join(random.choice(WORDS, random.integers(1, 6))) for _ in ids]),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), WIDTH, mask=holes),
        }
    )


def write_rows(
    path: Path, count: int = 240, *, fragments: int = 4, stable_row_ids: bool = False, **options: Any
) -> str:
    """A table of equal fragments; returns its place."""
    uri = str(path / "table.lance")
    lance.write_dataset(
        vector_rows(range(count), **options),
        uri,
        max_rows_per_file=max(1, count // fragments),
        enable_stable_row_ids=stable_row_ids,
    )
    return uri


def add_vector_index(
    uri: str,
    groups: Iterable[Sequence[int]],
    *,
    metric: str = "l2",
    kind: str = "IVF_FLAT",
    **parameters: Any,
) -> list[str]:
    """One segment over each group of fragments, with partitions of its own; returns the segments' ids."""
    dataset = lance.dataset(uri)
    is_bytes = pa.types.is_uint8(dataset.schema.field("vector").type.value_type)
    segments = []
    for number, group in enumerate(groups):
        # Centroids are floats; of bytes Lance has to train its own.
        centroids = np.random.default_rng(number).integers(-8, 8, (3, WIDTH)).astype("f4")
        model = {} if is_bytes else {"ivf_centroids": centroids}
        segments.append(
            dataset.create_index_uncommitted(
                "vector",
                kind,
                name="vectors",
                replace=True,
                metric=metric,
                num_partitions=len(centroids),
                fragment_ids=list(group),
                **model,
                **parameters,
            )
        )
    dataset.commit_existing_index_segments("vectors", "vector", segments)
    return [str(segment.uuid) for segment in segments]


def add_text_index(uri: str, groups: Iterable[Sequence[int]], **parameters: Any) -> list[str]:
    """One segment over each group of fragments; returns the segments' ids."""
    dataset = lance.dataset(uri)
    options = {"with_position": True, "stem": False, "remove_stop_words": False, **parameters}
    segments = [
        dataset.create_index_uncommitted(
            "text", "INVERTED", name="texts", replace=True, fragment_ids=list(group), **options
        )
        for group in groups
    ]
    dataset.commit_existing_index_segments("texts", "text", segments)
    return [str(segment.uuid) for segment in segments]


def fragment_numbers(uri: str) -> list[int]:
    """The fragments of the latest version."""
    return [fragment.fragment_id for fragment in lance.dataset(uri).get_fragments()]


def true_distances(metric: str, query: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Lance's measures, by their definitions."""
    if metric == "hamming":
        return np.bitwise_count(vectors ^ query.astype(vectors.dtype)).sum(axis=1).astype("f8")
    left, right = vectors.astype("f8"), query.astype("f8")
    if metric == "l2":
        return np.asarray(((left - right) ** 2).sum(axis=1))
    products = left @ right
    if metric == "dot":
        return np.asarray(1 - products)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(1 - products / (np.linalg.norm(left, axis=1) * np.linalg.norm(right)))


def live_vectors(uri: str, where: str | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids, row ids and vectors of the rows that have one, read without any index."""
    found = lance.dataset(uri).to_table(
        columns=["id", "vector"], with_row_id=True, filter=where, use_scalar_index=False
    )
    found = found.filter(found["vector"].is_valid())
    values = found["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return found["id"].to_numpy(), found["_rowid"].to_numpy(), values.reshape(-1, WIDTH)


def nearest_rows(
    uri: str, query: np.ndarray, k: int, *, metric: str = "l2", where: str | None = None
) -> list[tuple[int, float]]:
    """Id and distance of the nearest rows, equal distances by row id."""
    ids, row_ids, vectors = live_vectors(uri, where)
    distances = true_distances(metric, query, vectors)
    order = np.lexsort((row_ids, distances))[:k]
    return [(int(ids[place]), float(distances[place])) for place in order]


def answered(found: pa.Table) -> list[tuple[int, float]]:
    """Id and distance of an answer's rows."""
    return list(zip(found["id"].to_pylist(), found["_distance"].to_pylist(), strict=True))


def assert_nearest(
    uri: str,
    found: pa.Table,
    query: np.ndarray,
    k: int,
    *,
    metric: str = "l2",
    where: str | None = None,
    tolerance: float = 1e-5,
) -> None:
    """Every row is as far away as it is said to be, none comes twice, and none that is nearer is missing.

    Which of several rows at the last distance are returned is left open.
    """
    ids, _, vectors = live_vectors(uri, where)
    every = dict(zip(ids.tolist(), true_distances(metric, query, vectors).tolist(), strict=True))
    rows = answered(found)
    assert len({id_ for id_, _ in rows}) == len(rows), "a row came twice"
    assert all(id_ in every for id_, _ in rows), "a row came that must not"
    np.testing.assert_allclose(
        [distance for _, distance in rows], [every[id_] for id_, _ in rows], rtol=tolerance, atol=tolerance
    )
    best = sorted(every.values())[:k]
    np.testing.assert_allclose([distance for _, distance in rows], best, rtol=tolerance, atol=tolerance)
