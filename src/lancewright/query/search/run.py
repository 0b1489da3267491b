"""Runs a search: plan into tasks, tasks into hits, hits into one ranking, and the columns of what is left."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewright.errors import CorruptIndexError
from lancewright.query.search.columns import find_vector_column, fit_vectors, read_outputs
from lancewright.query.search.fusion import RELEVANCE, fuse_ranks
from lancewright.query.search.notes import SearchReason
from lancewright.query.search.plan import HybridPlan, TextPlan, VectorPlan
from lancewright.query.search.request import HybridRequest, TextRequest, VectorRequest
from lancewright.query.search.tasks import TEXT_PART, VECTOR_PART, search_job, text_tasks, vector_tasks
from lancewright.query.search.text_ranking import Texts, rank_texts
from lancewright.query.search.top_k import keep_best
from lancewright.query.search.vector_planner import rescore
from lancewright.runtime.runner import ignore_outcome, run_tasks
from lancewright.table.lance_compat import translating
from lancewright.table.opening import open_dataset
from lancewright.table.row_reader import ReadEffort
from lancewright.table.row_taker import take_columns
from lancewright.table.text_search import SCORE
from lancewright.table.vector_search import DISTANCE, NEAREST_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from lancewright.model.snapshot import TableSnapshot
    from lancewright.query.search.notes import SearchNote
    from lancewright.query.search.plan import SearchPlan
    from lancewright.query.search.request import SearchRequest
    from lancewright.query.search.vector_worker import Found
    from lancewright.runtime.runner import Runner
    from lancewright.runtime.task import Task
    from lancewright.table.location import TableRef
    from lancewright.table.metering import SearchEffort

QUERY_INDEX = "query_index"
_FOUND_TYPES = {
    DISTANCE: pa.float32(),
    SCORE: pa.float32(),
    RELEVANCE: pa.float64(),
    "_rowid": pa.uint64(),
    "_rowaddr": pa.uint64(),
}
_RANKS = {VectorPlan: (DISTANCE,), TextPlan: (SCORE,), HybridPlan: (RELEVANCE, DISTANCE, SCORE)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hits:
    """The rows a search found, best first, by id and address with what ranks them; and what happened on the way.

    ``efforts``: what each task took, by its id; a task that had to run again counts with both runs.
    """

    rows: pa.Table
    notes: tuple[SearchNote, ...] = ()
    efforts: Mapping[str, SearchEffort] = field(default_factory=dict)


def find_hits(table: TableRef, plan: SearchPlan, request: SearchRequest, runner: Runner) -> Hits:
    """Run the plan's tasks and rank what they found."""
    tasks = tuple(_tasks(table, plan, request))
    found: dict[str, Found] = {}
    if tasks:
        done = run_tasks(runner, search_job(table, plan), tasks, ignore_outcome)
        found = {id_: outcome.result for id_, outcome in done.items()}
    efforts = {id_: one.effort for id_, one in found.items()}
    notes = tuple(dict.fromkeys(note for _, one in sorted(found.items()) for note in one.notes))
    _refuse_damaged(plan, notes)
    exact = _rescored_after(plan, notes)
    if exact is not None:
        # An exact search stood in for a segment: the estimates of the others do not rank beside it.
        again = find_hits(table, exact, request, runner)
        return replace(again, efforts=add_efforts(efforts, again.efforts))
    match plan, request:
        case HybridPlan(), HybridRequest():
            near = _rank_near(plan.vector, _of(found, VECTOR_PART))
            texts = Texts(table=table, plan=plan.text, request=request.text, runner=runner)
            matched = rank_texts(texts, _of(found, TEXT_PART), notes)
            rows = fuse_ranks(near, matched.rows, plan.k, plan.rank_constant)
            return Hits(rows=rows, notes=matched.notes, efforts=add_efforts(efforts, matched.efforts))
        case TextPlan(), TextRequest():
            texts = Texts(table=table, plan=plan, request=request, runner=runner)
            ranked = rank_texts(texts, found.values(), notes)
            return Hits(rows=ranked.rows, notes=ranked.notes, efforts=add_efforts(efforts, ranked.efforts))
        case VectorPlan(), _:
            return Hits(rows=_rank_near(plan, found.values()), notes=notes, efforts=efforts)
    raise AssertionError("a plan is made from its request")


