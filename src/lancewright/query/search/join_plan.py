"""Plans a nearest-neighbour join: which column of the queries holds their vectors, and what the answer looks like. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewright.errors import InvalidRequestError
from lancewright.query.search.columns import (
    find_outputs,
    find_vector_column,
    read_outputs,
)
from lancewright.query.search.join import JoinJob, JoinPart
from lancewright.query.search.tasks import row_filter, vector_settings
from lancewright.query.search.vector_planner import plan_vector_search, rescore
from lancewright.table.vector_search import DISTANCE, NEAREST_SCHEMA

if TYPE_CHECKING:
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.query.search.plan import VectorPlan
    from lancewright.query.search.request import Scope, VectorTuning
    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """What every query of a frame asks for, which of its columns holds the vectors, and what is returned of the table."""

    scope: Scope
    tuning: VectorTuning
    query_column: str
    names: tuple[str, ...]
    answer: pa.Schema


def check_join(
    snapshot: TableSnapshot,
    queries: pa.Schema,
    scope: Scope,
    tuning: VectorTuning,
    wanted: tuple[str | None, tuple[str, ...] | None],
) -> JoinRequest:
    """Check all that the schema of the queries tells; ``wanted`` is their vector column and the table's columns to return."""
    plan_vector_search(snapshot, scope, tuning, 1)
    column, outputs = wanted
    names = tuple(name for name in find_outputs(snapshot, outputs) if name != DISTANCE)
    return JoinRequest(
        scope=scope,
        tuning=tuning,
        query_column=_query_column(queries, column),
        names=names,
        answer=_answer_schema(snapshot, queries, names),
    )


def plan_join(snapshot: TableSnapshot, request: JoinRequest, parallelism: int) -> VectorPlan:
    """As the search of one vector, but every distance is exact: no part learns whether another had to search exactly."""
    return rescore(plan_vector_search(snapshot, request.scope, request.tuning, parallelism))


def join_job(table: TableRef, plan: VectorPlan, request: JoinRequest) -> JoinJob:
    """What the tasks of a join share."""
    settings = vector_settings(table, plan)
    assert settings is not None, "a plan for vectors has settings"  # noqa: S101 - see vector_settings
    prefilter = request.scope.prefilter
    return JoinJob(
        settings=settings,
        parts=tuple(JoinPart(group=group, rows=row_filter(plan, group, prefilter)) for group in plan.groups),
        column=find_vector_column(plan.snapshot, request.scope.column),
        query_column=request.query_column,
        names=request.names,
        columns=read_outputs(plan.snapshot, request.names),
    )


def _query_column(queries: pa.Schema, name: str | None) -> str:
    if name is not None:
        if name not in queries.names:
            raise InvalidRequestError(
                f"The queries have no column {name!r}",
                f"Pass query_column= as one of: {', '.join(queries.names)}.",
            )
        if not _holds_vectors(queries.field(name).type):
            raise InvalidRequestError(
                f"Column {name!r} of the queries is {queries.field(name).type}",
                "Name a column of lists of numbers.",
            )
        return name
    found: list[str] = [field.name for field in queries if _holds_vectors(field.type)]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(found) or "none"
    raise InvalidRequestError(
        f"Columns of the queries that may hold vectors: {listed}", "Name it with query_column=."
    )


def _holds_vectors(type_: pa.DataType) -> bool:
    is_list = pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_)
    return bool(is_list and (pa.types.is_floating(type_.value_type) or pa.types.is_integer(type_.value_type)))


def _answer_schema(snapshot: TableSnapshot, queries: pa.Schema, names: tuple[str, ...]) -> pa.Schema:
    both = sorted(set(queries.names) & {*names, DISTANCE})
    if both:
        raise InvalidRequestError(
            f"The queries and the answer both have the columns {', '.join(both)}",
            "Rename them in the queries, or choose others of the table with columns=.",
        )
    read = iter(read_outputs(snapshot, names))
    fields = list(queries)
    for name in names:
        known = name in NEAREST_SCHEMA.names
        fields.append(NEAREST_SCHEMA.field(name) if known else pa.field(name, next(read).type))
    return pa.schema([*fields, NEAREST_SCHEMA.field(DISTANCE)])
