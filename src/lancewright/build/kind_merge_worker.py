"""What runs on an executor for kinds that are not Lance's: several segments become one, from their own files where the kind can."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from lancewright.build.kind_worker import KindTarget, aim, build_kind_segment, segment_of
from lancewright.errors import LancewrightError
from lancewright.kinds.contract import IndexKind, Spec
from lancewright.kinds.segment.merging import MergePart, merge_segments
from lancewright.kinds.segment.opened import OpenSegment
from lancewright.kinds.segment.rows import all_row_ids
from lancewright.model.segment_details import details_from_bytes
from lancewright.table.row_places import RowPlaces
from lancewright.table.segment_place import SegmentPlace, place_of
from lancewright.table.side_files import SideFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lancewright.build.spec import IndexSpec
    from lancewright.model.index import Segment
    from lancewright.table.location import TableRef


def merge_kind_segments(
    table: TableRef, spec: IndexSpec, sources: Sequence[Segment], fragments: Sequence[int]
) -> Segment:
    """Write one segment over these fragments of the pinned version, each of which one of the sources covers.

    Rows are read only for a kind that does not merge, and for an index that keeps values.
    """
    merged = None if spec.kept else _merge(table, spec, sources, fragments)
    return build_kind_segment(table, spec, fragments) if merged is None else merged


def _merge(
    table: TableRef, spec: IndexSpec, sources: Sequence[Segment], fragments: Sequence[int]
) -> Segment | None:
    target = aim(table, spec, fragments)
    if type(target.kind).merge is IndexKind.merge:
        return None
    opened = [_open(table, target, source) for source in sources]
    try:
        parts = [
            _part(table, source, one, sorted(set(fragments) & set(source.covered)))
            for source, one in zip(sources, opened, strict=True)
        ]
        finished = merge_segments(
            target.kind, target.declared, parts, target.rows, SegmentPlace(table, target.uuid)
        )
    except BaseException:
        _forget(table, target)
        raise
    finally:
        for one in opened:
            one.close()
    if finished is None:
        _forget(table, target)
        return None
    return segment_of(spec, target, finished)


def _open(table: TableRef, target: KindTarget, source: Segment) -> OpenSegment:
    details = details_from_bytes(source.details)
    declared = target.declared
    spec = Spec(
        name=declared.name,
        kind=declared.kind,
        keys=declared.keys,
        parameters=declared.parameters,
        format=details.format,
    )
    return OpenSegment(target.kind, spec, details, place_of(table, source))


def _part(table: TableRef, source: Segment, opened: OpenSegment, fragments: Sequence[int]) -> MergePart:
    """A segment answers for the fragments it covers and no other, so no other of its rows comes along."""
    places = RowPlaces(table, fragments)
    if not details_from_bytes(source.details).stable_row_ids:
        numbers = np.arange(opened.row_map.rows, dtype=np.uint32)
        found, addresses = places.follow(opened.row_map.addresses(numbers))
        return MergePart(opened=opened, numbers=numbers[found], addresses=addresses)
    numbers, ids = all_row_ids(opened.packed_row_ids())
    found, addresses = places.find(ids)
    return MergePart(opened=opened, numbers=numbers[found], addresses=addresses, row_ids=ids[found])


def _forget(table: TableRef, target: KindTarget) -> None:
    with suppress(LancewrightError):  # what stays is an orphan for cleanup
        SideFiles(table).delete_segment(target.uuid)
