"""What a table was at one version: fragments, columns and index segments."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyroaring import FrozenBitMap

    from lancewright.model.columns import Column
    from lancewright.model.index import IndexState, Segment


# What Lance writes over a field id in a data file when an in-place update put the column into a later file.
REWRITTEN = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One data file of a fragment and the fields it holds, in schema order; ``REWRITTEN`` stands for one that moved."""

    path: str
    field_ids: tuple[int, ...]
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """One fragment as the manifest lists it."""

    id: int
    physical_rows: int
    deleted_rows: int
    deletion_stamp: str | None
    files: tuple[DataFile, ...]

    @property
    def rows(self) -> int:
        """Rows a reader sees."""
        return self.physical_rows - self.deleted_rows

    def stamp(self, leaf_ids: tuple[int, ...]) -> str:
        """Name the files that hold these leaves: an in-place rewrite of the column changes it, nothing else does."""
        wanted = set(leaf_ids)
        return "|".join(sorted(file.path for file in self.files if not wanted.isdisjoint(file.field_ids)))

    def was_rewritten(self, leaf_ids: tuple[int, ...]) -> bool:
        """True when the files show that one of these leaves replaced an earlier one.

        A column that was added later is not called rewritten. A rewrite of a column that had a file of its own
        cannot be seen: Lance drops that file and leaves no mark.
        """
        return not _rewritten_leaves(self.files).isdisjoint(leaf_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeferredCompaction:
    """Fragments that became others while index files kept the old addresses, as the table's reuse index notes it.

    A segment built at ``version`` or before has to be translated, one built later has not.
    """

    version: int
    old: FrozenBitMap
    new: FrozenBitMap


@dataclass(frozen=True, kw_only=True)
class TableSnapshot:
    """A table at one version, read once and then only looked at."""

    uri: str
    version: int
    branch: str | None
    stable_row_ids: bool
    max_fragment_id: int
    schema: pa.Schema
    columns: dict[tuple[str, ...], Column]
    fragments: tuple[Fragment, ...]
    segments: tuple[Segment, ...]
    indexes: tuple[IndexState, ...]
    config: dict[str, str] = field(default_factory=dict)
    deferred: tuple[DeferredCompaction, ...] = ()

    @cached_property
    def fragments_by_id(self) -> dict[int, Fragment]:
        """Every fragment under its id."""
        return {fragment.id: fragment for fragment in self.fragments}

    @cached_property
    def columns_by_field_id(self) -> dict[int, Column]:
        """Every column and nested field under its id."""
        return {column.field_id: column for column in self.columns.values()}

    @property
    def rows(self) -> int:
        """Rows a reader sees."""
        return sum(fragment.rows for fragment in self.fragments)

    def index(self, name: str) -> IndexState | None:
        """The index of this name, if there is one."""
        return next((index for index in self.indexes if index.name == name), None)

    def segments_named(self, name: str) -> tuple[Segment, ...]:
        """Every manifest entry of this name, usable or not."""
        return tuple(segment for segment in self.segments if segment.name == name)


def _rewritten_leaves(files: tuple[DataFile, ...]) -> set[int]:
    """Which fields the marks stand for: those of later files that fit between a mark's neighbours.

    Fields get ascending ids, so a column added later never comes before one that was there when the file was written.
    """
    found: set[int] = set()
    for place, file in enumerate(files):
        later = sorted(
            {field_id for other in files[place + 1 :] for field_id in other.field_ids} - {REWRITTEN}
        )
        for low, high, count in _marks(file.field_ids):
            found.update([field_id for field_id in later if low < field_id < high][:count])
    return found


def _marks(field_ids: tuple[int, ...]) -> Iterator[tuple[float, float, int]]:
    """Every run of marks: the ids left and right of it, and its length."""
    runs = [(field_id, len(list(run))) for field_id, run in groupby(field_ids)]
    for place, (field_id, count) in enumerate(runs):
        if field_id != REWRITTEN:
            continue
        low = runs[place - 1][0] if place else -math.inf
        high = runs[place + 1][0] if place + 1 < len(runs) else math.inf
        # A field added inside a struct breaks the order; then any later field may be meant.
        yield (low, high, count) if low < high else (-math.inf, math.inf, count)
