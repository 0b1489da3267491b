"""A table that other writers change while an index of it is built: what they commit, and what is right afterwards.

Every row has a value of each type; values come in two generations that differ, so that a stale answer shows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
from lance.optimize import Compaction, CompactionTask

import lancewright as lw

if TYPE_CHECKING:
    from collections.abc import Sequence

WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
DIMENSION = 16
NEIGHBOURS = 30
OLD, NEW = 0, 1
EVERY_DOCUMENT = 100_000
# Old vectors lie around the origin and new ones around 100: a stale neighbour shows by its distance.
CENTROIDS = np.stack([np.zeros(DIMENSION, "f4"), np.full(DIMENSION, 100, "f4")])


@dataclass(frozen=True)
class Case:
    """A kind, the column it is built on, and its parameters."""

    kind: str
    column: str
    parameters: dict[str, Any] = field(default_factory=dict)


CASES = {
    case.kind: case
    for case in (
        # Of one stage per segment, as all others are; tests/behaviour/test_btree_layouts.py has the sorted layout.
        Case("btree", "number", {"layout": "fragment"}),
        Case("bitmap", "number"),
        Case("zonemap", "number", {"rows_per_zone": 16}),
        Case("bloomfilter", "number", {"number_of_items": 16}),
        Case("label_list", "labels"),
        Case("ngram", "text"),
        Case("fm", "text"),
        Case("inverted", "text", {"stem": False, "remove_stop_words": False}),
        Case("ivf_pq", "vector", {"num_sub_vectors": 8, "num_bits": 4, "ivf_centroids": CENTROIDS}),
        Case("ivf_flat", "vector", {"ivf_centroids": CENTROIDS}),
        Case("ivf_hnsw_flat", "vector", {"ivf_centroids": CENTROIDS}),
        Case("ivf_sq", "vector", {"ivf_centroids": CENTROIDS}),
    )
}


def busy_rows(ids: Sequence[int], generation: int = OLD) -> pa.Table:
    """Rows with these ids; the same id and generation give the same values."""
    random = np.random.default_rng([generation, len(ids), int(ids[0]) if len(ids) else 0])
    shift, mark = 17 * generation, ("stale", "fresh")[generation]
    numbers = random.integers(0, 30, len(ids)) + shift
    picks = [list(random.choice(WORDS, size)) for size in random.integers(1, 5, len(ids))]
    vectors = (random.normal(size=(len(ids), DIMENSION)) + 100 * generation).astype("f4")
    holes = random.random(len(ids)) < 0.1
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "other": pa.array([int(id_) % 13 for id_ in ids], pa.int64()),
            "number": pa.array(numbers, pa.int64(), mask=holes),
            "labels": pa.array(
                [None if hole else pick for hole, pick in zip(holes, picks, strict=True)],
                pa.list_(pa.string()),
            ),
            "text": pa.array([f"{' '.join(pick)} {mark}" for pick in picks], pa.string(), mask=holes),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSION),
        }
    )


def busy_table(
    uri: str, *, stable_row_ids: bool = False, fragments: int = 8, rows_per_fragment: int = 100
) -> lance.LanceDataset:
    """Equal fragments, every seventeenth row deleted, and an index of the id that is not ours."""
    dataset = lance.write_dataset(
        busy_rows(range(fragments * rows_per_fragment)),
        uri,
        max_rows_per_file=rows_per_fragment,
        enable_stable_row_ids=stable_row_ids,
    )
    dataset.delete("id % 17 = 3")
    dataset.create_scalar_index("id", "BTREE", name="theirs")
    return lance.dataset(uri)


def fragment_ids(uri: str) -> set[int]:
    """The ids of the table's fragments."""
    return {fragment.fragment_id for fragment in lance.dataset(uri).get_fragments()}


# What other writers do -------------------------------------------------------------------------------------------


def append(uri: str, start: int = 10_000) -> None:
    """Add a fragment."""
    lance.write_dataset(busy_rows(range(start, start + 60), NEW), uri, mode="append")


def delete(uri: str, predicate: str = "id BETWEEN 120 AND 140 OR id BETWEEN 530 AND 560") -> None:
    """Delete rows of some fragments."""
    lance.dataset(uri).delete(predicate)


