"""Refuses to search words in a row where an index does not keep where they stand: each task would fail, and be tried again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewright.errors import InvalidRequestError, LancewrightError
from lancewright.kinds.lance_native.inheritance import read_options
from lancewright.kinds.registry import find_kind
from lancewright.model.text_query import Phrase, walk_query
from lancewright.query.search.columns import TEXT_KIND
from lancewright.query.search.plan import HybridPlan, TextPlan
from lancewright.table.segment_reader import SegmentReader

if TYPE_CHECKING:
    from lancewright.query.search.plan import SearchPlan
    from lancewright.table.location import TableRef


def check_positions(table: TableRef, plan: SearchPlan) -> None:
    """Read one small file of the index when the query has a phrase; of a damaged index nothing is known, and nothing refused."""
    text = plan.text if isinstance(plan, HybridPlan) else plan
    if not isinstance(text, TextPlan) or text.index is None:
        return
    if not any(isinstance(part, Phrase) for part in walk_query(text.query)):
        return
    pinned = table.pinned(plan.snapshot.version)
    for segment in text.index.segments:
        try:
            options = read_options(find_kind(TEXT_KIND), segment, SegmentReader(pinned, segment))
        except LancewrightError:
            continue
        if not options.get("with_position"):
            raise InvalidRequestError(
                f"Text index {text.index.name!r} does not keep where words stand, which a phrase asks for",
                "Build it again with with_position=True, or search with operator='and'.",
            )
        return
