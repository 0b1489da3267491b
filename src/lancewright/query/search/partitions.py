"""Reads into how many partitions a vector index is cut, for an estimate of what a search looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewright.errors import LancewrightError
from lancewright.kinds.lance_native.inheritance import read_options
from lancewright.kinds.registry import find_kind
from lancewright.query.search.plan import HybridPlan, VectorPlan
from lancewright.table.segment_reader import SegmentReader

if TYPE_CHECKING:
    from lancewright.query.search.plan import SearchPlan
    from lancewright.table.location import TableRef


def count_partitions(table: TableRef, plan: SearchPlan) -> int | None:
    """The partitions of the first segment of the plan's index that says so; None when no segment is asked or says it."""
    vector = plan.vector if isinstance(plan, HybridPlan) else plan
    if not isinstance(vector, VectorPlan) or vector.index is None:
        return None
    pinned = table.pinned(plan.snapshot.version)
    for segment in vector.index.segments:
        try:
            kind = find_kind(vector.index.kind)
            return len(read_options(kind, segment, SegmentReader(pinned, segment))["ivf_centroids"])
        except (LancewrightError, KeyError):
            continue
    return None
