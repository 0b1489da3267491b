"""Answers which rows of a segment may be found now, and what ids and addresses its row numbers have.

A segment knows rows by numbers, of the time when it was built. Rows that were deleted or updated since, that lie in fragments the
segment does not cover any more, or that a filter keeps out, may not be found.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lancewright.kinds.contract import row_numbers
from lancewright.kinds.segment.rows import all_row_ids
from lancewright.table.row_state import find_live_rows, read_allowed_rows
from lancewright.table.row_translation import RowTranslator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lancewright.kinds.contract import RowNumbers
    from lancewright.kinds.segment.opened import OpenSegment
    from lancewright.table.location import TableRef
    from lancewright.table.vector_search import RowFilter

    Ids = NDArray[np.uint64]
    Numbers = NDArray[np.uint32]

_FRAGMENT_BITS = np.uint64(32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Located:
    """Some rows: their places in what was asked for or their numbers, and their ids and addresses."""

    rows: NDArray[Any]  # Any: places or numbers
    ids: Ids
    addresses: Ids


@dataclass(frozen=True, kw_only=True, eq=False)
class SegmentRows:
    """The rows of one segment, at one version of the table. ``moved``: a deferred compaction may have moved them."""

    table: TableRef
    dataset: Any  # Any: pylance's dataset is untyped
    opened: OpenSegment
    fragments: tuple[int, ...]
    filter: RowFilter
    moved: bool

    @property
    def unrestricted(self) -> bool:
        """True when every live row may be found."""
        return self.filter.sql is None and self.filter.allowed is None

    def count_live(self) -> int:
        """How many live rows lie in the fragments."""
        return sum(int(self.dataset.get_fragment(fragment).count_rows()) for fragment in self.fragments)

    def locate(self, numbers: Numbers) -> Located:
        """Those of these rows that are live and lie where the segment answers for them. Knows nothing of a filter."""
        known, ids = self._ids(numbers)
        live, addresses = find_live_rows(self.dataset, ids)
        covered = np.isin(addresses >> _FRAGMENT_BITS, np.array(self.fragments, dtype=np.uint64))
        live, addresses = live[covered], addresses[covered]
        places, found = _look_up(ids, live)
        return Located(rows=known[places], ids=live[found], addresses=addresses[found])

    @cached_property
    def allowed(self) -> Located:
        """Every row that may be found, ascending by its number."""
        ids, addresses = read_allowed_rows(self.dataset, self.fragments, self.filter)
        numbers, known = self._all_ids()
        order = np.argsort(known)
        places, found = _look_up(ids, known[order])
        chosen = numbers[order][found]
        ascending = np.argsort(chosen)
        return Located(
            rows=chosen[ascending], ids=ids[places][ascending], addresses=addresses[places][ascending]
        )

    def allowed_numbers(self) -> RowNumbers:
        """The numbers of these rows, as a kind takes them: those alone that it can have a rank for."""
        return row_numbers(self.allowed.rows) - self.opened.without_rank

    def _ids(self, numbers: Numbers) -> tuple[NDArray[np.intp], Ids]:
        """The ids of rows, and the places of those that have one."""
        if self.opened.stable_row_ids:
            ids = self.opened.ids_in_order(numbers)
            return np.arange(len(ids)), ids
        return self._now(self.opened.row_map.addresses(numbers))

    def _now(self, addresses: Ids) -> tuple[NDArray[np.intp], Ids]:
        """Where rows are that were at these addresses; those that are gone are left out."""
        alive = np.ones(len(addresses), dtype=np.bool_)
        if self.moved and len(addresses):
            addresses, still = RowTranslator(self.table).translate(addresses)
            alive = alive if still is None else still
        there = np.isin(addresses >> _FRAGMENT_BITS, np.array(self.fragments, dtype=np.uint64))
        places = np.flatnonzero(alive & there)
        return places, addresses[places]

    def _all_ids(self) -> tuple[Numbers, Ids]:
        if self.opened.stable_row_ids:
            return all_row_ids(self.opened.packed_row_ids())
        numbers = np.arange(self.opened.row_map.rows, dtype=np.uint32)
        places, addresses = self._now(self.opened.row_map.addresses(numbers))
        return numbers[places], addresses


def _look_up(wanted: Ids, ascending: Ids) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The places of those wanted that are in an ascending list, and where they are in it."""
    if not len(ascending):
        nothing = np.zeros(0, dtype=np.intp)
        return nothing, nothing
    found = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    places = np.flatnonzero(ascending[found] == wanted)
    return places, found[places]
