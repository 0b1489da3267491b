"""A ranked search through a kind of our own or of another package, as a caller holds it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewright.errors import CorruptIndexError, UnsupportedError
from lancewright.query.search.columns import find_outputs, read_outputs
from lancewright.query.search.explain import Run
from lancewright.query.search.kind_explain import explain_kind_search
from lancewright.query.search.kind_plan import (
    KindPlan,
    kind_job,
    kind_tasks,
    plan_kind_search,
)
from lancewright.query.search.kind_worker import FOUND_SCHEMA, Told
from lancewright.query.search.notes import SearchReason
from lancewright.query.search.rankers import SCORE
from lancewright.query.search.run import QUERY_INDEX, Hits, add_efforts, measure_answer
from lancewright.query.search.search import Search, make_frame
from lancewright.query.search.top_k import keep_best
from lancewright.runtime.runner import ignore_outcome, run_tasks
from lancewright.table.lance_compat import translating
from lancewright.table.opening import open_dataset
from lancewright.table.row_taker import take_columns

if TYPE_CHECKING:
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.query.search.explanation import SearchExplanation
    from lancewright.query.search.kind_request import KindRequest
    from lancewright.query.search.notes import SearchNote
    from lancewright.query.search.search import Frames
    from lancewright.runtime.runner import Runner
    from lancewright.table.location import TableRef

# What ranks a row, by which end is best; 64 bits, because a metre of 20,000 km is beyond 32.
_RANK_NAMES = {False: "_distance", True: "_score"}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class KindSearch(Search):
    """The rows that rank best by a query that a kind understands."""

    table: TableRef
    snapshot: TableSnapshot
    request: KindRequest
    columns: tuple[str, ...]
    runner: Runner
    frames: Frames | None = None
    _happened: list[SearchNote] = field(default_factory=list)

    def to_arrow(self) -> pa.Table:
        """Run the search and return the rows, best first."""
        plan = self.plan()
        return self._read(plan, self._find(plan).rows)

    def to_spark(self) -> Any:  # Any: a classic or a Connect DataFrame
        """Run the search and return the rows as a frame of the session the table was opened with."""
        return make_frame(self.frames, self.to_arrow())

    def schema(self) -> pa.Schema:
        """The schema of the rows, without a search."""
        nothing = FOUND_SCHEMA.empty_table()
        return self._answer(
            self.plan(), nothing, [pa.nulls(0, one.type) for one in self._read_columns()]
        ).schema

    def plan(self) -> KindPlan:
        """How the search is carried out."""
        return plan_kind_search(self.snapshot, self.request, self.runner.parallelism)

    def explain(self, *, analyze: bool = False) -> SearchExplanation:
        """The plan, with the reason of every choice; after a run also what went otherwise, with ``analyze`` what it took."""
        plan = self.plan()
        run = self._measure(plan) if analyze else None
        return explain_kind_search(plan, self.request, tuple(self._happened), run)

    def _find(self, plan: KindPlan) -> Hits:
        hits = find_ranked(self.table, plan, self.runner)
        self._happened[:] = hits.notes
        _refuse_damaged(plan, hits.notes)
        return hits

    def _measure(self, plan: KindPlan) -> Run:
        hits = self._find(plan)
        read = measure_answer(self.table, self.snapshot, hits.rows, self.columns)
        return Run(happened=hits.notes, efforts=hits.efforts, read=read)

    def __repr__(self) -> str:
        """Show what is searched."""
        asked = ", ".join(self.request.queries[0])
        return f"Search of {self.table.name} version {self.snapshot.version}: by {asked}"

    def _read_columns(self) -> Any:  # Any: the table's columns
        return read_outputs(self.snapshot, self.columns)

    def _read(self, plan: KindPlan, hits: pa.Table) -> pa.Table:
        columns = self._read_columns()
        pinned = self.table.pinned(self.snapshot.version)
        with translating(pinned, "read the rows found in"):
            values = take_columns(open_dataset(pinned), hits["_rowid"].to_numpy(), columns) if columns else []
        return self._answer(plan, hits, values)

    def _answer(self, plan: KindPlan, hits: pa.Table, values: list[pa.Array]) -> pa.Table:
        rank, read = _RANK_NAMES[plan.descending], iter(values)
        known = {rank: hits[SCORE], "_rowid": hits["_rowid"], "_rowaddr": hits["_rowaddr"]}
        answer: dict[str, Any] = {QUERY_INDEX: hits["query"]} if self.request.batch else {}
        for name in self.columns:
            answer[name] = known[name] if name in known else next(read)
        return pa.table({**answer, **({} if rank in answer else {rank: known[rank]})})


def prepare_kind_search(
    table: TableRef,
    snapshot: TableSnapshot,
    request: KindRequest,
    columns: tuple[str, ...] | None,
    runner: Runner,
    frames: Frames | None = None,
) -> KindSearch:
    """Check everything that can be checked without a task, so that a wrong request starts none."""
    plan_kind_search(snapshot, request, 1)
    return KindSearch(
        table=table,
        snapshot=snapshot,
        request=request,
        columns=find_outputs(snapshot, columns),
        runner=runner,
        frames=frames,
    )


def find_ranked(table: TableRef, plan: KindPlan, runner: Runner) -> Hits:
    """Run the plan's tasks, twice where all must know of each other first, and rank what they found."""
    tasks = tuple(kind_tasks(plan))
    notes: list[SearchNote] = []
    statistics, efforts = None, {}
    if plan.needs_statistics and tasks:
        told = run_tasks(runner, kind_job(table, plan), tasks, ignore_outcome)
        parts: list[Told] = [told[task.id].result for task in tasks]
        notes += [note for part in parts for note in part.notes]
        efforts = {task.id: part.effort for task, part in zip(tasks, parts, strict=True)}
        statistics = tuple(
            tuple(one for part in parts for one in part.statistics[place])
            for place in range(len(plan.choice.probes))
        )
    done = run_tasks(runner, kind_job(table, plan, statistics), tasks, ignore_outcome) if tasks else {}
    found = [done[task.id].result for task in tasks]
    notes += [note for one in found for note in one.notes]
    rows = pa.concat_tables([FOUND_SCHEMA.empty_table(), *(one.rows for one in found)])
    return Hits(
        rows=keep_best(rows, SCORE, plan.k, descending=plan.descending),
        notes=tuple(dict.fromkeys(notes)),
        efforts=add_efforts(efforts, {task.id: one.effort for task, one in zip(tasks, found, strict=True)}),
    )


def _refuse_damaged(plan: KindPlan, notes: tuple[SearchNote, ...]) -> None:
    """A search goes on around what cannot be asked, unless the caller wants to know."""
    for note in notes if plan.strict else ():
        words = f"Segment {note.subject} of index {plan.choice.name!r} cannot be asked: {note.explanation}"
        if note.reason is SearchReason.NO_PLUGIN:
            raise UnsupportedError(words, "Install what it needs, or search without strict=True.")
        raise CorruptIndexError(words, "Build it again with create_index(..., replace=True).")
