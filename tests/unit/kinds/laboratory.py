"""Builds indexes of every kind over small tables and compares what they answer with what a scan answers.

One column ``value`` per table, of the type the kind indexes. Every tenth value is NULL and every seventeenth row deleted.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
from lance.optimize import Compaction, CompactionTask
from lance.query import MinHashQuery

from lancewright.kinds.lance_native.parameters import validate_parameters
from lancewright.kinds.lance_native.segments import build_segment
from lancewright.kinds.lance_native.training import train_model
from lancewright.kinds.lance_native.vector_model import VectorModel, take_model
from lancewright.kinds.registry import find_kind
from lancewright.table.location import table_ref
from lancewright.table.snapshot_reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lancewright.kinds.lance_native.definition import NativeKind
    from lancewright.model.columns import Column

ROWS = 100
FRAGMENTS = 4
DIMENSION = 16
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
NEIGHBOURS = 30
# Old vectors lie around the origin and new ones around 100, so that a stale neighbour shows by its distance.
OLD, NEW = 0, 1
CENTROIDS = np.stack([np.zeros(DIMENSION, "f4"), np.full(DIMENSION, 100, "f4")])

SCALAR_KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "btree": ("number", {"zone_size": 32}),
    "bitmap": ("number", {}),
    "label_list": ("labels", {}),
    "ngram": ("text", {}),
    "zonemap": ("number", {"rows_per_zone": 16}),
    "bloomfilter": ("number", {"number_of_items": 16}),
    "rtree": ("geometry", {"page_size": 8}),
    "fm": ("text", {}),
    "json": ("json", {"path": "a"}),
    "json:bitmap": ("json", {"path": "a", "target_index_type": "bitmap"}),
}
TEXT_KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "inverted": ("text", {"with_position": True, "stem": False, "remove_stop_words": False}),
    "minhash_lsh": ("text", {"num_hashes": 32, "num_bands": 32, "shingle_size": 1}),
}
VECTOR_KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "ivf_flat": ("vector", {}),
    "ivf_pq": ("vector", {"num_sub_vectors": 8, "num_bits": 4}),
    "ivf_sq": ("vector", {}),
    "ivf_rq": ("vector", {}),
    "ivf_hnsw_flat": ("vector", {}),
    "ivf_hnsw_pq": ("vector", {"num_sub_vectors": 8, "num_bits": 4}),
    "ivf_hnsw_sq": ("vector", {}),
}
KINDS = SCALAR_KINDS | TEXT_KINDS | VECTOR_KINDS


def cases(*, stable_row_ids: bool) -> list[str]:
    """The kinds that a table in this row-id mode can have."""
    return [name for name in KINDS if not (stable_row_ids and name == "json")]


def make_values(type_: str, count: int, generation: int, seed: int) -> pa.Array:
    """Values of one generation; the two generations of a type overlap, except for vectors."""
    random = np.random.default_rng(seed + 1000 * generation)
    holes = random.random(count) < 0.1
    shift = 17 * generation
    if type_ == "vector":
        vectors = (random.normal(size=(count, DIMENSION)) + 100 * generation).astype("f4")
        return pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSION)
    word = [" stale", " fresh"][generation]
    picks = [
        [WORDS[pick] for pick in random.integers(0, len(WORDS), size)]
        for size in random.integers(1, 5, count)
    ]
    makers: dict[str, tuple[list[Any], pa.DataType]] = {
        "number": ([int(value) + shift for value in random.integers(0, 30, count)], pa.int64()),
        "labels": (picks, pa.list_(pa.string())),
        "text": ([" ".join(pick) + word for pick in picks], pa.string()),
        "geometry": (
            [struct.pack("<BIdd", 1, 1, *random.uniform(0, 10, 2)) for _ in range(count)],
            pa.binary(),
        ),
        "json": (
            [json.dumps({"a": int(value) + shift}) for value in random.integers(0, 30, count)],
            pa.json_(),
        ),
    }
    values, arrow_type = makers[type_]
    return pa.array([None if hole else value for hole, value in zip(holes, values, strict=True)], arrow_type)


def value_field(type_: str, arrow_type: pa.DataType) -> pa.Field:
    """The indexed column's field."""
    metadata = {"ARROW:extension:name": "geoarrow.wkb"} if type_ == "geometry" else None
    return pa.field("value", arrow_type, metadata=metadata)


def make_table(
    folder: Path, type_: str, *, stable_row_ids: bool = False, fragments: int = FRAGMENTS, rows: int = ROWS
) -> lance.LanceDataset:
    """Write ``fragments`` fragments and delete every seventeenth row."""
    count = fragments * rows
    values = make_values(type_, count, OLD, 0)
    schema = pa.schema(
        [pa.field("id", pa.int64()), value_field(type_, values.type), pa.field("other", pa.int64())]
    )
    table = pa.table([pa.array(np.arange(count)), values, pa.array(np.arange(count) % 13)], schema=schema)
    uri = str(folder / "table.lance")
    lance.write_dataset(table, uri, max_rows_per_file=rows, enable_stable_row_ids=stable_row_ids).delete(
        "id % 17 = 3"
    )
    return lance.dataset(uri)


