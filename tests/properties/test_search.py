"""Whatever happened to a table, a search finds what NumPy finds among its rows.

``LANCEWRIGHT_EXAMPLES`` sets the number of examples, of which a fifth is tried here (300).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lancewright as lw
from lancewright.model.row_set import row_set
from lancewright.query.prefilter import FilterRequest, choose_prefilter
from lancewright.query.search.request import (
    Prefilter,
    RowsPrefilter,
    Scope,
    VectorRequest,
    VectorTuning,
)
from lancewright.query.search.search import prepare_search
from lancewright.runtime.local_runner import LocalRunner
from lancewright.table.location import table_ref
from support.searching import (
    ALL_PROBES,
    WIDTH,
    WORDS,
    add_text_index,
    add_vector_index,
    assert_nearest,
    fragment_numbers,
    vector_rows,
    write_rows,
)

EXAMPLES = int(os.environ.get("LANCEWRIGHT_EXAMPLES", "300")) // 5
EVERYTHING = 10_000
# In half precision a flat index rounds the vectors it makes of length one for cosine.
TOLERANCE = {"f2": 2e-3}
MEASURES = [
    ("f4", "l2"),
    ("f4", "cosine"),
    ("f4", "dot"),
    ("f2", "l2"),
    ("f2", "cosine"),
    ("f8", "dot"),
    ("u1", "hamming"),
]
CONDITIONS = [
    None,
    "group < 3",
    "group = 2",
    "group NOT IN (1) OR group NOT IN (2)",
    "id % 5 = 1",
    "text LIKE '%alpha%'",
    "vector IS NOT NULL AND group != 2",
    "id < 0",
]

CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["delete", "update", "append", "index", "compact", "rewrite", "scalar", "delta"]),
        st.integers(2, 7),
    ),
    max_size=7,
)
QUERY = st.lists(st.integers(0, 15), min_size=WIDTH, max_size=WIDTH)


def apply_change(uri: str, change: str, number: int, place: int, *, dtype: str, metric: str) -> None:
    """One thing a writer does; ``number`` makes it differ."""
    dataset = lance.dataset(uri)
    match change:
        case "delete":
            dataset.delete(f"id % {number} = 1")
        case "update":
            ids = dataset.to_table(columns=["id"], filter=f"id % {number} = 0")["id"].to_pylist()
            if ids:
                dataset.merge_insert("id").when_matched_update_all().execute(
                    vector_rows(ids, seed=place + 50, dtype=dtype)
                )
        case "append":
            start = 1_000 * (place + 1)
            lance.write_dataset(
                vector_rows(range(start, start + 9 * number), dtype=dtype), uri, mode="append"
            )
        case "compact":
            deferred = number % 2 == 0 and not dataset.has_stable_row_ids
            dataset.optimize.compact_files(target_rows_per_fragment=90, defer_index_remap=deferred)
        case "rewrite":
            rewrite_in_place(uri, number, place, dtype=dtype)
        case "scalar":
            kind = "BITMAP" if number % 2 else "BTREE"
            dataset.create_scalar_index("group", kind, name="groups", replace=True)
        case "delta":
            names = [index.name for index in dataset.describe_indices()]
            dataset.optimize.optimize_indices(index_names=names, num_indices_to_merge=0) if names else None
        case "index":
            add_segments(uri, number, metric=metric)


def rewrite_in_place(
    uri: str, number: int, place: int, *, dtype: str, columns: tuple[str, ...] = ("vector", "group")
) -> None:
    """New values for one fragment, whose rows stay where they are: Lance forgets no old value."""
    dataset = lance.dataset(uri)
    fragments = dataset.get_fragments()
    fragment = fragments[number % len(fragments)]
    ids = fragment.to_table(columns=["id"])["id"].to_pylist()
    if not ids:
        return
    new = vector_rows(ids, seed=place + 70, dtype=dtype).select(["id", *columns])
    updated, fields = fragment.update_columns(new, left_on="id", right_on="id")
    operation = lance.LanceOperation.Update(updated_fragments=[updated], fields_modified=fields)
    lance.LanceDataset.commit(dataset, operation, read_version=dataset.version)


def add_segments(uri: str, number: int, *, metric: str) -> None:
    """Index some of the fragments that no segment covers, in two segments."""
    index = lw.open(uri, progress=False).snapshot().index("vectors")
    covered = {fragment for segment in index.segments for fragment in segment.covered} if index else set()
    free = [fragment for fragment in fragment_numbers(uri) if fragment not in covered]
    groups = [group for group in (free[: number - 1 : 2], free[1 : number - 1 : 2]) if group]
    if groups and lance.dataset(uri).count_rows("vector IS NOT NULL"):
        add_vector_index(uri, groups, metric=metric)


@dataclass(frozen=True, kw_only=True)
class World:
    """A table, what happened to it, and what is searched for in it."""

    measure: tuple[str, str]
    stable: bool
    size: tuple[int, int]
    changes: list[tuple[str, int]]
    queries: list[list[int]]
    k: int
    where: str | None
    as_rows: bool
    parallelism: int


WORLDS = st.builds(
    World,
    measure=st.sampled_from(MEASURES),
    stable=st.booleans(),
    size=st.sampled_from([(30, 1), (90, 3), (240, 5)]),
    changes=CHANGES,
    queries=st.lists(QUERY, min_size=1, max_size=3),
    k=st.sampled_from([1, 4, 25, EVERYTHING]),
    where=st.sampled_from(CONDITIONS),
    as_rows=st.booleans(),
    parallelism=st.integers(1, 3),
)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(world=WORLDS)
def test_the_nearest_rows_are_those_of_numpy_on_random_tables(world: World) -> None:
    dtype, metric = world.measure
    vectors = np.array(world.queries) - (0 if dtype == "u1" else 7.5)
    with TemporaryDirectory(prefix="search-") as folder:
        count, fragments = world.size
        uri = write_rows(Path(folder), count, fragments=fragments, stable_row_ids=world.stable, dtype=dtype)
        for place, (change, number) in enumerate(world.changes):
            apply_change(uri, change, number, place, dtype=dtype, metric=metric)
        request = VectorRequest(
            vectors=vectors,
            batch=True,
            scope=Scope(prefilter=prefilter(uri, world.where, as_rows=world.as_rows)),
            tuning=VectorTuning(k=world.k, metric=metric, nprobes=ALL_PROBES),
        )
        snapshot = lw.open(uri, progress=False).snapshot()
        runner = LocalRunner(world.parallelism)

        found = prepare_search(table_ref(uri), snapshot, request, ("id",), runner).to_arrow()

        for number, query in enumerate(vectors):
            mine = found.filter(pa.compute.equal(found["query_index"], number))
            assert_nearest(
                uri,
                mine,
                query,
                world.k,
                metric=metric,
                where=world.where,
                tolerance=TOLERANCE.get(dtype, 1e-5),
            )


def prefilter(uri: str, where: str | None, *, as_rows: bool) -> Prefilter:
    """What a search makes of the condition, or the addresses of the rows that meet it."""
    if where is None or not as_rows:
        return choose_prefilter(FilterRequest(table=table_ref(uri), where=where))
    rows = (
        lance.dataset(uri)
        .scanner(columns=[], filter=where, with_row_address=True, use_scalar_index=False)
        .to_table()
    )
    return RowsPrefilter(rows=row_set(rows["_rowaddr"].to_numpy()))


@settings(max_examples=max(EXAMPLES // 2, 1), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    stable=st.booleans(),
    indexed=st.integers(0, 5),
    updated=st.integers(2, 9),
    words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True),
    operator=st.sampled_from(["or", "and"]),
    where=st.sampled_from([None, "group < 3", "id < 0"]),
    rewritten=st.booleans(),
    delta=st.booleans(),
)
def test_the_texts_found_are_those_with_the_words_on_random_tables(  # noqa: PLR0917  one for each thing that varies
    stable: bool,
    indexed: int,
    updated: int,
    words: list[str],
    operator: str,
    where: str | None,
    rewritten: bool,
    delta: bool,
) -> None:
    with TemporaryDirectory(prefix="search-") as folder:
        uri = write_rows(Path(folder), 200, fragments=5, stable_row_ids=stable)
        if indexed:
            add_text_index(uri, [range(indexed)])
        apply_change(uri, "update", updated, 0, dtype="f4", metric="l2")
        apply_change(uri, "delete", updated, 0, dtype="f4", metric="l2")
        if rewritten:
            rewrite_in_place(uri, updated, 1, dtype="f4", columns=("text",))
        if delta:
            apply_change(uri, "delta", updated, 0, dtype="f4", metric="l2")
        meets: Any = all if operator == "and" else any
        rows = lance.dataset(uri).to_table(columns=["id", "text"], filter=where).to_pylist()
        expected = {row["id"] for row in rows if meets(word in row["text"].split() for word in words)}
        table = lw.open(uri, progress=False)

        found = table.search(
            text=" ".join(words), operator=operator, column="text", where=where, k=EVERYTHING, columns=["id"]
        ).to_arrow()

        assert sorted(found["id"].to_pylist()) == sorted(expected)
        scores = found["_score"].to_pylist()
        assert scores == sorted(scores, reverse=True)
