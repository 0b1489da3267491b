"""What a search plan is: which segments are asked in which tasks, which fragments are searched exactly. Frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from lancewright.model.index import IndexState
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.model.text_query import TextQuery
    from lancewright.query.search.notes import SearchNote
    from lancewright.table.vector_search import NearestOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPart:
    """One segment of the index, and the live fragments it answers for."""

    uuid: str
    fragments: tuple[int, ...]
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentGroup:
    """Segments that one task asks; it opens no others."""

    parts: tuple[SegmentPart, ...]

    @property
    def uuids(self) -> tuple[str, ...]:
        """The segments' ids."""
        return tuple(part.uuid for part in self.parts)

    @property
    def fragments(self) -> tuple[int, ...]:
        """Every fragment these segments answer for."""
        return tuple(sorted({fragment for part in self.parts for fragment in part.fragments}))

    @property
    def rows(self) -> int:
        """Rows that can be found."""
        return sum(part.rows for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentGroup:
    """Fragments whose every row one task looks at."""

    fragments: tuple[int, ...]
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorPlan:
    """How nearest vectors are found on one version of a table.

    ``has_graph``: the index searches graphs, which may end before ``k`` rows are found. ``is_quantized``: its distances are
    estimates unless the candidates are measured again.
    """

    snapshot: TableSnapshot
    options: NearestOptions
    index: IndexState | None
    segment_groups: tuple[SegmentGroup, ...]
    fragment_groups: tuple[FragmentGroup, ...]
    notes: tuple[SearchNote, ...]
    sql: str | None = None
    use_scalar_index: bool = True
    has_graph: bool = False
    is_quantized: bool = False
    strict: bool = False

    @property
    def groups(self) -> tuple[SegmentGroup | FragmentGroup, ...]:
        """The part of the table of each task."""
        return (*self.segment_groups, *self.fragment_groups)

    @property
    def rescored(self) -> bool:
        """True when every distance is exact."""
        return not self.is_quantized or self.options.refine_factor is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPlan:
    """How texts are found: one task for all segments, one for all fragments outside the index."""

    snapshot: TableSnapshot
    column: str
    query: TextQuery
    k: int
    index: IndexState | None
    covered: tuple[int, ...]
    covered_rows: int
    scanned: FragmentGroup | None
    notes: tuple[SearchNote, ...]
    sql: str | None = None
    use_scalar_index: bool = True
    strict: bool = False

    @property
    def fragments(self) -> tuple[int, ...]:
        """Every fragment that is searched."""
        return (*self.covered, *(self.scanned.fragments if self.scanned is not None else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridPlan:
    """Both plans, whose tasks run together, and how their ranks are fused."""

    vector: VectorPlan
    text: TextPlan
    k: int
    rank_constant: float

    @property
    def snapshot(self) -> TableSnapshot:
        """The table's version that both look at."""
        return self.vector.snapshot

    @property
    def notes(self) -> tuple[SearchNote, ...]:
        """The notes of both."""
        return (*self.vector.notes, *self.text.notes)


SearchPlan: TypeAlias = VectorPlan | TextPlan | HybridPlan
