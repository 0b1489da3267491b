"""Keeps the segments that this process ranked by last open: a copy on this machine and a graph are not made anew for every query.

A segment never changes, so one that is open stays right.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from lancewright.kinds.segment.opened import OpenSegment
from lancewright.table.metering import MeteredPlace
from lancewright.table.segment_place import place_of

if TYPE_CHECKING:
    from lancewright.kinds.contract import IndexKind, Spec
    from lancewright.kinds.segment.judging import KindSegment
    from lancewright.table.location import TableRef

SEGMENTS_MAX = 64
FILE_BYTES_MAX = 16 << 30


class OpenSegments:
    """The segments asked last, up to so many and to so many bytes of files."""

    def __init__(self, segments_max: int = SEGMENTS_MAX, bytes_max: int = FILE_BYTES_MAX) -> None:
        """Start empty."""
        self._segments_max = segments_max
        self._bytes_max = bytes_max
        self._open: OrderedDict[tuple[object, ...], tuple[OpenSegment, int]] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, table: TableRef, kind: IndexKind, spec: Spec, segment: KindSegment) -> OpenSegment:
        """The segment, its header read."""
        key = _key(table, kind, spec, segment)
        with self._lock:
            known = self._open.get(key)
            if known is not None:
                self._open.move_to_end(key)
                return known[0]
        place = MeteredPlace(place_of(table, segment.segment))
        opened = OpenSegment(kind, spec, segment.details, place)
        size = sum(file.size_bytes for file in segment.segment.files or ())
        with self._lock:
            self._open[key] = (opened, size)
            # Those let go of are not closed: another thread may be asking one. Their files go when nobody holds them.
            while len(self._open) > max(1, self._segments_max) or (
                len(self._open) > 1 and sum(bytes_ for _, bytes_ in self._open.values()) > self._bytes_max
            ):
                self._open.popitem(last=False)
        return opened

    def forget(self, opened: OpenSegment) -> None:
        """Let go of one that turned out to be damaged."""
        with self._lock:
            for key in [key for key, (one, _) in self._open.items() if one is opened]:
                del self._open[key]

    def clear(self) -> None:
        """Let go of all."""
        with self._lock:
            self._open.clear()


def _key(table: TableRef, kind: IndexKind, spec: Spec, segment: KindSegment) -> tuple[object, ...]:
    """What makes an open segment the same. Credentials are part of it: what was opened with old ones may be refused when it reads on."""
    entry = segment.segment
    place = (table.root_uri, hash(table.storage_options), entry.base_id, entry.uuid)
    return (*place, segment.details.header_checksum, repr((type(kind), spec)))


# As the blocks of files (kinds.segment.store), what was read of files that never change.
SEGMENTS = OpenSegments()
