"""Measures how many of the nearest rows a vector segment finds, and looks whether every vector has an entry.

A segment is searched by itself, among the rows it covers, for vectors that are stored there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancewright.kinds.lance_native.vector import default_metric
from lancewright.maintain.checks.census import take_census
from lancewright.maintain.checks.findings import (
    Checked,
    Fault,
    Finding,
    Recall,
    SegmentFailedError,
    blaming_segment,
    damaged,
    of_rows,
)
from lancewright.model.addresses import without
from lancewright.model.vector_details import vector_metric
from lancewright.table.column_reader import sample_column
from lancewright.table.vector_search import DISTANCE, NearestOptions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lancewright.maintain.checks.subject import Subject

    Addresses = NDArray[np.uint64]

# Of what a segment finds when all its partitions are searched: whole vectors must all be there, and one byte for a number loses
# little. What product and binary codes lose depends on the vectors, so there is no telling without being told.
_WHOLE_MIN = {"ivf_flat": 0.99, "ivf_sq": 0.8, "ivf_hnsw_flat": 0.8, "ivf_hnsw_sq": 0.8}
_ALL_PARTITIONS = 1 << 20
_CLOSE = 1e-4
_FRAGMENTS_MAX = 32
_SEVERAL = "several vectors in a row are not searched for here"


def check_vectors(subject: Subject) -> Checked:
    """Search, and count entries."""
    uuid, column = subject.segment.uuid, subject.column
    if not pa.types.is_fixed_size_list(column.type):
        return Checked(notes=(_SEVERAL,))
    try:
        census = take_census(subject)
    except SegmentFailedError as error:
        return Checked(findings=(damaged(uuid, error.problem),))
    stored = subject.probe.true(f"{column.path} IS NOT NULL", subject.ids)
    findings = of_rows(uuid, Fault.DUPLICATED, census.twice)
    lost = _indexable(subject, without(stored, census.rows))
    findings += of_rows(uuid, Fault.MISSING, lost)
    queries = _choose_queries(subject)
    if not len(queries) or not len(stored):
        return Checked(postings=census.entries, findings=tuple(findings))
    try:
        recall = _measure(subject, queries)
    except SegmentFailedError as error:
        return Checked(postings=census.entries, findings=(*findings, damaged(uuid, error.problem)))
    findings += _judge(subject, recall)
    return Checked(questions=len(queries), postings=census.entries, findings=tuple(findings), recall=recall)


def _judge(subject: Subject, recall: Recall) -> list[Finding]:
    floor, asked = _WHOLE_MIN.get(subject.index.kind), subject.rules.recall_min
    low = floor is not None and recall.whole < floor
    wanting = asked is not None and recall.usual < asked
    if not low and not wanting:
        return []
    text = f"it finds {recall.usual:.2f} of the {recall.k} nearest, and {recall.whole:.2f} in all partitions"
    return [Finding(segment=subject.segment.uuid, fault=Fault.LOW_RECALL, problem=text)]


def _measure(subject: Subject, queries: NDArray[np.generic]) -> Recall:
    metric = vector_metric(subject.segment.details) or default_metric(subject.column)
    options = NearestOptions(column=subject.column.path, metric=str(metric), k=subject.rules.k)
    exact = subject.probe.nearest(options, queries, subject.ids)
    return Recall(
        k=options.k,
        queries=len(queries),
        usual=_recall(subject, options, queries, exact),
        whole=_recall(subject, replace(options, nprobes=_ALL_PARTITIONS), queries, exact),
    )


def _recall(
    subject: Subject, options: NearestOptions, queries: NDArray[np.generic], exact: pa.Table
) -> float:
    with blaming_segment(subject.table, f"search segment {subject.segment.uuid} of"):
        found = subject.probe.nearest_by_index(options, queries, subject.segment.uuid)
    right = wanted = 0
    for number in range(len(queries)):
        near, far = _of(exact, number)
        named, _ = _of(found, number)
        wanted += len(near)
        hits = np.isin(named, near)
        right += int(hits.sum())
        others = named[~hits]
        if len(others) and len(near):
            # As near as the last one that counts is as good.
            one = queries[number : number + 1]
            again = subject.probe.nearest(replace(options, k=len(others)), one, subject.ids, others)
            limit = far[-1] + _CLOSE * max(1.0, abs(float(far[-1])))
            right += int((again[DISTANCE].to_numpy() <= limit).sum())
    return min(1.0, right / wanted) if wanted else 1.0


def _of(found: pa.Table, number: int) -> tuple[Addresses, NDArray[np.float32]]:
    mine = found["query"].to_numpy() == number
    distances = found[DISTANCE].to_numpy()[mine]
    order = np.argsort(distances, kind="stable")
    return found["_rowaddr"].to_numpy()[mine][order], distances[order]


def _choose_queries(subject: Subject) -> NDArray[np.generic]:
    random = np.random.default_rng(subject.rules.seed)
    holding = [one for one in subject.fragments if one.rows]
    count = min(_FRAGMENTS_MAX, subject.rules.queries, len(holding))
    chosen = sorted(random.choice(len(holding), count, replace=False).tolist()) if count else []
    each = -(-subject.rules.queries // max(1, len(chosen)))
    vectors, _ = sample_column(
        subject.table, subject.column, [(holding[place].id, each) for place in chosen], subject.rules.seed
    )
    return _finite(_matrix(vectors, subject.column.type.list_size))[: subject.rules.queries]


def _indexable(subject: Subject, rows: Addresses) -> Addresses:
    """Rows whose vectors have a distance: Lance leaves others out. Looks at rows without an entry only."""
    if not len(rows):
        return rows
    metric = vector_metric(subject.segment.details) or default_metric(subject.column)
    options = NearestOptions(column=subject.column.path, metric=str(metric), k=len(rows))
    queries = _choose_queries(subject)
    if not len(queries):
        return rows[:0]
    found = subject.probe.nearest(options, queries[:1], subject.ids, rows)
    known: Addresses = found["_rowaddr"].to_numpy()[np.isfinite(found[DISTANCE].to_numpy())]
    return np.sort(known)


def _matrix(vectors: pa.Array, size: int) -> NDArray[np.generic]:
    flat: NDArray[np.generic] = vectors.drop_null().flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(-1, size)


def _finite(vectors: NDArray[np.generic]) -> NDArray[np.generic]:
    if vectors.dtype.kind != "f":
        return vectors
    kept: NDArray[np.generic] = vectors[np.isfinite(vectors).all(axis=1) & (vectors != 0).any(axis=1)]
    return kept
