"""Chooses how a search's filter reaches its tasks: as the rows that indexes name for sure, or as a condition for Lance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancewright.model.predicate import FALSE, to_lance_sql
from lancewright.model.row_set import RowSet, unite
from lancewright.query.explain import explain_measured, explain_plan
from lancewright.query.resolve import ROW_ADDRESS, ResolvedScan, ScanRequest, plan_scan, resolve_scan
from lancewright.query.search.request import RowsPrefilter, SqlPrefilter

if TYPE_CHECKING:
    from lancewright.model.predicate import Expression, Predicate
    from lancewright.query.explain import Explanation
    from lancewright.query.search.request import Prefilter
    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterRequest:
    """The filter of a search on a table pinned to a version: as a caller wrote it, or ``bound`` to its columns."""

    table: TableRef
    where: str | Expression | None = None
    bound: Predicate | None = None
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredFilter:
    """A search's filter as its tasks get it, and how that came about; ``scan`` of None: there is no condition at all.

    ``scan`` has been asked when the indexes answered for all rows; of one that was only planned it has no answers.
    """

    prefilter: Prefilter
    scan: ResolvedScan | None = None

    def explain(self) -> Explanation | None:
        """Which index answers what of the filter, and why the others do not."""
        if self.scan is None:
            return None
        return explain_measured(self.scan, ()) if self.scan.answers else explain_plan(self.scan.planned)


def choose_prefilter(request: FilterRequest) -> Prefilter:
    """The filter in the form its tasks get it; see ``answer_filter``."""
    return answer_filter(request).prefilter


def answer_filter(request: FilterRequest) -> AnsweredFilter:
    """The rows themselves when indexes name them all and nothing is left to check; else the condition.

    With the rows, no task evaluates the filter: each gets those of its own fragments. Of any kind of index, also of one that
    Lance does not know. The condition is in the form in which Lance reads it right (decision 0013).
    """
    if request.where is None and request.bound is None:
        return AnsweredFilter(prefilter=None)
    scan = ScanRequest(
        where=request.where, bound=request.bound, columns=(ROW_ADDRESS,), strict=request.strict
    )
    planned = plan_scan(request.table, scan, parallelism=1)
    unasked = ResolvedScan(planned=planned, answers=(), tasks=())
    predicate = planned.plan.predicate
    if predicate is None:
        return AnsweredFilter(prefilter=None, scan=unasked)
    native = any(portion.native_indexes for portion in planned.plan.portions)
    whole = SqlPrefilter(sql=to_lance_sql(predicate), native_indexes=native)
    if predicate == FALSE:
        return AnsweredFilter(prefilter=RowsPrefilter(rows=RowSet({})), scan=unasked)
    if any(portion.probe is None or portion.residual is not None for portion in planned.plan.portions):
        return AnsweredFilter(prefilter=whole, scan=unasked)
    asked = resolve_scan(planned)
    named = [answer.rows for answer in asked.answers if answer.rows is not None]
    settled = len(named) == len(asked.answers) and all(
        answer.portion.residual is None for answer in asked.answers
    )
    return AnsweredFilter(prefilter=RowsPrefilter(rows=unite(named)) if settled else whole, scan=asked)
