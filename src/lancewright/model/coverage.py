"""Answers which fragments an index can be trusted for, and why not for the others. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyroaring import BitMap, FrozenBitMap

if TYPE_CHECKING:
    from lancewright.model.index import IndexState, Segment
    from lancewright.model.snapshot import Fragment, TableSnapshot


class GapReason(enum.StrEnum):
    """Why a live fragment is not covered."""

    NOT_INDEXED = "not_indexed"
    COLUMN_REWRITTEN = "column_rewritten"
    SEGMENT_SKIPPED = "segment_skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """One live fragment that no usable segment covers: it has to be scanned."""

    fragment_id: int
    rows: int
    reason: GapReason


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentCoverage:
    """How much of one segment's claim still stands."""

    uuid: str
    live: FrozenBitMap
    dead: FrozenBitMap

    @property
    def is_partial(self) -> bool:
        """True when some of the fragments this segment claims are gone from the table."""
        return bool(self.dead)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What one logical index covers at one version of the table."""

    index_name: str
    covered: FrozenBitMap
    covered_rows: int
    table_rows: int
    deleted_rows: int
    gaps: tuple[Gap, ...]
    dead: FrozenBitMap
    segments: tuple[SegmentCoverage, ...]

    @property
    def is_complete(self) -> bool:
        """True when no live fragment has to be scanned."""
        return not self.gaps

    @property
    def gap_rows(self) -> int:
        """Rows that a query has to scan."""
        return sum(gap.rows for gap in self.gaps)

    @property
    def partial_segments(self) -> tuple[SegmentCoverage, ...]:
        """Segments of which some fragments are gone."""
        return tuple(segment for segment in self.segments if segment.is_partial)

    def gaps_because(self, reason: GapReason) -> FrozenBitMap:
        """The uncovered fragments with this reason."""
        return FrozenBitMap(gap.fragment_id for gap in self.gaps if gap.reason is reason)


def measure_coverage(snapshot: TableSnapshot, index: IndexState) -> Coverage:
    """Compare what an index claims with the fragments the table has."""
    live = FrozenBitMap(fragment.id for fragment in snapshot.fragments)
    segments = tuple(_segment_coverage(segment, live) for segment in index.segments)
    covered, dead = BitMap(), BitMap()
    for segment in segments:
        covered |= segment.live
        dead |= segment.dead
    skipped = BitMap()
    for entry in index.skipped:
        skipped |= entry.segment.covered
    leaf_ids = _leaf_ids(snapshot, index)
    gaps = tuple(
        Gap(fragment_id=fragment.id, rows=fragment.rows, reason=_gap_reason(fragment, skipped, leaf_ids))
        for fragment in snapshot.fragments
        if fragment.id not in covered
    )
    inside = [fragment for fragment in snapshot.fragments if fragment.id in covered]
    return Coverage(
        index_name=index.name,
        covered=FrozenBitMap(covered),
        covered_rows=sum(fragment.rows for fragment in inside),
        table_rows=snapshot.rows,
        deleted_rows=sum(fragment.deleted_rows for fragment in inside),
        gaps=gaps,
        dead=FrozenBitMap(dead),
        segments=segments,
    )


def _segment_coverage(segment: Segment, live: FrozenBitMap) -> SegmentCoverage:
    return SegmentCoverage(uuid=segment.uuid, live=segment.covered & live, dead=segment.covered - live)


def _gap_reason(fragment: Fragment, skipped: BitMap, leaf_ids: tuple[int, ...]) -> GapReason:
    if fragment.id in skipped:
        return GapReason.SEGMENT_SKIPPED
    if fragment.was_rewritten(leaf_ids):
        return GapReason.COLUMN_REWRITTEN
    return GapReason.NOT_INDEXED


def _leaf_ids(snapshot: TableSnapshot, index: IndexState) -> tuple[int, ...]:
    entries = index.segments or tuple(entry.segment for entry in index.skipped)
    known = snapshot.columns_by_field_id
    field_ids = {field_id for segment in entries for field_id in segment.field_ids if field_id in known}
    return tuple(leaf for field_id in sorted(field_ids) for leaf in known[field_id].leaf_ids)
