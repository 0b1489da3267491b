"""A nearest-neighbour join of a Spark frame, as a caller holds it: nothing runs until Spark is asked for rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lancewright.query.search.explain import SearchFacts, explain_search, gather_join
from lancewright.query.search.join_plan import JoinRequest, join_job, plan_join
from lancewright.query.search.partitions import count_partitions
from lancewright.query.search.search import Search
from lancewright.spark.failures import translate_spark_error
from lancewright.spark.search_join import join_frame, measure_join

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from lancewright.model.snapshot import TableSnapshot
    from lancewright.query.search.explain import Run
    from lancewright.query.search.explanation import SearchExplanation
    from lancewright.query.search.plan import VectorPlan
    from lancewright.runtime.runner import Runner
    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class FrameJoin(Search):
    """Every row of a frame with the rows nearest to it. Queries whose vector is NULL have none."""

    table: TableRef
    snapshot: TableSnapshot
    request: JoinRequest
    queries: DataFrame
    runner: Runner

    def to_spark(self) -> DataFrame:
        """The join as a frame that is not computed yet; the order of its rows is Spark's."""
        parallelism = self.runner.parallelism
        plan = plan_join(self.snapshot, self.request, parallelism)
        return join_frame(
            self.queries, join_job(self.table, plan, self.request), self.request.answer, parallelism
        )

    def to_arrow(self) -> pa.Table:
        """Run the join and bring its rows to the driver."""
        try:
            return self.to_spark().toArrow()
        except Exception as error:
            raise translate_spark_error(error, ()) from error

    def explain(self, *, analyze: bool = False) -> SearchExplanation:
        """What is searched how, with the reason of every choice; estimates are for one query, what it took is for all."""
        plan = plan_join(self.snapshot, self.request, self.runner.parallelism)
        facts = SearchFacts(scope=self.request.scope, partitions=count_partitions(self.table, plan))
        return explain_search(plan, replace(facts, run=self._measure(plan)) if analyze else facts)

    def _measure(self, plan: VectorPlan) -> Run:
        job = join_job(self.table, plan, self.request)
        try:
            told = measure_join(self.queries, job, self.runner.parallelism)
        except Exception as error:
            raise translate_spark_error(error, ()) from error
        return gather_join(told)


def query_schema(queries: DataFrame) -> pa.Schema:
    """The columns of a frame, in Arrow's types."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(queries.schema)
