"""Answers whether a compaction could leave a range-partitioned BTree with an empty range. Pure.

Lance 14 rewrites such an index at once when it compacts, unless the table defers that, and keeps a part whose rows are
all gone as a part without pages. From then on every query on the column fails. The first part may be empty, and an index
of one part is empty only when it covers nothing any more, so both are safe.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancewright.table.config import DEFER_REMAP_KEY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lancewright.model.index import Segment
    from lancewright.model.snapshot import TableSnapshot

BTREE_TYPE_URL = "/lance.table.BTreeIndexDetails"
_PART_FILE = re.compile(r"(?:.*/)?part_\d+_page_data\.lance\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyRangeRisk:
    """The segments that a compaction may break, why, and what to do about it."""

    segments: tuple[Segment, ...]
    reason: str
    remedy: str


def find_empty_range_risk(snapshot: TableSnapshot, name: str) -> EmptyRangeRisk | None:
    """Say whether some engine's compaction may make queries on this index's column fail; None when it cannot.

    Looks at the manifest only: whether a range has lost all its rows already is not known from it.
    """
    at_risk = find_ranged(snapshot.segments_named(name))
    if not at_risk or defers_remap(snapshot):
        return None
    if snapshot.stable_row_ids:
        return EmptyRangeRisk(
            segments=at_risk,
            reason="the table has stable row ids, so every compaction rewrites its indexes at once",
            remedy="Build the index again without keep_ranges=True.",
        )
    return EmptyRangeRisk(
        segments=at_risk,
        reason=f"the table's {DEFER_REMAP_KEY} is not 'true', so a compaction rewrites its indexes at once",
        remedy=f"Set the table's {DEFER_REMAP_KEY} to 'true', or build the index again.",
    )


def find_ranged(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """The segments of more than one range: those that can come to have an empty one."""
    return tuple(
        segment for segment in segments if segment.type_url == BTREE_TYPE_URL and count_parts(segment) > 1
    )


def count_parts(segment: Segment) -> int:
    """How many part files a segment lists; a plain one has none."""
    return sum(1 for file in segment.files or () if _PART_FILE.match(file.path))


def defers_remap(snapshot: TableSnapshot) -> bool:
    """True when engines that obey the table's settings leave its indexes alone when they compact it.

    With stable row ids Lance refuses to defer, whatever the setting says.
    """
    return not snapshot.stable_row_ids and snapshot.config.get(DEFER_REMAP_KEY) == "true"
