"""A folder of a segment's files in memory, and segments built into one: for tests of kinds without a table."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lancewright.kinds.segment.building import KeyBatch, SegmentInput, build_segment
from lancewright.kinds.segment.opened import OpenSegment

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lancewright.kinds.contract import IndexKind, Spec
    from lancewright.kinds.segment.building import FinishedSegment


@dataclass
class MemoryPlace:
    files: dict[str, bytes] = field(default_factory=dict)
    identity: str = field(default_factory=lambda: str(uuid.uuid4()))
    bytes_read: int = 0

    def upload(self, name: str, path: str) -> None:
        self.files[name] = Path(path).read_bytes()

    def read_range(self, name: str, start: int, length: int) -> bytes:
        self.bytes_read += length
        return self.files[name][start : start + length]


def build_in_memory(
    kind: IndexKind, spec: Spec, keys: Sequence[pa.Array], batch_rows: int = 1000
) -> tuple[OpenSegment, FinishedSegment, MemoryPlace]:
    """A segment over one fragment with these keys, cut into batches."""
    rows = len(keys[0])
    batches = [
        KeyBatch(
            tuple(key.slice(start, batch_rows) for key in keys),
            np.arange(start, min(rows, start + batch_rows), dtype=np.uint64),
        )
        for start in range(0, rows, batch_rows)
    ]
    place = MemoryPlace()
    given = SegmentInput(fragments=((0, rows),), batches=batches, stable_row_ids=False, plugin="test")
    finished = build_segment(kind, spec, given, place)
    return OpenSegment(kind, spec, finished.details, place), finished, place
