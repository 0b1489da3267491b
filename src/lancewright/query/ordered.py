"""Finds the first rows of a table in an order by columns, reading the head of an index that has them in this order.

Each segment of such an index names its first live rows; they are candidates, as are all rows of fragments that the index does not
cover. Tasks read the candidates and keep the best, and the driver keeps the best of these. Without such an index the candidates are all rows for
which the filter is TRUE.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyroaring import FrozenBitMap

from lancewright.errors import CorruptIndexError, LancewrightError
from lancewright.kinds.contract import row_numbers
from lancewright.kinds.segment.calling import calling
from lancewright.model.columns import split_path
from lancewright.model.predicate import Constant, conjuncts
from lancewright.model.row_set import RowSet, row_set, unite
from lancewright.query.answers import PortionAnswer
from lancewright.query.costs import measure_widths
from lancewright.query.kind_matching import read_atom
from lancewright.query.kind_rows import KindAsker
from lancewright.query.ordering import bind_order, cut_first
from lancewright.query.plan import Portion
from lancewright.query.resolve import ResolvedScan, plan_scan, resolve_scan
from lancewright.query.tasks import plan_tasks
from lancewright.query.trust import Candidate, judge_index
from lancewright.query.worker import ScanJob, read_task
from lancewright.runtime.runner import ignore_outcome, run_tasks
from lancewright.runtime.task import Job, Task

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lancewright.kinds.contract import Atom, SearchProbe
    from lancewright.kinds.segment.judging import KindSegment
    from lancewright.query.kind_index import KindIndex
    from lancewright.query.ordering import OrderKey
    from lancewright.query.resolve import PlannedScan, ScanRequest
    from lancewright.query.tasks import ScanTask
    from lancewright.runtime.runner import Runner
    from lancewright.table.location import TableRef

# Deleted rows are among what a segment names first: as many are asked for again, and so on.
_GROWTH = 4
_SEGMENTS_AT_ONCE = 8
_ROWS_KEPT_MIN = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstJob:
    """What the tasks share: how rows are read, their order, and how many are wanted."""

    scan: ScanJob
    keys: tuple[OrderKey, ...]
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Head:
    """An index that has rows in the order asked for, and what to ask it."""

    index: KindIndex
    probe: SearchProbe
    covered: FrozenBitMap


def run_ordered(table: TableRef, request: ScanRequest, runner: Runner) -> pa.Table:
    """The first ``request.limit`` rows in the order of ``request.order_by``."""
    planned = plan_scan(table, request, runner.parallelism)
    schema = ResolvedScan(planned=planned, answers=(), tasks=()).schema()
    keys = bind_order(request.order_by, planned.snapshot.columns)
    count = request.limit or 0
    if not count:
        return schema.empty_table()
    wide = _widened(planned, keys)
    tasks = plan_tasks(wide.snapshot, wide.plan, _answers(wide, keys, count), wide.cut)
    job = FirstJob(scan=wide.job, keys=keys, rows=count)
    found = [stream for stream in _run(tasks, job, runner) if stream]
    if not found:
        return schema.empty_table()
    rows = pa.concat_tables([pa.ipc.open_stream(stream).read_all() for stream in found])
    return cut_first(rows, _names(keys), keys, count).select(schema.names).cast(schema)


def fetch_first(job: FirstJob, task: ScanTask) -> bytes:
    """The best rows of a task as one Arrow stream; memory is some batches and what is kept."""
    kept: list[pa.RecordBatch] = []
    rows = 0
    for batch in read_task(job.scan, task):
        kept.append(batch)
        rows += batch.num_rows
        if rows > max(_ROWS_KEPT_MIN, _GROWTH * job.rows):
            kept = _cut(kept, job).to_batches()
            rows = sum(one.num_rows for one in kept)
    if not kept:
        return b""
    sink = pa.BufferOutputStream()
    best = _cut(kept, job)
    with pa.ipc.new_stream(sink, best.schema) as writer:
        writer.write_table(best)
    return bytes(sink.getvalue())


def find_head(planned: PlannedScan, keys: Sequence[OrderKey]) -> Head | None:
    """The index that has the rows asked for in this order, of several the one that covers most."""
    snapshot, predicate = planned.snapshot, planned.plan.predicate
    if not planned.request.settings.use_indexes or isinstance(predicate, Constant):
        return None
    live = FrozenBitMap(fragment.id for fragment in snapshot.fragments)
    judged = (judge_index(snapshot, index, {}, live) for index in snapshot.indexes)
    heads = []
    for one in judged:
        if isinstance(one, Candidate) and one.of_kind is not None:
            probe = _plan_head(one.of_kind, planned, keys)
            if probe is not None:
                heads.append(Head(index=one.of_kind, probe=probe, covered=one.covered))
    return max(heads, key=lambda head: len(head.covered), default=None)


def _plan_head(index: KindIndex, planned: PlannedScan, keys: Sequence[OrderKey]) -> SearchProbe | None:
    if index.names_unseen_rows(()) or any(key.column not in index.columns for key in keys):
        return None
    parts = () if planned.plan.predicate is None else conjuncts(planned.plan.predicate)
    atoms = [read_atom(index.spec, index.columns, part) for part in parts]
    asked: tuple[Atom, ...] = tuple(atom for atom in atoms if atom is not None)
    if len(asked) < len(atoms):
        return None
    order = [(index.columns.index(key.column), key.descending) for key in keys]
    try:
        with calling(index.kind, "plan_search"):
            return index.kind.plan_search(index.spec, {"order_by": order, "atoms": asked})
    except LancewrightError:
        return None


def _answers(planned: PlannedScan, keys: Sequence[OrderKey], count: int) -> tuple[PortionAnswer, ...]:
    head = find_head(planned, keys)
    if head is None or count > planned.request.settings.probe_rows_max:
        return resolve_scan(planned).answers
    snapshot = planned.snapshot
    asker = KindAsker(planned.table, snapshot, {head.index.name: head.index})
    try:
        with ThreadPoolExecutor(_SEGMENTS_AT_ONCE) as pool:
            rows = unite(pool.map(lambda one: _first_rows(asker, head, one, count), head.index.segments))
    except LancewrightError as error:
        if planned.request.strict:
            raise CorruptIndexError(
                f"Index {head.index.name!r} of {planned.table.name} did not answer: {error.problem}",
                "Build it again with create_index(..., replace=True), or query without strict=True to scan instead.",
            ) from error
        return resolve_scan(planned).answers
    live = FrozenBitMap(fragment.id for fragment in snapshot.fragments)
    return (
        PortionAnswer(portion=_portion(planned, head.covered, settled=True), rows=rows),
        PortionAnswer(portion=_portion(planned, live - head.covered, settled=False), rows=None),
    )


def _portion(planned: PlannedScan, fragments: FrozenBitMap, *, settled: bool) -> Portion:
    rows = sum(planned.snapshot.fragments_by_id[fragment].rows for fragment in fragments)
    return Portion(fragments=fragments, rows=rows, residual=None if settled else planned.plan.predicate)


def _first_rows(asker: KindAsker, head: Head, segment: KindSegment, count: int) -> RowSet:
    """At least so many live rows of a segment, the first in the order, or all it has."""
    opened = asker.open(head.index, segment)
    wanted = count
    while True:
        with calling(head.index.kind, "search"):
            hits = opened.reader.search(head.probe, (), wanted, None)
        if len(hits.rows) and int(hits.rows.max()) >= opened.row_map.rows:
            raise CorruptIndexError(
                f"It named row {hits.rows.max()}, which does not exist", "Rebuild the index."
            )
        found = asker.locate(segment, opened, row_numbers(hits.rows))
        if len(found) >= count or len(hits.rows) < wanted:
            return row_set(found)
        wanted *= _GROWTH


def _widened(planned: PlannedScan, keys: Sequence[OrderKey]) -> PlannedScan:
    """With the columns of the order and the addresses; values kept beside an index may lack them, so they are not read.

    A scan would read every column whole, because any row may be among the first.
    """
    job = planned.job
    columns = tuple(dict.fromkeys((*job.columns, *(key.column for key in keys))))
    portions = tuple(replace(portion, covered_by=None) for portion in planned.plan.portions)
    known = {column.path: column for column in planned.snapshot.columns.values()}
    return replace(
        planned,
        job=replace(job, columns=columns, with_row_address=True, limit=None),
        plan=replace(planned.plan, portions=portions),
        cut=replace(planned.cut, widths=measure_widths(known, columns, columns)),
    )


def _cut(batches: Sequence[pa.RecordBatch], job: FirstJob) -> pa.Table:
    return cut_first(pa.Table.from_batches(batches), _names(job.keys), job.keys, job.rows)


def _names(keys: Sequence[OrderKey]) -> list[str]:
    return [split_path(key.column)[0] for key in keys]


def _run(scan_tasks: Sequence[ScanTask], job: FirstJob, runner: Runner) -> Iterator[bytes]:
    tasks = [
        Task(id=str(number), payload=task, label="scan", fragments=task.fragments, rows=task.row_count)
        for number, task in enumerate(scan_tasks)
    ]
    if not tasks:
        return
    outcomes: dict[str, Any] = run_tasks(runner, Job(worker=fetch_first, settings=job), tasks, ignore_outcome)
    for task in tasks:
        yield outcomes[task.id].result
