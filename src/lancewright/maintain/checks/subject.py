"""What one task looks at: some fragments of one segment of an index, at one version of a table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lancewright.errors import InvalidRequestError
from lancewright.model.request import require_type
from lancewright.table.index_files import IndexFiles
from lancewright.table.index_probe import IndexProbe

if TYPE_CHECKING:
    from lancewright.model.columns import Column
    from lancewright.model.index import IndexState, Segment
    from lancewright.model.snapshot import Fragment, TableSnapshot
    from lancewright.table.location import TableRef


SAMPLES = 64
NEIGHBOURS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRules:
    """How closely is looked.

    ``samples`` rows of each part of a segment are asked for; ``thorough`` asks for every row and reads every posting. Of vectors the
    ``k`` nearest are searched for ``queries`` stored ones; below ``recall_min`` a segment is found wanting. Equal seeds choose equal rows.
    """

    samples: int = SAMPLES
    thorough: bool = False
    queries: int = 16
    k: int = NEIGHBOURS
    recall_min: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse numbers that make no verification."""
        require_type("thorough", self.thorough, bool)
        require_type("seed", self.seed, int)
        for name, value in (("samples", self.samples), ("k", self.k), ("queries", self.queries)):
            require_type(name, value, int)
            if isinstance(value, bool) or value < 1:
                raise InvalidRequestError(f"{name}={value!r} is no number of rows", "Pass one or more.")
        if self.seed < 0:
            raise InvalidRequestError(f"seed={self.seed!r} is below zero", "Pass zero or more.")
        if self.recall_min is not None:
            require_type("recall_min", self.recall_min, float, int)
        if self.recall_min is not None and not 0 <= self.recall_min <= 1:
            raise InvalidRequestError(f"recall_min={self.recall_min!r} is no share", "Pass 0 to 1.")


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The reference names the snapshot's version. ``is_first``: no other task looks at earlier fragments of the segment."""

    table: TableRef
    snapshot: TableSnapshot
    index: IndexState
    segment: Segment
    fragments: tuple[Fragment, ...]
    rules: VerifyRules
    is_first: bool = True

    @property
    def ids(self) -> list[int]:
        """The fragments' ids."""
        return [fragment.id for fragment in self.fragments]

    @property
    def rows(self) -> int:
        """Live rows in the fragments."""
        return sum(fragment.rows for fragment in self.fragments)

    @property
    def column(self) -> Column:
        """The column of an index of Lance's."""
        return self.snapshot.columns_by_field_id[self.segment.field_ids[0]]

    @property
    def older(self) -> tuple[str, ...]:
        """Segments of the index that were built from an earlier version than this one."""
        return tuple(
            other.uuid
            for other in self.index.segments
            if other.dataset_version < self.segment.dataset_version and other.uuid != self.segment.uuid
        )

    @cached_property
    def probe(self) -> IndexProbe:
        """Asks the index and the rows."""
        return IndexProbe(self.table)

    @cached_property
    def files(self) -> IndexFiles:
        """The segment's files."""
        return IndexFiles(self.table, self.segment)
