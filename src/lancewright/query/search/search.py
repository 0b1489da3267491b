"""A search as a caller holds it: checked when it is made, run when an answer is asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from lancewright.errors import InvalidRequestError
from lancewright.query.search.columns import find_outputs
from lancewright.query.search.explain import Run, SearchFacts, explain_search
from lancewright.query.search.partitions import count_partitions
from lancewright.query.search.planner import plan_search
from lancewright.query.search.positions import check_positions
from lancewright.query.search.request import HybridRequest, VectorRequest, scope_of
from lancewright.query.search.run import answer_schema, find_hits, measure_answer, query_vectors, read_answer

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from lancewright.model.snapshot import TableSnapshot
    from lancewright.query.search.explanation import SearchExplanation
    from lancewright.query.search.notes import SearchNote
    from lancewright.query.search.plan import SearchPlan
    from lancewright.query.search.request import SearchRequest
    from lancewright.runtime.runner import Runner
    from lancewright.table.location import TableRef


class Frames(Protocol):
    """Makes frames of a Spark session."""

    def make_frame(self, table: pa.Table) -> Any:  # Any: a classic or a Connect DataFrame
        """A frame with the rows of an Arrow table."""
        ...


class Search(ABC):
    """A search on one version of a table: checked, and not run until an answer is asked for."""

    __slots__ = ()

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Run the search and return the rows, best first."""

    @abstractmethod
    def to_spark(self) -> Any:  # Any: a classic or a Connect DataFrame
        """The rows as a frame of the session the table was opened with."""

    @abstractmethod
    def explain(self, *, analyze: bool = False) -> SearchExplanation:
        """Say which index ranks and which helps the filter, and why the others do not; after a run also what went otherwise.

        ``analyze`` runs the search, keeps no row, and says what it took.
        """

    def to_pandas(self) -> pd.DataFrame:
        """Run the search and return the rows for pandas."""
        return self.to_arrow().to_pandas()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class RankedSearch(Search):
    """A search for what the driver has at hand: one vector, a matrix of them, a text, or both."""

    table: TableRef
    snapshot: TableSnapshot
    request: SearchRequest
    columns: tuple[str, ...]
    runner: Runner
    frames: Frames | None = None
    _happened: list[SearchNote] = field(default_factory=list)

    def to_arrow(self) -> pa.Table:
        """Run the search and return the rows."""
        plan = self.plan()
        hits = find_hits(self.table, plan, self.request, self.runner)
        self._happened[:] = hits.notes
        batch = isinstance(self.request, VectorRequest) and self.request.batch
        return read_answer(self.table, plan, hits.rows, self.columns, batch=batch)

    def to_spark(self) -> Any:  # Any: a classic or a Connect DataFrame
        """Run the search and return the rows as a frame of the session the table was opened with."""
        return make_frame(self.frames, self.to_arrow())

    def schema(self) -> pa.Schema:
        """The schema of the rows, without a search."""
        return answer_schema(self.snapshot, self.request, self.columns)

    def plan(self) -> SearchPlan:
        """How the search is carried out."""
        return plan_search(self.snapshot, self.request, self.runner.parallelism)

    def explain(self, *, analyze: bool = False) -> SearchExplanation:
        """The plan, with the reason of every choice; after a run also what went otherwise, with ``analyze`` what it took."""
        plan = self.plan()
        facts = SearchFacts(
            scope=scope_of(self.request),
            queries=len(self.request.vectors) if isinstance(self.request, VectorRequest) else 1,
            partitions=count_partitions(self.table, plan),
            happened=tuple(self._happened),
        )
        return explain_search(plan, replace(facts, run=self._measure(plan)) if analyze else facts)

    def _measure(self, plan: SearchPlan) -> Run:
        hits = find_hits(self.table, plan, self.request, self.runner)
        self._happened[:] = hits.notes
        read = measure_answer(self.table, self.snapshot, hits.rows, self.columns)
        return Run(happened=hits.notes, efforts=hits.efforts, read=read)

    def __repr__(self) -> str:
        """Show what is searched."""
        return f"Search of {self.table.name} version {self.snapshot.version}: {type(self.request).__name__}"


def prepare_search(
    table: TableRef,
    snapshot: TableSnapshot,
    request: SearchRequest,
    columns: tuple[str, ...] | None,
    runner: Runner,
    frames: Frames | None = None,
) -> RankedSearch:
    """Check everything that can be checked without a task, so that a wrong request starts none."""
    plan = plan_search(snapshot, request, 1)
    check_positions(table, plan)
    vector = request.vector if isinstance(request, HybridRequest) else request
    if isinstance(vector, VectorRequest):
        query_vectors(snapshot, vector)
    return RankedSearch(
        table=table,
        snapshot=snapshot,
        request=request,
        columns=find_outputs(snapshot, columns),
        runner=runner,
        frames=frames,
    )


def make_frame(frames: Frames | None, rows: pa.Table) -> Any:  # Any: a classic or a Connect DataFrame
    """The rows as a frame; raises when there is no session to make it in."""
    if frames is None:
        raise InvalidRequestError(
            "The table was opened without a Spark session",
            "Pass spark= to lancewright.open, or use to_arrow().",
        )
    return frames.make_frame(rows)