def column_of(dataset: lance.LanceDataset, name: str = "value") -> Column:
    """The column as the snapshot knows it."""
    return read_snapshot(table_ref(dataset.uri)).columns[tuple(name.split("."))]


@dataclass(frozen=True)
class Bench:
    """One kind on one table, ready to build."""

    kind: NativeKind
    column: Column
    parameters: dict[str, Any]
    model: VectorModel | None

    def build(self, dataset: lance.LanceDataset, fragments: Sequence[int]) -> Any:
        return build_segment(
            dataset, self.kind, self.column, self.parameters, fragments, "ix", model=self.model
        )


def set_up(dataset: lance.LanceDataset, case: str) -> Bench:
    """Validate the case's parameters and train its model: two cells, one per generation."""
    kind = find_kind(case.split(":", maxsplit=1)[0])
    column = column_of(dataset)
    parameters = validate_parameters(kind, column, KINDS[case][1])
    if kind.family != "vector":
        return Bench(kind, column, parameters, None)
    plain, _ = take_model({**parameters, "ivf_centroids": None})
    values = pa.FixedSizeListArray.from_arrays(pa.array(CENTROIDS.ravel()), DIMENSION)
    model = train_model(dataset, kind, column, plain, VectorModel(metric="l2", centroids=values))
    return Bench(kind, column, plain, model)


def commit(dataset: lance.LanceDataset, segments: Sequence[Any]) -> lance.LanceDataset:
    """Publish segments as they are, in one transaction."""
    operation = lance.LanceOperation.CreateIndex([replace(segment, name="ix") for segment in segments], [])
    return lance.LanceDataset.commit(dataset.uri, operation, read_version=dataset.version)


def trim(segment: Any, fragments: Sequence[int]) -> Any:
    """The same files, claiming fewer fragments."""
    return replace(segment, fragment_ids=set(fragments))


def rewrite_in_place(dataset: lance.LanceDataset, type_: str, fragment_id: int) -> lance.LanceDataset:
    """Give every row of one fragment a new value, under the same address and row id."""
    fragment = dataset.get_fragment(fragment_id)
    row_ids = fragment.to_table(columns=[], with_row_id=True)["_rowid"]
    values = make_values(type_, len(row_ids), NEW, fragment_id)
    schema = pa.schema([pa.field("_rowid", pa.uint64()), value_field(type_, values.type)])
    updated, modified = fragment.update_columns(pa.table([row_ids, values], schema=schema))
    operation = lance.LanceOperation.Update(
        updated_fragments=[updated], fields_modified=modified, removed_fragment_ids=[], new_fragments=[]
    )
    return lance.LanceDataset.commit(dataset.uri, operation, read_version=dataset.version)


def update_rows(dataset: lance.LanceDataset, type_: str, first: int, last: int) -> lance.LanceDataset:
    """Give some rows new values the usual way: they are deleted and written again into a new fragment."""
    found = dataset.to_table(filter=f"id >= {first} AND id < {last}", columns=["id", "other"])
    values = make_values(type_, found.num_rows, NEW, 77)
    schema = pa.schema(
        [pa.field("id", pa.int64()), value_field(type_, values.type), pa.field("other", pa.int64())]
    )
    new = pa.table([found["id"], values, found["other"]], schema=schema)
    dataset.merge_insert("id").when_matched_update_all().execute(new)
    return lance.dataset(dataset.uri)


def compact(dataset: lance.LanceDataset, fragments: Sequence[int]) -> tuple[lance.LanceDataset, list[int]]:
    """Compact exactly these fragments; return the ids of what they became."""
    options = {"target_rows_per_fragment": 100_000, "materialize_deletions": False}
    before = fragment_ids(dataset)
    task = json.loads(Compaction.plan(dataset, options).tasks[0].json())
    task["task"]["fragments"] = [entry for entry in task["task"]["fragments"] if entry["id"] in fragments]
    Compaction.commit(dataset, [CompactionTask.from_json(json.dumps(task)).execute(dataset)], options)
    after = lance.dataset(dataset.uri)
    return after, sorted(set(fragment_ids(after)) - set(before))


def fragment_ids(dataset: lance.LanceDataset) -> list[int]:
    return [fragment.fragment_id for fragment in dataset.get_fragments()]


def predicates(case: str) -> list[str]:
    """Filters the kind answers, each with matches."""
    values = ("value", "json_get_int(value, 'a')") if case.startswith("json") else ("value", "value")
    value = values[1]
    equal = [f"{value} = {number}" for number in range(0, 47, 6)]
    ordered = [
        f"{value} < 20", f"{value} >= 25", f"{value} BETWEEN 10 AND 22", f"{value} IN (5, 20, 41)", f"{value} IS NULL",
        f"{value} != 20", f"NOT ({value} < 20)", f"{value} < 20 AND other = 3", f"{value} > 40 OR {value} < 5",
    ]  # fmt: skip
    box = "st_geomfromtext('POLYGON(({0} {1},{2} {1},{2} {3},{0} {3},{0} {1}))')"
    labels = [f"array_has(value, '{word}')" for word in WORDS]
    contains = [f"contains(value, '{word}')" for word in (*WORDS, "stale", "fresh")]
    return {
        "bloomfilter": [*equal, "value IN (5, 20, 41)", "value IS NULL"],
        "label_list": [*labels, "array_has_any(value, ['alpha', 'beta'])", "NOT array_has(value, 'alpha')"],
        "ngram": [*contains, "value LIKE '%alpha%'"],
        "fm": contains,
        "rtree": [f"st_intersects(value, {box.format(x, y, x + 3, y + 3)})" for x in (0, 4) for y in (0, 5)],
    }.get(case, [*equal, *ordered])  # fmt: skip