def compact(uri: str, fragments: Sequence[int], *, deferred: bool = False) -> None:
    """Compact exactly these fragments into one."""
    dataset = lance.dataset(uri)
    options = {
        "target_rows_per_fragment": 100_000,
        "materialize_deletions": False,
        "defer_index_remap": deferred,
    }
    tasks = [json.loads(task.json()) for task in Compaction.plan(dataset, options).tasks]
    planned = [entry for task in tasks for entry in task["task"]["fragments"] if entry["id"] in fragments]
    assert len(planned) == len(fragments), "Lance would not compact these fragments"
    tasks[0]["task"]["fragments"] = planned
    done = CompactionTask.from_json(json.dumps(tasks[0])).execute(dataset)
    Compaction.commit(dataset, [done], options)


def catch_up(uri: str) -> None:
    """Let the other writer's own index cover everything: Lance compacts only neighbours that the same segments cover."""
    lance.dataset(uri).optimize.optimize_indices(index_names=["theirs"], num_indices_to_merge=10)


def rewrite_column(uri: str, column: str, fragment_id: int) -> None:
    """Give every row of a fragment a new value in place: same rows, same addresses, one new data file."""
    dataset = lance.dataset(uri)
    fragment = dataset.get_fragment(fragment_id)
    found = fragment.to_table(columns=["id"], with_row_id=True)
    values = busy_rows(found["id"].to_pylist(), NEW).select([column])
    updated, modified = fragment.update_columns(values.add_column(0, "_rowid", found["_rowid"]))
    operation = lance.LanceOperation.Update(updated_fragments=[updated], fields_modified=modified)
    lance.LanceDataset.commit(dataset.uri, operation, read_version=dataset.version)


def merge_column(uri: str, column: str, first: int, last: int) -> None:
    """Give some rows a new value in place through a merge that rewrites columns."""
    dataset = lance.dataset(uri)
    ids = dataset.to_table(filter=f"id BETWEEN {first} AND {last}", columns=["id"])["id"].to_pylist()
    merge = dataset.merge_insert("id").when_matched_update_all().write_mode("rewrite_columns")
    merge.execute(busy_rows(ids, NEW).select(["id", column]))


def update_rows(uri: str, first: int, last: int) -> None:
    """Give some rows new values the usual way: deleted where they are and written again into a new fragment."""
    dataset = lance.dataset(uri)
    ids = dataset.to_table(filter=f"id BETWEEN {first} AND {last}", columns=["id"])["id"].to_pylist()
    dataset.merge_insert("id").when_matched_update_all().execute(busy_rows(ids, NEW))


# What is right afterwards ----------------------------------------------------------------------------------------


def wrong_answers(uri: str, case: Case) -> list[str]:
    """What Lance answers with the index otherwise than the rows themselves say."""
    dataset = lance.dataset(uri)
    if case.column == "vector":
        return _wrong_neighbours(dataset)
    if case.kind == "inverted":
        return _wrong_documents(dataset)
    return [predicate for predicate in predicates(case) if _differs(dataset, predicate)]


def predicates(case: Case) -> list[str]:
    """Filters the kind answers, for values of both generations."""
    equal = [f"number = {number}" for number in range(0, 47, 6)]
    if case.kind == "bloomfilter":
        return [*equal, "number IN (5, 20, 41)", "number IS NULL"]
    if case.column == "labels":
        has = [f"array_has(labels, '{word}')" for word in WORDS]
        return [*has, "array_has_any(labels, ['alpha', 'beta'])", "NOT array_has(labels, 'alpha')"]
    if case.column == "text":
        return [f"contains(text, '{word}')" for word in (*WORDS, "stale", "fresh")]
    return [
        *equal,
        "number < 20",
        "number >= 25",
        "number BETWEEN 10 AND 22",
        "number IN (5, 20, 41)",
        "number != 20",
        "NOT (number < 20)",
        "number NOT IN (5, 20)",
        "number IS NULL",
        "number IS NOT NULL",
        "number < 20 AND other = 3",
        "number > 40 OR number < 5",
    ]


def wrong_index_answers(uri: str, case: Case, covered: Sequence[int]) -> list[str]:
    """Where the index alone answers otherwise than the rows of the fragments it is said to cover."""
    dataset = lance.dataset(uri)
    fragments = [dataset.get_fragment(fragment) for fragment in covered]
    if case.column == "vector":
        searches = [({}, {"nearest": {"column": "vector", "q": CENTROIDS[OLD], "k": 5_000, "nprobes": 2}})]
    elif case.kind == "inverted":
        searches = [
            ({"filter": f"contains_tokens(text, '{word}')"}, {"full_text_query": word}) for word in WORDS
        ]
    else:
        searches = [({"filter": one},) * 2 for one in predicates(case) if _is_asked(dataset, one)]
    return [
        str(indexed)
        for plain, indexed in searches
        if _ids(dataset, fragments=fragments, use_scalar_index=False, **plain)
        != _ids(dataset, fast_search=True, limit=dataset.count_rows(), **indexed)
    ]


