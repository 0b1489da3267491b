"""Answers whether a segment of a kind that is not Lance's can be asked at this version, and for which fragments. Reads no file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyroaring import BitMap, FrozenBitMap

from lancewright.errors import InvalidRequestError
from lancewright.kinds.contract import Key
from lancewright.kinds.plugins import Trouble, Unusable, judge_segment
from lancewright.model.computed import ComputedColumn, keys_of_segment
from lancewright.model.segment_details import details_from_bytes
from lancewright.table.column_reader import plain_type

if TYPE_CHECKING:
    from lancewright.kinds.contract import IndexKind
    from lancewright.model.columns import Column
    from lancewright.model.index import Segment
    from lancewright.model.segment_details import SegmentDetails
    from lancewright.model.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSegment:
    """A segment that can be asked: what its manifest entry says, and the live fragments it answers for."""

    segment: Segment
    details: SegmentDetails
    covered: FrozenBitMap


def judge_kind_segment(
    snapshot: TableSnapshot, kind: IndexKind, segment: Segment, live: FrozenBitMap
) -> KindSegment | Unusable:
    """The segment as one to be asked, or why not."""
    details = details_from_bytes(segment.details)
    unusable = judge_segment(kind, details)
    if unusable is not None:
        return unusable
    try:
        types = tuple(str(key.type) for key in keys_of(snapshot, segment, details))
    except InvalidRequestError as error:
        return _old(error.problem, error.remedy)
    if types != tuple(key.type for key in details.keys):
        return _old("a column has another type than when it was built", "rebuild it")
    if details.stable_row_ids != snapshot.stable_row_ids:
        return _old("the table's row ids work differently than when it was built", "rebuild it")
    return KindSegment(segment=segment, details=details, covered=_covered(snapshot, segment, details) & live)


def keys_of(snapshot: TableSnapshot, segment: Segment, details: SegmentDetails) -> tuple[Key, ...]:
    """The keys of a segment as a kind sees them, by the names of now."""
    return tuple(map(_key, keys_of_segment(segment, details, snapshot.columns_by_field_id)))


def declared_as(snapshot: TableSnapshot, segment: Segment, details: SegmentDetails) -> tuple[object, ...]:
    """What segments must have in common to be asked together: a probe is planned once for all of them."""
    return (details.parameters, details.format, keys_of(snapshot, segment, details))


def _covered(snapshot: TableSnapshot, segment: Segment, details: SegmentDetails) -> FrozenBitMap:
    """What the entry claims, as far as the segment's rows can be found there.

    With stable row ids rows keep their ids wherever they go. Without, a claimed fragment is one the segment was built over, or
    one that Lance remembers to be made of such; once Lance has forgotten, nothing leads to its rows.
    """
    if snapshot.stable_row_ids:
        return segment.covered
    reached = BitMap(details.built)
    for compaction in snapshot.deferred:
        if compaction.old <= reached:
            reached |= compaction.new
    return FrozenBitMap(segment.covered & reached)


def _key(column: Column | ComputedColumn) -> Key:
    if isinstance(column, ComputedColumn):
        return Key(name=column.path, type=column.type, expression=column.path)
    return Key(name=column.path, type=plain_type(column.type), metadata=column.metadata)


def _old(problem: str, remedy: str) -> Unusable:
    return Unusable(trouble=Trouble.FORMAT_OLD_REBUILD, problem=problem, remedy=remedy)