def wrong_answers(dataset: lance.LanceDataset, case: str, bench: Bench, oracle_folder: Path) -> list[str]:
    """What the index answers otherwise than a scan, or than one segment built from scratch for searches."""
    if bench.kind.family == "vector":
        return _wrong_neighbours(dataset)
    if bench.kind.family == "text":
        return _wrong_hits(dataset, bench, oracle_folder)
    return [predicate for predicate in predicates(case) if _differs(dataset, predicate)]


def plan_asks_index(dataset: lance.LanceDataset, predicate: str) -> bool:
    return "ScalarIndexQuery" in dataset.scanner(filter=predicate).explain_plan()


def _differs(dataset: lance.LanceDataset, predicate: str) -> bool:
    indexed = dataset.to_table(columns=["id"], filter=predicate)["id"].to_pylist()
    scanned = dataset.to_table(columns=["id"], filter=predicate, use_scalar_index=False)["id"].to_pylist()
    return sorted(indexed) != sorted(scanned) or dataset.count_rows(predicate) != len(scanned)


def _wrong_hits(dataset: lance.LanceDataset, bench: Bench, oracle_folder: Path) -> list[str]:
    table = dataset.to_table()
    uri = str(oracle_folder / "oracle.lance")
    oracle = lance.write_dataset(table, uri, mode="overwrite")
    oracle = commit(oracle, [bench.build(oracle, fragment_ids(oracle))])
    queries = [*WORDS, "stale", "fresh", "alpha fresh"]
    return [query for query in queries if hits(dataset, bench, query) != hits(oracle, bench, query)]


def hits(dataset: lance.LanceDataset, bench: Bench, query: str) -> list[tuple[int, float]]:
    """All hits of a search, with scores rounded to what float32 keeps."""
    if bench.kind.name == "minhash_lsh":
        search: dict[str, Any] = {"nearest": MinHashQuery(query, "value"), "columns": ["id"]}
    else:
        search = {"full_text_query": query, "columns": ["id", "_score"]}
    found = dataset.scanner(limit=10_000, **search).to_table().to_pylist()
    return sorted((row["id"], round(row.get("_score", 0.0), 3)) for row in found)


def _wrong_neighbours(dataset: lance.LanceDataset) -> list[str]:
    table = dataset.to_table(columns=["id", "value"])
    vectors = np.stack(table["value"].combine_chunks().to_numpy(zero_copy_only=False))
    ids = np.array(table["id"])
    stale = np.asarray(make_values("vector", FRAGMENTS * ROWS, OLD, 0)[2 * ROWS + 5].as_py(), "f4")
    # A query far from everything lies outside the bounds of scalar quantization, where distances mean nothing.
    queries = [
        query for query in (vectors[7], vectors[-7], stale, *CENTROIDS) if _nearest(vectors, query) < 100
    ]
    return [problem for query in queries for problem in _wrong_search(dataset, query, vectors, ids)]


def _nearest(vectors: np.ndarray, query: np.ndarray) -> float:
    return float(np.sqrt(((vectors - query) ** 2).sum(1)).min())


def _wrong_search(
    dataset: lance.LanceDataset, query: np.ndarray, vectors: np.ndarray, ids: np.ndarray
) -> list[str]:
    true = np.sqrt(((vectors - query) ** 2).sum(1))
    best = set(ids[np.argsort(true)[:NEIGHBOURS]])
    problems = []
    for refine in (None, 5):
        nearest = {
            "column": "value",
            "q": query,
            "k": NEIGHBOURS,
            "nprobes": 2,
            "ef": 300,
            "refine_factor": refine,
        }
        found = dataset.to_table(columns=["id"], nearest=nearest)
        got = found["id"].to_pylist()
        far = {number for number, distance in zip(ids, true, strict=True) if distance > 200}
        near = np.sqrt(np.maximum(found["_distance"].to_numpy(), 0)) < 60
        if len(got) != NEIGHBOURS or len(set(got)) != NEIGHBOURS:
            problems.append(f"{len(got)} rows, {len(set(got))} different")
        if any(number in far and is_near for number, is_near in zip(got, near, strict=True)):
            problems.append("a stale vector was compared")
        if refine and len(best & set(got)) < 0.85 * NEIGHBOURS:
            problems.append(f"recall {len(best & set(got)) / NEIGHBOURS:.2f}")
    return problems
