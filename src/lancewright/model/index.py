"""What an index is: the segments a manifest lists, grouped under one name."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyroaring import FrozenBitMap

if TYPE_CHECKING:
    from datetime import datetime

SYSTEM_INDEX_PREFIX = "__lance"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """One file of a segment, relative to the segment's folder."""

    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One immutable part of an index, as its manifest entry describes it.

    ``fragments`` is what the entry claims to cover; ``None`` means that an old writer did not record it.
    ``dataset_version`` is the table version the segment was built from.
    """

    uuid: str
    name: str
    field_ids: tuple[int, ...]
    dataset_version: int
    fragments: FrozenBitMap | None
    index_version: int
    type_url: str | None
    details: bytes = b""
    created_at: datetime | None = None
    base_id: int | None = None
    files: tuple[SegmentFile, ...] | None = None
    covering_field_ids: tuple[int, ...] = ()

    @property
    def size_bytes(self) -> int | None:
        """Bytes of all files, or None when the entry does not list them."""
        return None if self.files is None else sum(file.size_bytes for file in self.files)

    @property
    def covered(self) -> FrozenBitMap:
        """The fragments claimed, empty when unknown: what is not proven covered is scanned."""
        return FrozenBitMap() if self.fragments is None else self.fragments

    @property
    def is_system(self) -> bool:
        """True for Lance's own bookkeeping, such as the fragment reuse index."""
        return self.name.startswith(SYSTEM_INDEX_PREFIX)


class SkipReason(enum.StrEnum):
    """Why this package does not use a segment."""

    UNKNOWN_TYPE = "unknown_type"
    NO_TYPE = "no_type"
    TOO_NEW = "too_new"
    COLUMN_DROPPED = "column_dropped"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedSegment:
    """A segment that must not be used, and why; its fragments count as uncovered."""

    segment: Segment
    reason: SkipReason
    explanation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """One logical index: the usable segments of one name, and those set aside.

    ``columns`` are read for it; ``keys`` is what it is over where that is more than the columns: expressions.
    """

    name: str
    kind: str
    columns: tuple[str, ...]
    segments: tuple[Segment, ...]
    skipped: tuple[SkippedSegment, ...] = ()
    keys: tuple[str, ...] = ()

    @property
    def shown_keys(self) -> tuple[str, ...]:
        """What it is over, for people."""
        return self.keys or self.columns

    @property
    def size_bytes(self) -> int | None:
        """Bytes of all usable segments, or None when any segment does not say."""
        sizes = [segment.size_bytes for segment in self.segments]
        return None if None in sizes else sum(size for size in sizes if size is not None)
