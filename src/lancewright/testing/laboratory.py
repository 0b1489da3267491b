"""Builds segments of a kind in memory, of rows that follow from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import FrozenBitMap

from lancewright.kinds.contract import Nulls, Spec
from lancewright.kinds.segment.building import KeyBatch, SegmentInput, build_segment
from lancewright.kinds.segment.judging import KindSegment
from lancewright.kinds.segment.opened import OpenSegment
from lancewright.model.index import Segment
from lancewright.model.segment_details import TYPE_URL
from lancewright.query.kind_index import KindIndex
from lancewright.testing.fake import MemoryPlace
from lancewright.testing.samples import Samples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lancewright.kinds.contract import IndexKind
    from lancewright.model.segment_details import SegmentDetails
    from lancewright.testing.harness import Case, KindHarness

    Columns = tuple[pa.Array, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Built:
    """A segment in memory: its rows, deleted ones included, and how to ask it."""

    kind: IndexKind
    spec: Spec
    columns: Columns
    live: frozenset[int]
    place: MemoryPlace
    index: KindIndex

    def opened(self, place: MemoryPlace | None = None) -> OpenSegment:
        """The segment, opened anew, from its place or a damaged copy of it."""
        return OpenSegment(self.kind, self.spec, self.index.segments[0].details, place or self.place)

    def named(self) -> dict[str, pa.Array]:
        """The columns by name."""
        return {key.name: column for key, column in zip(self.spec.keys, self.columns, strict=True)}


class Laboratory(Samples):
    """One kind, and a source of chance."""

    def __init__(self, harness: KindHarness, seed: int = 0) -> None:
        """Make the kind."""
        super().__init__(seed)
        self.harness = harness
        self.kind = harness.kind()

    def spec(self, case: Case) -> Spec:
        """The index as it is declared."""
        parameters = self.kind.validate(case.keys, dict(case.parameters))
        return Spec(
            name="tried",
            kind=self.kind.name,
            keys=case.keys,
            parameters=parameters,
            format=self.kind.writes,
        )

    def build(self, case: Case, columns: Columns, *, deleted: Sequence[int] = (), batch: int = 64) -> Built:
        """Build a segment over fragments of uneven size, some of whose rows are deleted."""
        count = len(columns[0])
        live = np.setdiff1d(np.arange(count), np.array(deleted, dtype=np.int64))
        fragments = _fragments(count)
        starts = np.cumsum([0, *(rows for _, rows in fragments)])[:-1]
        owner = np.searchsorted(starts, live, side="right") - 1
        ids = np.array([fragment for fragment, _ in fragments], dtype=np.uint64)
        addresses = (ids[owner] << np.uint64(32)) | (live - starts[owner]).astype(np.uint64)
        taken = tuple(column.take(pa.array(live)) for column in columns)
        batches = [
            KeyBatch(tuple(one.slice(start, batch) for one in taken), addresses[start : start + batch])
            for start in range(0, len(live), batch)
        ]
        return self._finish(case, columns, frozenset(live.tolist()), fragments, batches)

    def _finish(
        self,
        case: Case,
        columns: Columns,
        live: frozenset[int],
        fragments: tuple[tuple[int, int], ...],
        batches: list[KeyBatch],
    ) -> Built:
        spec, place = self.spec(case), MemoryPlace()
        given = SegmentInput(fragments=fragments, batches=batches, stable_row_ids=False, plugin="the kit")
        finished = build_segment(self.kind, spec, given, place)
        return self.reopen(spec, columns, live, finished.details, place)

    def reopen(
        self,
        spec: Spec,
        columns: Columns,
        live: frozenset[int],
        details: SegmentDetails,
        place: MemoryPlace,
    ) -> Built:
        """A segment whose files are there."""
        segment = Segment(
            uuid=place.identity,
            name=spec.name,
            field_ids=tuple(range(len(spec.keys))),
            dataset_version=1,
            fragments=details.built,
            index_version=1,
            type_url=TYPE_URL,
        )
        index = KindIndex(
            name=spec.name,
            kind=self.kind,
            spec=spec,
            columns=tuple(key.name for key in spec.keys),
            segments=(KindSegment(segment=segment, details=details, covered=FrozenBitMap(details.built)),),
            strips_nulls=self.kind.input(spec).nulls is Nulls.STRIP,
        )
        return Built(kind=self.kind, spec=spec, columns=columns, live=live, place=place, index=index)


def _fragments(count: int) -> tuple[tuple[int, int], ...]:
    sizes = [count - count // 2 - count // 5, count // 5, count // 2]
    return tuple((3 + 2 * place, size) for place, size in enumerate(sizes))
