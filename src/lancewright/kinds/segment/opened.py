"""An open segment: asks its kind, and adds, takes out and turns around what the kind must not know of.

Answers in row numbers. Which of them are live, and where they are now, is ``query.kind_rows``.
"""

from __future__ import annotations

import zlib
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from lancewright.errors import CorruptIndexError
from lancewright.kinds.contract import Answer, Hits, Nulls
from lancewright.kinds.segment.building import ROW_IDS_FILE
from lancewright.kinds.segment.calling import calling
from lancewright.kinds.segment.header import HEADER_FILE, header_from_bytes
from lancewright.kinds.segment.masks import MASKS_FILE, Masks, masks_from_bytes, no_masks
from lancewright.kinds.segment.rows import RowMap, row_ids
from lancewright.kinds.segment.store import ReadingStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from lancewright.kinds.contract import IndexKind, Probe, Reader, RowNumbers, SearchProbe, Spec
    from lancewright.kinds.segment.header import SegmentHeader
    from lancewright.kinds.segment.store import BlockCache, Place
    from lancewright.model.segment_details import SegmentDetails

_REBUILD = "Rebuild the index."
_CHECKED_BYTES = 16 << 20


def read_header(place: Place, details: SegmentDetails) -> SegmentHeader:
    """The header, which must be the very one that the manifest speaks of."""
    content = place.read_range(HEADER_FILE, 0, details.header_bytes)
    if zlib.crc32(content) != details.header_checksum:
        raise CorruptIndexError("The segment's header is not the one its manifest entry names", _REBUILD)
    header = header_from_bytes(bytes(content))
    if (header.kind, header.format) != (details.kind, details.format):
        raise CorruptIndexError("The segment's header and its manifest entry contradict each other", _REBUILD)
    return header


