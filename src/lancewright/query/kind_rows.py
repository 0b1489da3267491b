"""Asks indexes of kinds that are not Lance's: which live rows of which fragments a probe names.

A kind answers in its segment's row numbers. Here they become row addresses of the version asked: deleted rows fall away, moved
ones are followed, and a row that now lies in a fragment the segment does not cover is left to whoever covers it.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lancewright.errors import LancewrightError
from lancewright.kinds.segment.calling import calling
from lancewright.kinds.segment.opened import OpenSegment
from lancewright.model.row_set import RowSet, row_set, unite
from lancewright.table.live_rows import LiveRows
from lancewright.table.segment_place import place_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from pyroaring import FrozenBitMap

    from lancewright.kinds.contract import RowNumbers
    from lancewright.kinds.segment.judging import KindSegment
    from lancewright.kinds.segment.store import Place
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.query.kind_index import KindIndex
    from lancewright.query.plan import KindProbe
    from lancewright.table.location import TableRef

_SEGMENTS_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundByKind:
    """The rows a probe names, and what reading its segments took."""

    rows: RowSet
    read_requests: int
    read_bytes: int
    seconds: float


class KindAsker:
    """The indexes of one table at one version, each segment opened once."""

    def __init__(self, table: TableRef, snapshot: TableSnapshot, indexes: Mapping[str, KindIndex]) -> None:
        """Read nothing yet; the reference names the snapshot's version."""
        self._table = table
        self._snapshot = snapshot
        self._indexes = indexes
        self._opened: dict[str, OpenSegment] = {}
        self._places: dict[str, CountingPlace] = {}
        self._live: LiveRows | None = None
        self._lock = threading.Lock()

    @property
    def indexes(self) -> Mapping[str, KindIndex]:
        """The indexes that can be asked, by name."""
        return self._indexes

    def ask(self, probe: KindProbe, fragments: FrozenBitMap) -> FoundByKind:
        """The live rows of these fragments that the probe names."""
        started = time.perf_counter()
        index = self._indexes[probe.index]
        before = self._read_so_far()
        asked = [segment for segment in index.segments if segment.covered & fragments]
        rows = unite(self._ask_all(index, probe, asked, fragments))
        after = self._read_so_far()
        return FoundByKind(
            rows=rows,
            read_requests=after[0] - before[0],
            read_bytes=after[1] - before[1],
            seconds=time.perf_counter() - started,
        )

    def locate(self, segment: KindSegment, opened: OpenSegment, numbers: RowNumbers) -> NDArray[np.uint64]:
        """The addresses of the live rows among these, as far as the segment still answers for them."""
        live = self._live_rows()
        if opened.stable_row_ids:
            found = live.find(opened.stable_ids(numbers))
        else:
            found = live.follow(opened.row_map.addresses(np.frombuffer(numbers.to_array(), dtype=np.uint32)))
        covered = np.frombuffer(segment.covered.to_array(), dtype=np.uint32).astype(np.uint64)
        return found[np.isin(found >> np.uint64(32), covered)]

    def open(self, index: KindIndex, segment: KindSegment) -> OpenSegment:
        """A segment, its header read."""
        uuid = segment.segment.uuid
        with self._lock:
            opened = self._opened.get(uuid)
        if opened is None:
            place = CountingPlace(place_of(self._table, segment.segment))
            try:
                opened = OpenSegment(index.kind, index.spec, segment.details, place)
            except LancewrightError as error:
                raise _named(error, index, segment) from error
            with self._lock:
                self._opened[uuid] = opened
                self._places[uuid] = place
        return opened

    def _ask_all(
        self, index: KindIndex, probe: KindProbe, asked: list[KindSegment], fragments: FrozenBitMap
    ) -> list[RowSet]:
        if len(asked) <= 1:
            return [self._ask_one(index, probe, segment, fragments) for segment in asked]
        with ThreadPoolExecutor(_SEGMENTS_AT_ONCE) as pool:
            return list(pool.map(lambda one: self._ask_one(index, probe, one, fragments), asked))

    def _ask_one(
        self, index: KindIndex, probe: KindProbe, segment: KindSegment, fragments: FrozenBitMap
    ) -> RowSet:
        try:
            numbers = self._numbers(index, probe, segment)
            if not numbers:
                return RowSet({})
            found = row_set(self.locate(segment, self.open(index, segment), numbers))
        except LancewrightError as error:
            raise _named(error, index, segment) from error
        return found.only(frozenset(fragments))

    def _numbers(self, index: KindIndex, probe: KindProbe, segment: KindSegment) -> RowNumbers | None:
        if probe.probe is None:
            return self.open(index, segment).nulls(probe.keys[0], negated=probe.negated)
        # Rows that the kind never saw are named whatever it would say of the others.
        if not probe.negated and not index.names_unseen_rows(probe.keys):
            with calling(index.kind, "skip"):
                if index.kind.skip(index.spec, probe.probe, segment.details.summary):
                    return None
        return self.open(index, segment).lookup(probe.probe, probe.keys, negated=probe.negated)

    def _live_rows(self) -> LiveRows:
        with self._lock:
            if self._live is None:
                self._live = LiveRows(self._table, self._snapshot)
            return self._live

    def _read_so_far(self) -> tuple[int, int]:
        with self._lock:
            places = tuple(self._places.values())
        return sum(place.requests for place in places), sum(place.bytes for place in places)


class CountingPlace:
    """Counts what is read of a place."""

    def __init__(self, place: Place) -> None:
        """Start at nothing."""
        self._place = place
        self.requests = 0
        self.bytes = 0

    @property
    def identity(self) -> str:
        """That of the place."""
        return self._place.identity

    def upload(self, name: str, path: str) -> None:
        """Put a local file there."""
        self._place.upload(name, path)

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """Read bytes and count them."""
        content = self._place.read_range(name, start, length)
        self.requests += 1
        self.bytes += len(content)
        return content


def _named(error: LancewrightError, index: KindIndex, segment: KindSegment) -> LancewrightError:
    where = f"segment {segment.segment.uuid} of index {index.name!r}"
    if where in error.problem:
        return error
    return type(error)(f"{where}: {error.problem}", error.remedy)
