"""Resolves a scan, once and on the driver: snapshot, plan, the indexes' answers, tasks. The tasks never ask an index."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyroaring import FrozenBitMap

from lancewright.errors import CorruptIndexError, InvalidRequestError, UnsupportedError
from lancewright.model.columns import find_outside_lists, refuse_doubled
from lancewright.model.computed import base_columns, computed_columns
from lancewright.model.index import SkipReason
from lancewright.model.predicate import (
    Constant,
    columns_of,
    leaves_to_lance,
    resolve_where,
    simplify,
    to_lance_sql,
    to_negation_normal_form,
)
from lancewright.model.request import require_type
from lancewright.query.answers import IndexSources, PortionAnswer, ask_indexes
from lancewright.query.costs import measure_widths
from lancewright.query.covering import Wanted, mark_covered
from lancewright.query.kind_index import is_kind_index
from lancewright.query.kind_rows import KindAsker
from lancewright.query.plan import UNUSABLE
from lancewright.query.planner import PlanInput, plan_query
from lancewright.query.reading_statistics import read_statistics
from lancewright.query.settings import ScanSettings
from lancewright.query.statistics import IndexStatistics
from lancewright.query.tasks import ScanTask, TaskInput, plan_tasks
from lancewright.query.trust import Candidate, Doubt, Past, judge_index, judge_past, list_suspects
from lancewright.query.worker import ScanJob, count_task
from lancewright.table.filter_check import check_filter
from lancewright.table.history import read_history
from lancewright.table.index_reader import IndexReader
from lancewright.table.row_reader import read_schema
from lancewright.table.snapshot_reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import pyarrow as pa

    from lancewright.model.computed import ComputedColumn
    from lancewright.model.predicate import Expression, Predicate
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.query.ordering import OrderKey
    from lancewright.query.plan import QueryPlan
    from lancewright.table.location import TableRef

# Every version costs two small requests. Past this many, what an index names is checked again instead.
_VERSIONS_READ_MAX = 64
ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"


@dataclass(frozen=True, kw_only=True)
class ScanRequest:
    """What a caller wants: a filter, columns (None: all), at most so many rows.

    The filter is text or an expression, or ``bound``: a tree over this table's columns. ``order_by``: the first rows in this order,
    for ``query.ordered``. ``counting``: only their number is wanted, so an index may name more rows than it would pay to read.
    """

    where: str | Expression | None = None
    bound: Predicate | None = None
    columns: tuple[str, ...] | None = None
    limit: int | None = None
    order_by: tuple[OrderKey, ...] = ()
    strict: bool = False
    counting: bool = False
    settings: ScanSettings = field(default_factory=ScanSettings)

    def __post_init__(self) -> None:
        """Refuse a limit that is none, and names that are none."""
        if self.columns == ():  # rows without columns are nothing that Arrow's streams or Spark can count
            raise InvalidRequestError(
                "columns= names no column", "Name one, or call count() for how many rows there are."
            )
        for name in self.columns or ():
            if not isinstance(name, str):
                raise InvalidRequestError(f"columns= holds {name!r}", "Pass a list of column names.")
        refuse_doubled(self.columns or (), "columns=")
        require_type("strict", self.strict, bool)
        if not _is_limit(self.limit):
            raise InvalidRequestError(
                f"limit={self.limit!r} is no number of rows", "Pass a whole number, 0 or more."
            )
        if self.order_by and self.limit is None:
            raise InvalidRequestError(
                "order_by was given without limit",
                "Pass limit=, how many of the first rows you want; to sort them all, use Spark's orderBy.",
            )


@dataclass(frozen=True, kw_only=True)
class PlannedScan:
    """A scan whose plan is made and whose indexes have not been asked."""

    table: TableRef
    snapshot: TableSnapshot
    request: ScanRequest
    plan: QueryPlan
    sources: IndexSources | None
    root_bytes: int
    cut: TaskInput
    job: ScanJob


@dataclass(frozen=True, kw_only=True)
class ResolvedScan:
    """A scan ready to run: nothing is left to decide, and no index to ask."""

    planned: PlannedScan
    answers: tuple[PortionAnswer, ...]
    tasks: tuple[ScanTask, ...]

    @property
    def job(self) -> ScanJob:
        """What the tasks share."""
        return self.planned.job

    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return read_schema(
            self.job.table,
            self.job.columns,
            with_row_id=self.job.with_row_id,
            with_row_address=self.job.with_row_address,
        )


def plan_scan(table: TableRef, request: ScanRequest, parallelism: int) -> PlannedScan:
    """Read the snapshot and the small files at the root of the indexes in question, and plan."""
    snapshot = read_snapshot(table)
    pinned = table.pinned(snapshot.version)
    computed = computed_columns(snapshot)
    predicate = _predicate(request, snapshot, computed)
    if predicate is not None and leaves_to_lance(predicate):
        # A task that fails over it would be tried again.
        check_filter(pinned, to_lance_sql(predicate))
    job = _job(pinned, request, snapshot)
    subjects = () if predicate is None else columns_of(predicate)
    asked = base_columns(subjects, computed)
    candidates = _candidates(snapshot, {*subjects, *asked}) if request.settings.use_indexes else []
    sources = _open_sources(pinned, snapshot, candidates) if candidates else None
    statistics = IndexStatistics() if sources is None else sources.statistics
    if request.strict:
        _refuse_unreadable(snapshot, set(asked))
        _refuse_broken(statistics, pinned)
    columns = {column.path: column for column in snapshot.columns.values()}
    widths = measure_widths(columns, asked, () if request.counting else job.columns)
    plan = plan_query(
        snapshot,
        PlanInput(
            predicate=predicate,
            widths=widths,
            statistics=statistics,
            settings=request.settings,
            doubts=find_doubts(pinned, snapshot, asked),
        ),
    )
    _refuse_unusable(request, snapshot, plan, asked)
    kinds = {} if sources is None else sources.kinds.indexes
    wanted = Wanted(columns=job.columns, with_rows=job.with_row_id or job.with_row_address)
    plan = mark_covered(snapshot, plan, kinds, wanted)
    return PlannedScan(
        table=pinned,
        snapshot=snapshot,
        request=request,
        plan=plan,
        sources=sources,
        root_bytes=0 if sources is None else sources.reader.root_bytes,
        cut=TaskInput(
            widths=widths,
            settings=request.settings,
            parallelism=parallelism,
            kinds=kinds,
            wanted=wanted,
        ),
        job=job,
    )


def resolve_scan(planned: PlannedScan) -> ResolvedScan:
    """Ask the indexes and cut the tasks."""
    answers = ask_indexes(planned.plan, planned.sources, strict=planned.request.strict)
    tasks = plan_tasks(planned.snapshot, planned.plan, answers, planned.cut)
    if planned.request.strict:
        _refuse_broken_in_tasks(planned.job, tasks)
    return ResolvedScan(planned=planned, answers=answers, tasks=tasks)


def find_doubts(table: TableRef, snapshot: TableSnapshot, columns: Collection[str]) -> dict[str, Doubt]:
    """The indexes on these columns that the history does not clear: values were updated since, or nobody knows."""
    doubts = {}
    for index in list_suspects(snapshot, columns):
        oldest = min(segment.dataset_version for segment in index.segments)
        history = read_history(table, oldest, snapshot.version, _VERSIONS_READ_MAX)
        past = Past(
            known=history.complete,
            rows_moved=history.rows_moved,
            rewritten_fields=history.rewritten_fields,
        )
        doubt = judge_past(snapshot, index, past)
        if doubt is not None:
            doubts[index.name] = doubt
    return doubts


def _is_limit(limit: object) -> bool:
    return limit is None or (isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0)


def _predicate(
    request: ScanRequest, snapshot: TableSnapshot, computed: Mapping[str, ComputedColumn]
) -> Predicate | None:
    bound = request.bound
    if bound is None:
        bound = resolve_where(request.where, snapshot.columns, computed)
    if bound is None:
        return None
    normal = simplify(to_negation_normal_form(bound))
    return None if normal == Constant(value=True) else normal


def _job(table: TableRef, request: ScanRequest, snapshot: TableSnapshot) -> ScanJob:
    asked = tuple(snapshot.schema.names) if request.columns is None else request.columns
    named = (column for column in asked if column not in {ROW_ID, ROW_ADDRESS})
    paths = dict.fromkeys(find_outside_lists(snapshot.columns, column).path for column in named)
    return ScanJob(
        table=table,
        stable_row_ids=snapshot.stable_row_ids,
        columns=tuple(paths),
        with_row_id=ROW_ID in asked,
        with_row_address=ROW_ADDRESS in asked,
        limit=request.limit,
        strict=request.strict,
    )


def _candidates(snapshot: TableSnapshot, columns: set[str]) -> list[Candidate]:
    live = FrozenBitMap(fragment.id for fragment in snapshot.fragments)
    judged = (judge_index(snapshot, index, {}, live) for index in snapshot.indexes)
    return [one for one in judged if isinstance(one, Candidate) and not columns.isdisjoint(one.columns)]


def _open_sources(table: TableRef, snapshot: TableSnapshot, candidates: Sequence[Candidate]) -> IndexSources:
    reader = IndexReader(table)
    kinds = {one.name: one.of_kind for one in candidates if one.of_kind is not None}
    return IndexSources(
        reader=reader,
        statistics=read_statistics(reader, [one for one in candidates if one.of_kind is None]),
        kinds=KindAsker(table, snapshot, kinds),
    )


def _refuse_unusable(
    request: ScanRequest, snapshot: TableSnapshot, plan: QueryPlan, columns: Collection[str]
) -> None:
    """Strict queries do not go around an index of another kind that cannot be used here."""
    if not request.strict or not request.settings.use_indexes:
        return
    asked = {
        index.name
        for index in snapshot.indexes
        if is_kind_index(index) and not set(columns).isdisjoint(index.columns)
    }
    for note in plan.notes:
        if note.index in asked and note.reason in UNUSABLE:
            raise UnsupportedError(
                f"Index {note.index!r} of {plan.table} cannot be used: {note.reason.value}, {note.explanation}",
                "Mend that, or query without strict=True to scan instead.",
            )


def _refuse_unreadable(snapshot: TableSnapshot, columns: set[str]) -> None:
    """Refuse when a segment that would help is of a kind or version that is not known here."""
    for index in snapshot.indexes:
        for entry in index.skipped:
            if entry.reason is not SkipReason.COLUMN_DROPPED and not columns.isdisjoint(index.columns):
                raise UnsupportedError(
                    f"Index {index.name!r} of {snapshot.uri} cannot be read: {entry.explanation}",
                    "Use the release that reads it, rebuild it, or query without strict=True to scan instead.",
                )


def _refuse_broken_in_tasks(job: ScanJob, tasks: Collection[ScanTask]) -> None:
    """Have Lance ask its own indexes once here: a task that fails would be tried again, and nothing would be mended."""
    first = next((task for task in tasks if task.native_indexes), None)
    if first is not None:
        count_task(job, replace(first, fragments=first.fragments[:1]))


def _refuse_broken(statistics: IndexStatistics, table: TableRef) -> None:
    if statistics.broken:
        name, problem = next(iter(statistics.broken.items()))
        raise CorruptIndexError(
            f"Index {name!r} of {table.name} cannot be read: {problem}",
            "Build it again with create_index(..., replace=True), or query without strict=True to scan instead.",
        )