class OpenSegment:
    """One segment and its kind."""

    def __init__(
        self,
        kind: IndexKind,
        spec: Spec,
        details: SegmentDetails,
        place: Place,
        cache: BlockCache | None = None,
    ) -> None:
        """Read the header; the kind's files are read when they are asked. A ``cache`` of its own makes it read from storage."""
        self._kind = kind
        self._spec = spec
        self._details = details
        header = read_header(place, details)
        self._store = ReadingStore(place, header, cache)
        self.row_map = RowMap(header.fragments)

    @property
    def stable_row_ids(self) -> bool:
        """True when rows are known by ids that they keep."""
        return self._details.stable_row_ids

    def lookup(self, probe: Probe, keys: Iterable[int], *, negated: bool = False) -> RowNumbers:
        """The rows a probe over these keys names, with those that must be checked; or just the others, of an exact one."""
        consumed = frozenset(keys)
        found = self._ask(probe)
        to_check = self.masks.to_check(consumed, stripped=self._strips_nulls)
        if not negated:
            return BitMap(found | to_check)
        if probe.answer is not Answer.EXACT or to_check:
            raise CorruptIndexError(
                "An index that names rows to be checked cannot say which rows are not TRUE", _REBUILD
            )
        return BitMap(self._all() - found.union(*(self.masks.nulls[key] for key in consumed)))

    def nulls(self, key: int, *, negated: bool = False) -> RowNumbers:
        """The rows in which a key is NULL, or is not."""
        nulls = BitMap(self.masks.nulls[key])
        return self._all() - nulls if negated else nulls

    def lookup_many(self, keys: pa.RecordBatch) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """Pairs of a place in a batch of keys and a row that may equal it."""
        with calling(self._kind, "lookup_many"):
            places, rows = self.reader.lookup_many(keys)
        self._check_range(int(rows.max()) if len(rows) else -1)
        return places, rows

    def statistics(self, probe: SearchProbe) -> bytes:
        """The segment's share of what a ranked query must know of all segments."""
        with calling(self._kind, "statistics"):
            return bytes(self.reader.statistics(probe))

    def search(
        self, probe: SearchProbe, statistics: Sequence[bytes], k: int, allow: RowNumbers | None
    ) -> Hits:
        """The best rows of those allowed; an answer that breaks the contract is an error."""
        with calling(self._kind, "search"):
            hits = self.reader.search(probe, statistics, k, allow)
        problem = _problem_of(hits, k, allow)
        if problem is not None:
            raise CorruptIndexError(f"Kind {self._kind.name!r}: {problem}", "Report it to its author.")
        self._check_range(int(hits.rows.max()) if len(hits.rows) else -1)
        return hits

    def stable_ids(self, rows: RowNumbers) -> NDArray[np.uint64]:
        """The stable ids of rows."""
        return row_ids(self.packed_row_ids(), np.frombuffer(rows.to_array(), dtype=np.uint32))

    def ids_in_order(self, numbers: NDArray[np.uint32]) -> NDArray[np.uint64]:
        """The stable id of each row number, in the order given; raises when a row was deleted before the segment was built."""
        ids = row_ids(self.packed_row_ids(), numbers)
        if len(ids) != len(numbers):
            raise CorruptIndexError(
                f"Kind {self._kind.name!r} named a row that it was never given", "Rebuild the index."
            )
        return ids

    @property
    def without_rank(self) -> RowNumbers:
        """The rows a kind has no rank for: it could not key them, or was not given them for their NULLs."""
        rows = BitMap(self.masks.unkeyed)
        return rows.union(rows, *self.masks.nulls) if self._strips_nulls else rows

    def packed_row_ids(self) -> memoryview:
        """The stable ids of all rows, as they are kept."""
        file = self._store.open(ROW_IDS_FILE)
        return file.read(0, file.size)

    @cached_property
    def reader(self) -> Reader:
        """What the kind makes of its files."""
        with calling(self._kind, "open"):
            return self._kind.open(self._spec, self._store)

    @cached_property
    def masks(self) -> Masks:
        """The rows the kind does not answer for."""
        keys = len(self._spec.keys)
        if not self._store.has(MASKS_FILE):
            return no_masks(keys)
        file = self._store.open(MASKS_FILE)
        return masks_from_bytes(file.read(0, file.size), keys)

    def check_files(self) -> None:
        """Read every byte of the segment; raise CorruptIndexError when one is not as it was written."""
        for name in self._store.names:
            file = self._store.open(name)
            for start in range(0, file.size, _CHECKED_BYTES):
                file.read(start, min(_CHECKED_BYTES, file.size - start))

    def close(self) -> None:
        """Let the kind let go of what it holds."""
        if "reader" in self.__dict__:
            with calling(self._kind, "close"):
                self.reader.close()

    @cached_property
    def _strips_nulls(self) -> bool:
        with calling(self._kind, "input"):
            return self._kind.input(self._spec).nulls is Nulls.STRIP

    def _ask(self, probe: Probe) -> RowNumbers:
        with calling(self._kind, "lookup"):
            found = self.reader.lookup(probe)
        if not isinstance(found, BitMap):
            raise CorruptIndexError(
                f"Kind {self._kind.name!r} returned {type(found).__name__} from lookup()",
                "Report it to its author.",
            )
        self._check_range(found.max() if found else -1)
        return found

    def _check_range(self, greatest: int) -> None:
        if greatest >= self.row_map.rows:
            raise CorruptIndexError(
                f"Kind {self._kind.name!r} named row {greatest} of a segment of {self.row_map.rows} rows",
                _REBUILD,
            )

    def _all(self) -> RowNumbers:
        return BitMap(range(self.row_map.rows))


def _problem_of(hits: object, k: int, allow: RowNumbers | None) -> str | None:
    """What is wrong with an answer to a ranked query, as far as it shows."""
    if not isinstance(hits, Hits):
        return f"search() returned {type(hits).__name__}"
    count = len(hits.rows)
    if count > k or len(hits.scores) != count:
        return f"search() returned {count} rows and {len(hits.scores)} scores for k={k}"
    if len(np.unique(hits.rows)) < count or bool(np.isnan(hits.scores).any()):
        return "search() returned a row twice, or one without a score"
    if allow is not None and not BitMap(hits.rows.tolist()) <= allow:
        return "search() returned a row that was not allowed"
    return None
