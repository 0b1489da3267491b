"""Ranks the rows of one part of a table for a kind: through a segment, row by row, or through a segment made for the query.

Each gives its ``k`` best live rows, equal scores by row id, and none that a filter keeps out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewright.errors import UnsupportedError
from lancewright.kinds.contract import ROW_COLUMN, IndexKind, Nulls
from lancewright.kinds.segment.building import KeyBatch, SegmentInput, build_segment
from lancewright.kinds.segment.calling import calling
from lancewright.kinds.segment.memory_place import MemoryPlace
from lancewright.kinds.segment.opened import OpenSegment
from lancewright.query.search.top_k import keep_best
from lancewright.table.column_reader import read_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from lancewright.kinds.contract import SearchProbe, Spec
    from lancewright.model.columns import Column
    from lancewright.model.computed import ComputedColumn
    from lancewright.query.search.segment_rows import SegmentRows
    from lancewright.table.column_reader import KeyRows
    from lancewright.table.location import TableRef
    from lancewright.table.vector_search import RowFilter

SCORE = "score"
RANKED_SCHEMA = pa.schema([(SCORE, pa.float64()), ("_rowid", pa.uint64()), ("_rowaddr", pa.uint64())])
# A segment that is made for one query is held in memory, and made in the time of the query.
BUILT_ROWS_MAX = 1_000_000
# Past so many rows of equal score, which of them are returned is left to their numbers.
_TIES_MAX = 1 << 16
_LOOKS_MAX = 3


class TooFewError(Exception):
    """A kind named fewer rows than there are to be ranked."""


class Ranker(Protocol):
    """The rows of one part of a table."""

    def statistics(self, probe: SearchProbe) -> bytes:
        """Its share of what all parts must know before one can rank."""
        ...

    def best(self, probe: SearchProbe, statistics: Sequence[bytes], k: int) -> pa.Table:
        """Its best rows, best first, by id and address."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class SegmentRanker:
    """Asks a segment, first for any rows, and when too many of those may not be found, for those that may."""

    opened: OpenSegment
    rows: SegmentRows

    def statistics(self, probe: SearchProbe) -> bytes:
        """As it was when it was built, deleted rows included."""
        return self.opened.statistics(probe)

    def best(self, probe: SearchProbe, statistics: Sequence[bytes], k: int) -> pa.Table:
        """Its best rows; raises TooFewError when the kind leaves rows out."""
        if self.rows.unrestricted:
            found = self._look_at_the_best(probe, statistics, k)
            if found is not None:
                return found
        allow = self.rows.allowed_numbers()
        if not allow:
            return RANKED_SCHEMA.empty_table()
        allowed = self.rows.allowed
        limit = k + 1
        while True:
            hits = self.opened.search(probe, statistics, limit, allow)
            if len(hits.rows) < min(k, len(allow)):
                raise TooFewError
            if not probe.exact or not _cuts_through_ties(hits.scores, k, limit):
                places = np.searchsorted(allowed.rows, hits.rows)
                return _keep(probe, k, _ranked(hits.scores, allowed.ids[places], allowed.addresses[places]))
            limit = min(limit * 4, max(_TIES_MAX, k + 1))

    @cached_property
    def _ranked_at_least(self) -> int:
        """How many live rows have a rank at least; rows without one may have been deleted."""
        return self.rows.count_live() - len(self.opened.without_rank)

    def _look_at_the_best(self, probe: SearchProbe, statistics: Sequence[bytes], k: int) -> pa.Table | None:
        """Which rows are live is then found out for a few. None when the best of all have too few live ones among them."""
        limit = k + 1
        for _ in range(_LOOKS_MAX):
            hits = self.opened.search(probe, statistics, limit, None)
            live = self.rows.locate(hits.rows)
            scores = hits.scores[live.rows]
            # A kind that gave fewer than it was asked for gave all it has, unless more rows are live than that.
            whole = len(hits.rows) < limit and probe.exact and len(scores) >= min(k, self._ranked_at_least)
            enough = len(scores) >= k and (not probe.exact or scores[k - 1] != hits.scores[-1])
            if whole or enough:
                return _keep(probe, k, _ranked(scores, live.ids, live.addresses))
            limit *= 4
        return None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """Rows of some fragments that may be found, and the columns that are a kind's keys."""

    table: TableRef
    columns: tuple[Column | ComputedColumn, ...]
    fragments: tuple[int, ...]
    filter: RowFilter
    stable_row_ids: bool
    dataset: Any = None  # Any: pylance's dataset is untyped

    def read(self) -> Iterator[KeyRows]:
        """Their keys, batch by batch."""
        return read_keys(
            self.table,
            self.columns,
            self.fragments,
            with_row_ids=self.stable_row_ids,
            rows=self.filter,
            dataset=self.dataset,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoringRanker:
    """Has the kind score every row. Memory: a batch and ``k`` rows."""

    kind: IndexKind
    spec: Spec
    rows: Rows

    def statistics(self, probe: SearchProbe) -> bytes:
        """A kind that needs some has a segment built instead."""
        del probe
        return b""

    def best(self, probe: SearchProbe, statistics: Sequence[bytes], k: int) -> pa.Table:
        """The best rows."""
        del statistics
        best = RANKED_SCHEMA.empty_table()
        with calling(self.kind, "input"):
            strips = self.kind.input(self.spec).nulls is Nulls.STRIP
        for rows in self.rows.read():
            scores = np.full(len(rows.addresses), np.nan)
            given = _without_nulls(rows.keys) if strips else np.arange(len(scores))
            scores[given] = self._score(probe, rows, given)
            ids = rows.addresses if rows.row_ids is None else rows.row_ids
            best = _keep(probe, k, pa.concat_tables([best, _best_of(probe, k, scores, ids, rows.addresses)]))
        return best

    def _score(self, probe: SearchProbe, rows: KeyRows, given: NDArray[np.intp]) -> NDArray[np.float64]:
        names = [ROW_COLUMN, *(f"k{place}" for place in range(len(rows.keys)))]
        keys = [key.take(pa.array(given)) for key in rows.keys]
        numbers = pa.array(np.arange(len(given), dtype=np.uint32))
        batch = pa.RecordBatch.from_arrays([numbers, *keys], names)
        with calling(self.kind, "score"):
            scores = np.asarray(self.kind.score(self.spec, probe, batch), dtype=np.float64)
            if scores.shape != (len(given),):
                raise ValueError(f"{len(scores)} scores for {len(given)} rows")
        return scores


@dataclass(frozen=True, kw_only=True, eq=False)
class BuildingRanker:
    """Builds a segment over the rows in memory, asks it, and lets go of it."""

    kind: IndexKind
    spec: Spec
    rows: Rows
    sizes: tuple[tuple[int, int], ...]
    rows_max: int = BUILT_ROWS_MAX

    def statistics(self, probe: SearchProbe) -> bytes:
        """Those of the rows that may be found."""
        return self._opened[0].statistics(probe)

    def best(self, probe: SearchProbe, statistics: Sequence[bytes], k: int) -> pa.Table:
        """The best rows; the segment holds only such that may be found."""
        opened, addresses, ids = self._opened
        limit = k + 1
        while True:
            hits = opened.search(probe, statistics, limit, None)
            if not probe.exact or not _cuts_through_ties(hits.scores, k, limit):
                places = np.searchsorted(addresses, opened.row_map.addresses(hits.rows))
                return _keep(probe, k, _ranked(hits.scores, ids[places], addresses[places]))
            limit = min(limit * 4, max(_TIES_MAX, k + 1))

    @cached_property
    def _opened(self) -> tuple[OpenSegment, NDArray[np.uint64], NDArray[np.uint64]]:
        addresses: list[NDArray[np.uint64]] = [np.zeros(0, dtype=np.uint64)]
        ids: list[NDArray[np.uint64]] = [np.zeros(0, dtype=np.uint64)]
        place = MemoryPlace()
        rows = SegmentInput(
            fragments=self.sizes,
            batches=self._batches(addresses, ids),
            stable_row_ids=False,
            plugin="a query",
        )
        finished = build_segment(self.kind, self.spec, rows, place)
        opened = OpenSegment(self.kind, self.spec, finished.details, place)
        return opened, np.concatenate(addresses), np.concatenate(ids)

    def _batches(
        self, addresses: list[NDArray[np.uint64]], ids: list[NDArray[np.uint64]]
    ) -> Iterator[KeyBatch]:
        for rows in self.rows.read():
            addresses.append(rows.addresses)
            ids.append(rows.addresses if rows.row_ids is None else rows.row_ids)
            if sum(map(len, addresses)) > self.rows_max:
                raise too_many_rows(self.kind.name, self.rows_max)
            yield KeyBatch(rows.keys, rows.addresses)


def has_scores(kind: IndexKind, probe: SearchProbe) -> bool:
    """True when a kind ranks rows one by one."""
    return type(kind).score is not IndexKind.score and not probe.needs_statistics


def too_many_rows(kind: str, rows_max: int) -> UnsupportedError:
    """The error for rows that no segment covers and a kind cannot rank one by one."""
    return UnsupportedError(
        f"More than {rows_max:,} rows are outside the index, and kind {kind!r} ranks only what it has built",
        "Refresh the index, or pass fast=True to search indexed rows only.",
    )


def _ranked(scores: NDArray[np.float64], ids: NDArray[np.uint64], addresses: NDArray[np.uint64]) -> pa.Table:
    return pa.table([pa.array(scores), pa.array(ids), pa.array(addresses)], schema=RANKED_SCHEMA)


def _keep(probe: SearchProbe, k: int, rows: pa.Table) -> pa.Table:
    return keep_best(rows, SCORE, k, descending=probe.descending)


def _best_of(
    probe: SearchProbe,
    k: int,
    scores: NDArray[np.float64],
    ids: NDArray[np.uint64],
    addresses: NDArray[np.uint64],
) -> pa.Table:
    """Rows with a rank that may be among the best: as many as are asked for, and those equal to the last of them."""
    kept = np.flatnonzero(~np.isnan(scores))
    if len(kept) > k:
        ascending = -scores[kept] if probe.descending else scores[kept]
        kept = kept[ascending <= np.partition(ascending, k - 1)[k - 1]]
    return _ranked(scores[kept], ids[kept], addresses[kept])


def _without_nulls(keys: Sequence[pa.Array]) -> NDArray[np.intp]:
    masks: list[Any] = [pc.is_valid(key).to_numpy(zero_copy_only=False) for key in keys]
    return np.flatnonzero(np.logical_and.reduce(masks))


def _cuts_through_ties(scores: NDArray[np.float64], k: int, limit: int) -> bool:
    """True when rows that were left out may have the score of the last one that counts."""
    return len(scores) >= limit and limit < _TIES_MAX and bool(scores[k - 1] == scores[-1])