def _ids(dataset: lance.LanceDataset, **options: Any) -> list[int]:
    scanner = dataset.scanner(columns=["id"], disable_scoring_autoprojection=True, **options)
    return sorted(scanner.to_table()["id"].to_pylist())


def is_served(uri: str, case: Case) -> bool:
    """True when Lance plans to ask the index."""
    dataset = lance.dataset(uri)
    if case.column == "vector":
        plan = dataset.scanner(nearest={"column": "vector", "q": CENTROIDS[0], "k": 3}).explain_plan()
        return "ANN" in plan
    if case.kind == "inverted":
        return "MatchQuery" in dataset.scanner(full_text_query="alpha").explain_plan()
    return _is_asked(dataset, predicates(case)[0])


def _is_asked(dataset: lance.LanceDataset, predicate: str) -> bool:
    return "ScalarIndexQuery" in dataset.scanner(filter=predicate).explain_plan()


def _differs(dataset: lance.LanceDataset, predicate: str) -> bool:
    indexed = dataset.to_table(columns=["id"], filter=predicate)["id"].to_pylist()
    scanned = dataset.to_table(columns=["id"], filter=predicate, use_scalar_index=False)["id"].to_pylist()
    return sorted(indexed) != sorted(scanned) or dataset.count_rows(predicate) != len(scanned)


def assert_finds_every_text(uri: str) -> None:
    """Our search gives as many texts as there are, when just so many are wanted."""
    rows = lance.dataset(uri).to_table(columns=["id", "text"]).to_pylist()
    right = sorted(row["id"] for row in rows if row["text"] and "stale" in row["text"].split())
    search = lw.open(uri, progress=False).search(
        text="stale", column="text", k=max(1, len(right)), columns=["id"]
    )
    assert sorted(search.to_arrow()["id"].to_pylist()) == right


def _wrong_documents(dataset: lance.LanceDataset) -> list[str]:
    rows = dataset.to_table(columns=["id", "text"]).to_pylist()
    problems = []
    for word in (*WORDS, "stale", "fresh"):
        right = sorted(row["id"] for row in rows if row["text"] and word in row["text"].split())
        # Not cut: with stable row ids, deleted documents of compacted fragments take places among Lance's best ones.
        found = _ids(dataset, full_text_query=word, limit=EVERY_DOCUMENT)
        if found != right:
            problems.append(f"{word}: {len(found)} instead of {len(right)} documents")
    return problems


def _wrong_neighbours(dataset: lance.LanceDataset) -> list[str]:
    rows = dataset.to_table(columns=["id", "vector"])
    vectors = np.stack(rows["vector"].combine_chunks().to_numpy(zero_copy_only=False))
    ids = rows["id"].to_numpy()
    # Not far from every row: outside its bounds a quantizer's distances mean nothing.
    queries = [vectors[7], vectors[-7], vectors[len(vectors) // 2], vectors[450 % len(vectors)]]
    return [problem for query in queries for problem in _wrong_search(dataset, query, vectors, ids)]


def _wrong_search(
    dataset: lance.LanceDataset, query: np.ndarray, vectors: np.ndarray, ids: np.ndarray
) -> list[str]:
    true = ((vectors - query) ** 2).sum(1)
    best = set(ids[np.argsort(true)[:NEIGHBOURS]])
    far = set(ids[true > 40_000])
    problems = []
    for refine in (None, 5):
        search = {"column": "vector", "q": query, "k": NEIGHBOURS, "nprobes": 2, "refine_factor": refine}
        found = dataset.scanner(
            columns=["id", "_distance"], nearest=search, disable_scoring_autoprojection=True
        ).to_table()
        got = found["id"].to_pylist()
        if len(got) != NEIGHBOURS or len(set(got)) != NEIGHBOURS:
            problems.append(f"{len(got)} neighbours, {len(set(got))} of them different")
        if any(
            id_ in far and distance < 3_600
            for id_, distance in zip(got, found["_distance"].to_pylist(), strict=True)
        ):
            problems.append("a neighbour that moved far away was found where it used to be")
        if refine and len(best & set(got)) < 0.85 * NEIGHBOURS:
            problems.append(f"recall {len(best & set(got)) / NEIGHBOURS:.2f}")
    return problems
