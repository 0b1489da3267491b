"""Plans whichever search was asked for. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewright.query.search.plan import HybridPlan
from lancewright.query.search.request import HybridRequest, TextRequest, VectorRequest
from lancewright.query.search.text_planner import plan_text_search
from lancewright.query.search.vector_planner import plan_vector_search

if TYPE_CHECKING:
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.query.search.plan import SearchPlan
    from lancewright.query.search.request import SearchRequest


def plan_search(snapshot: TableSnapshot, request: SearchRequest, parallelism: int) -> SearchPlan:
    """Say how a request is answered on one version of a table, with so many tasks at once."""
    match request:
        case VectorRequest(scope=scope, tuning=tuning):
            return plan_vector_search(snapshot, scope, tuning, parallelism)
        case TextRequest():
            return plan_text_search(snapshot, request)
        case HybridRequest(vector=vector, text=text, k=k, rank_constant=constant):
            return HybridPlan(
                vector=plan_vector_search(snapshot, vector.scope, vector.tuning, parallelism),
                text=plan_text_search(snapshot, text),
                k=k,
                rank_constant=constant,
            )
