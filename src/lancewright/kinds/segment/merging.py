"""Merges segments of one kind into one without reading the table: says where each row goes, and moves what the kind does not know.

Runs on an executor. Reads segments from places and writes one to a place; where rows are now it is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap, FrozenBitMap

from lancewright.kinds.contract import Part, row_numbers
from lancewright.kinds.segment.building import Marks, check_built, finish_segment
from lancewright.kinds.segment.calling import calling
from lancewright.kinds.segment.masks import Masks
from lancewright.kinds.segment.rows import RowMap, pack_row_ids
from lancewright.kinds.segment.store import WritingStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from lancewright.kinds.contract import IndexKind, Spec
    from lancewright.kinds.segment.building import FinishedSegment, SegmentInput
    from lancewright.kinds.segment.opened import OpenSegment
    from lancewright.kinds.segment.store import Place


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergePart:
    """An open segment, and where those of its rows are now that the new segment is to have.

    ``row_ids`` are theirs on a table with stable row ids.
    """

    opened: OpenSegment
    numbers: NDArray[np.uint32]
    addresses: NDArray[np.uint64]
    row_ids: NDArray[np.uint64] | None = None


def merge_segments(
    kind: IndexKind, spec: Spec, parts: Sequence[MergePart], rows: SegmentInput, place: Place
) -> FinishedSegment | None:
    """Write one segment; None when the kind has it built from the table. ``rows`` has no batches and keeps no values."""
    row_map = RowMap(rows.fragments)
    renumbers = [_renumber(part, row_map) for part in parts]
    store = WritingStore(place)
    given = [
        Part(reader=part.opened.reader, renumber=renumber)
        for part, renumber in zip(parts, renumbers, strict=True)
    ]
    with calling(kind, "merge"):
        built = kind.merge(spec, given, store)
    if built is None:
        return None
    told = check_built(kind, "merge", built, row_map.rows)
    masks = [part.opened.masks for part in parts]
    nulls = tuple(_moved((one.nulls[key] for one in masks), renumbers) for key in range(len(spec.keys)))
    unkeyed = _moved((one.unkeyed for one in masks), renumbers) | told.unkeyed
    marks = Marks(
        masks=Masks(nulls=nulls, unkeyed=FrozenBitMap(unkeyed)),
        row_ids=_pack(parts, row_map),
        summary=told.summary,
    )
    return finish_segment(kind, spec, rows, store, marks)


def _renumber(part: MergePart, row_map: RowMap) -> NDArray[np.int64]:
    renumber = np.full(part.opened.row_map.rows, -1, dtype=np.int64)
    renumber[part.numbers] = row_map.numbers(part.addresses)
    return renumber


def _moved(bitmaps: Iterable[FrozenBitMap], renumbers: Sequence[NDArray[np.int64]]) -> FrozenBitMap:
    found = BitMap()
    for bitmap, renumber in zip(bitmaps, renumbers, strict=True):
        rows = renumber[np.frombuffer(bitmap.to_array(), dtype=np.uint32)]
        found |= row_numbers(rows[rows >= 0].astype(np.uint32))
    return FrozenBitMap(found)


def _pack(parts: Sequence[MergePart], row_map: RowMap) -> bytes:
    known = [part for part in parts if part.row_ids is not None and len(part.numbers)]
    if not known:
        return b""
    numbers = np.concatenate([row_map.numbers(part.addresses) for part in known])
    ids = np.concatenate([part.row_ids for part in known if part.row_ids is not None])
    order = np.argsort(numbers)
    return pack_row_ids(numbers[order], ids[order])
