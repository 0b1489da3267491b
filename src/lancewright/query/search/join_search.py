"""A nearest-neighbour join of queries that the driver has at hand, as an Arrow table or a pandas frame."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lancewright.query.search.columns import find_vector_column, fit_vectors
from lancewright.query.search.explain import Run, SearchFacts, explain_search
from lancewright.query.search.join import attach_queries, read_matrix
from lancewright.query.search.join_plan import JoinRequest, join_job, plan_join
from lancewright.query.search.partitions import count_partitions
from lancewright.query.search.request import VectorRequest
from lancewright.query.search.run import Hits, find_hits, measure_answer
from lancewright.query.search.search import Search, make_frame
from lancewright.table.opening import open_dataset
from lancewright.table.vector_search import NEAREST_SCHEMA

if TYPE_CHECKING:
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.query.search.explanation import SearchExplanation
    from lancewright.query.search.plan import VectorPlan
    from lancewright.query.search.search import Frames
    from lancewright.runtime.runner import Runner
    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class TableJoin(Search):
    """Every row of a small table with the rows nearest to it. Queries whose vector is NULL have none."""

    table: TableRef
    snapshot: TableSnapshot
    request: JoinRequest
    queries: pa.Table
    runner: Runner
    frames: Frames | None = None

    def to_arrow(self) -> pa.Table:
        """Run the join and return, for each query in turn, its rows, nearest first."""
        plan = plan_join(self.snapshot, self.request, self.runner.parallelism)
        job = join_job(self.table, plan, self.request)
        if not len(self.queries):
            return self.request.answer.empty_table()
        hits = find_hits(self.table, plan, self._vectors(), self.runner).rows
        return attach_queries(open_dataset(job.settings.table), job, self.queries, hits)

    def to_spark(self) -> Any:  # Any: a classic or a Connect DataFrame
        """Run the join and return the rows as a frame of the session the table was opened with."""
        return make_frame(self.frames, self.to_arrow())

    def explain(self, *, analyze: bool = False) -> SearchExplanation:
        """What is searched how, with the reason of every choice; with ``analyze`` what it took."""
        plan = plan_join(self.snapshot, self.request, self.runner.parallelism)
        facts = SearchFacts(
            scope=self.request.scope,
            queries=len(self.queries),
            partitions=count_partitions(self.table, plan),
        )
        return explain_search(plan, replace(facts, run=self._measure(plan)) if analyze else facts)

    def _measure(self, plan: VectorPlan) -> Run:
        hits = Hits(rows=NEAREST_SCHEMA.empty_table())
        if len(self.queries):
            hits = find_hits(self.table, plan, self._vectors(), self.runner)
        read = measure_answer(self.table, self.snapshot, hits.rows, self.request.names)
        return Run(happened=hits.notes, efforts=hits.efforts, read=read)

    def _vectors(self) -> VectorRequest:
        return VectorRequest(
            vectors=read_matrix(combined(self.queries[self.request.query_column])),
            batch=True,
            scope=self.request.scope,
            tuning=self.request.tuning,
        )


def with_vectors(snapshot: TableSnapshot, request: JoinRequest, queries: pa.Table) -> pa.Table:
    """The queries that have a vector; raises when one of them does not fit the table's column."""
    whole = queries.filter(pc.is_valid(queries[request.query_column]))
    if len(whole):
        column = find_vector_column(snapshot, request.scope.column)
        fit_vectors(column, read_matrix(combined(whole[request.query_column])))
    return whole


def combined(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else whole.chunk(0)
