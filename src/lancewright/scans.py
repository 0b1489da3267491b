"""The lazy scan that ``Table.scan`` gives: nothing is read until rows, a count or an explanation is asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lancewright.errors import UnsupportedError
from lancewright.query.explain import Explanation, explain_measured, explain_plan
from lancewright.query.ordered import run_ordered
from lancewright.query.resolve import ResolvedScan, ScanRequest, plan_scan, resolve_scan
from lancewright.query.run import count_scan, measure_scan, run_scan
from lancewright.spark.frames import SparkFrames
from lancewright.spark.runner import SparkRunner
from lancewright.spark.scan_frame import scan_frame

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from lancewright.runtime.runner import Runner
    from lancewright.table.location import TableRef


@dataclass(frozen=True, kw_only=True, repr=False)
class Scan:
    """Rows of a table, to be had in several ways. Each way reads the latest version, or the one the table is pinned to."""

    table: TableRef
    request: ScanRequest
    runner: Runner

    def schema(self) -> pa.Schema:
        """The schema of the rows, without a scan."""
        planned = plan_scan(self.table, self.request, self.runner.parallelism)
        return ResolvedScan(planned=planned, answers=(), tasks=()).schema()

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table in this process."""
        if self.request.order_by:
            return run_ordered(self.table, self.request, self.runner)
        return run_scan(self._resolve(), self.runner)

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas frame in this process."""
        return self.to_arrow().to_pandas()

    def to_spark(self) -> Any:  # Any: a classic or a Connect frame, which share no public base
        """The rows as a Spark frame. The indexes are asked now; rows are read when Spark asks for them, with ``order_by`` now."""
        if not isinstance(self.runner, SparkRunner):
            raise UnsupportedError(
                "This table was opened without a Spark session", "Open it with lw.open(uri, spark=spark)."
            )
        if self.request.order_by:
            return SparkFrames(self.runner.session).make_frame(self.to_arrow())
        return scan_frame(self.runner.session, self._resolve())

    def count(self) -> int:
        """How many rows there are. Rows that an index names for sure are counted without being read."""
        request = replace(self.request, counting=True)
        return count_scan(resolve_scan(plan_scan(self.table, request, self.runner.parallelism)), self.runner)

    def explain(self, *, analyze: bool = False) -> Explanation:
        """Say which index answers what, and why the others do not; with ``analyze``, run the query and say what it took."""
        if not analyze:
            return explain_plan(plan_scan(self.table, self.request, self.runner.parallelism))
        scan = self._resolve()
        return explain_measured(scan, measure_scan(scan, self.runner))

    def __repr__(self) -> str:
        """Name the table and the filter."""
        where = "" if self.request.where is None else f" where {self.request.where}"
        return f"Scan of {self.table.name}{where}"

    def _resolve(self) -> ResolvedScan:
        return resolve_scan(plan_scan(self.table, self.request, self.runner.parallelism))
