"""Chooses how a search's filter reaches its tasks: as the rows that indexes name for sure, or as a condition for Lance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancewright.model.predicate import FALSE, to_lance_sql
from lancewright.model.row_set import RowSet, unite
from lancewright.query.resolve import ROW_ADDRESS, ScanRequest, plan_scan, resolve_scan
from lancewright.query.search.request import RowsPrefilter, SqlPrefilter

if TYPE_CHECKING:
    from lancewright.model.predicate import Expression, Predicate
    from lancewright.query.search.request import Prefilter
    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterRequest:
    """The filter of a search on a table pinned to a version: as a caller wrote it, or ``bound`` to its columns."""

    table: TableRef
    where: str | Expression | None = None
    bound: Predicate | None = None
    strict: bool = False


def choose_prefilter(request: FilterRequest) -> Prefilter:
    """The rows themselves when indexes name them all and nothing is left to check; else the condition.

    With the rows, no task evaluates the filter: each gets those of its own fragments. Of any kind of index, also of one that
    Lance does not know. The condition is in the form in which Lance reads it right (decision 0013).
    """
    if request.where is None and request.bound is None:
        return None
    scan = ScanRequest(
        where=request.where, bound=request.bound, columns=(ROW_ADDRESS,), strict=request.strict
    )
    planned = plan_scan(request.table, scan, parallelism=1)
    predicate = planned.plan.predicate
    if predicate is None:
        return None
    native = any(portion.native_indexes for portion in planned.plan.portions)
    whole = SqlPrefilter(sql=to_lance_sql(predicate), native_indexes=native)
    if predicate == FALSE:
        return RowsPrefilter(rows=RowSet({}))
    if any(portion.probe is None or portion.residual is not None for portion in planned.plan.portions):
        return whole
    answers = resolve_scan(planned).answers
    named = [answer.rows for answer in answers if answer.rows is not None]
    settled = len(named) == len(answers) and all(answer.portion.residual is None for answer in answers)
    return RowsPrefilter(rows=unite(named)) if settled else whole