def read_answer(
    table: TableRef, plan: SearchPlan, hits: pa.Table, names: tuple[str, ...], *, batch: bool
) -> pa.Table:
    """The hits with the columns asked for: query number of a batch, columns, ranks."""
    snapshot = plan.snapshot
    columns = read_outputs(snapshot, names)
    pinned = table.pinned(snapshot.version)
    with translating(pinned, "read the rows found in"):
        values = take_columns(open_dataset(pinned), hits["_rowid"].to_numpy(), columns) if columns else []
    read = iter(values)
    answer: dict[str, Any] = {QUERY_INDEX: hits["query"]} if batch else {}
    for name in names:
        answer[name] = hits[name] if name in hits.schema.names else next(read)
    answer |= {name: hits[name] for name in _RANKS[type(plan)] if name not in answer}
    return pa.table(answer)


def measure_answer(
    table: TableRef, snapshot: TableSnapshot, hits: pa.Table, names: tuple[str, ...]
) -> ReadEffort:
    """What reading the columns of the hits takes; the values are not kept."""
    started = time.perf_counter()
    columns = read_outputs(snapshot, names)
    pinned = table.pinned(snapshot.version)
    with translating(pinned, "read the rows found in"):
        dataset = open_dataset(pinned)
        dataset.io_stats_incremental()
        if columns:
            take_columns(dataset, hits["_rowid"].to_numpy(), columns)
        io = dataset.io_stats_incremental()
    return ReadEffort(
        rows=len(hits),
        read_requests=io.read_iops,
        read_bytes=io.read_bytes,
        seconds=time.perf_counter() - started,
    )


def answer_schema(snapshot: TableSnapshot, request: SearchRequest, names: tuple[str, ...]) -> pa.Schema:
    """The schema of what ``read_answer`` gives, without a search."""
    batch = isinstance(request, VectorRequest) and request.batch
    ranks = {VectorRequest: (DISTANCE,), TextRequest: (SCORE,), HybridRequest: (RELEVANCE, DISTANCE, SCORE)}
    read = iter(read_outputs(snapshot, names))
    types = {QUERY_INDEX: pa.int32()} if batch else {}
    for name in names:
        types[name] = _FOUND_TYPES[name] if name in _FOUND_TYPES else next(read).type
    types |= {name: _FOUND_TYPES[name] for name in ranks[type(request)] if name not in types}
    return pa.schema(list(types.items()))


def query_vectors(
    snapshot: TableSnapshot, request: VectorRequest
) -> NDArray[Any]:  # Any: of the column's value type
    """The request's vectors as the column holds them."""
    return fit_vectors(find_vector_column(snapshot, request.scope.column), request.vectors)


def _tasks(table: TableRef, plan: SearchPlan, request: SearchRequest) -> Iterable[Task]:
    match plan, request:
        case HybridPlan(), HybridRequest():
            return (*_tasks(table, plan.vector, request.vector), *_tasks(table, plan.text, request.text))
        case TextPlan(), TextRequest():
            return text_tasks(table, plan, request.scope.prefilter)
        case VectorPlan(), VectorRequest():
            return vector_tasks(plan, query_vectors(plan.snapshot, request), request.scope.prefilter)
    raise AssertionError("a plan is made from its request")


def _of(found: dict[str, Found], part: str) -> Iterable[Found]:
    return [one for id_, one in found.items() if id_.startswith(part)]


def add_efforts(
    first: Mapping[str, SearchEffort], second: Mapping[str, SearchEffort]
) -> dict[str, SearchEffort]:
    """What each task took in two runs together."""
    both = dict(first)
    for id_, effort in second.items():
        both[id_] = both[id_] + effort if id_ in both else effort
    return both


def _rank_near(plan: VectorPlan, found: Iterable[Found]) -> pa.Table:
    rows = pa.concat_tables([NEAREST_SCHEMA.empty_table(), *(one.rows for one in found)])
    return keep_best(rows, DISTANCE, plan.options.k, descending=False)


def _refuse_damaged(plan: SearchPlan, notes: tuple[SearchNote, ...]) -> None:
    """A search goes on around a damaged index, unless the caller wants to know."""
    for note in notes:
        if note.reason is not SearchReason.BROKEN_SEGMENT:
            continue
        # Only a vector task knows which segment it was.
        part = plan.vector if isinstance(plan, HybridPlan) and note.subject else plan
        of = part.text if isinstance(part, HybridPlan) else part
        if of.strict:
            name = of.index.name if of.index is not None else ""
            raise CorruptIndexError(
                f"Index {name!r} cannot be read: {note.explanation}",
                "Build it again with create_index(..., replace=True).",
            )


def _rescored_after(plan: SearchPlan, notes: tuple[SearchNote, ...]) -> SearchPlan | None:
    if not any(note.reason is SearchReason.BROKEN_SEGMENT for note in notes):
        return None
    match plan:
        case HybridPlan(vector=vector) if not vector.rescored:
            return replace(plan, vector=rescore(vector))
        case VectorPlan() if not plan.rescored:
            return rescore(plan)
    return None
