"""Reads which rows a text or vector segment of Lance's has an entry for. Not what the entries say of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lancewright.maintain.checks.findings import blaming_segment
from lancewright.table.live_rows import ListedRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lancewright.maintain.checks.subject import Subject

    Addresses = NDArray[np.uint64]

_FILES = re.compile(r"(?:.*/)?(?:part_\d+_docs\.lance|auxiliary\.idx)\Z")
_ROW_ID = "_rowid"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Census:
    """Live rows with an entry, and those with two."""

    rows: Addresses
    twice: Addresses
    entries: int


def take_census(subject: Subject) -> Census:
    """Count the entries of the task's fragments; SegmentFailedError when they cannot be read."""
    with blaming_segment(subject.table, f"read segment {subject.segment.uuid} of"):
        ids = _read_ids(subject)
    unique, counts = np.unique(ids, return_counts=True)
    rows = ListedRows(subject.table, subject.snapshot, subject.ids)
    locate = rows.find if subject.snapshot.stable_row_ids else rows.follow
    return Census(rows=locate(unique), twice=locate(unique[counts > 1]), entries=len(ids))


def _read_ids(subject: Subject) -> Addresses:
    names = [file.path for file in subject.segment.files or () if _FILES.match(file.path)]
    parts = [
        batch.to_numpy(zero_copy_only=False).astype(np.uint64)
        for name in names
        for batch in subject.files.read_column(name, _ROW_ID)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint64)
