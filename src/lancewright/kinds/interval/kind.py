"""Kind ``interval``: rows with a start and an end. ``valid_from <= x AND valid_to > x``, ``start <= b AND end >= a``.

Any comparisons of the two columns with values, answered exactly. Twenty bytes a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lancewright.errors import InvalidRequestError
from lancewright.kinds.contract import (
    ROW_COLUMN,
    Answer,
    Built,
    Cost,
    IndexKind,
    Probe,
    Reader,
    row_numbers,
)
from lancewright.kinds.interval.conditions import read_window, window_from_bytes
from lancewright.kinds.interval.groups import groups_from_bytes, groups_to_bytes, order_by_group
from lancewright.kinds.key_types import check_no_parameters
from lancewright.kinds.sorted_file import ArrayFile, write_array
from lancewright.kinds.whole_numbers import is_fixed, whole_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import ClassVar

    import pyarrow as pa
    from numpy.typing import NDArray

    from lancewright.kinds.contract import Atom, Key, Part, RowNumbers, Spec, Store
    from lancewright.kinds.interval.conditions import Window
    from lancewright.kinds.interval.groups import Group

ENTRIES_FILE = "entries"
STARTS_FILE = "starts"
GROUPS_FILE = "groups"
# Entries for which one start is kept apart: 20 KiB of them.
PAGE = 1024
_ENTRY = np.dtype([("start", "<u8"), ("end", "<u8"), ("row", "<u4")])
_ENTRIES_AT_ONCE = 1 << 20
_KEYS = 2


class IntervalKind(IndexKind):
    """Conditions on a start and an end."""

    name: ClassVar[str] = "interval"
    rows_max: ClassVar[int] = 32_000_000
    doc: ClassVar[str] = "Rows whose interval, a start and an end, holds a point or overlaps a range."

    def validate(self, keys: Sequence[Key], parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Take two columns of one type of fixed width that has an order."""
        if len(keys) != _KEYS:
            raise InvalidRequestError(
                f"Kind {self.name!r} was given {len(keys)} columns",
                "It takes two, the one with the start and the one with the end.",
            )
        for key in keys:
            if not is_fixed(key.type):
                raise InvalidRequestError(
                    f"Kind {self.name!r} cannot index {key.name}, which is {key.type}",
                    "Choose columns of whole numbers, floats, dates or times.",
                )
        start, end = keys
        if start.type != end.type:
            raise InvalidRequestError(
                f"{start.name} is {start.type} and {end.name} is {end.type}",
                "Give start and end one type, so that the length of an interval means something.",
            )
        return check_no_parameters(self.name, parameters)

    def build(self, spec: Spec, rows: Iterable[pa.RecordBatch], out: Store) -> Built:
        """Sort and write; 80 bytes of memory a row."""
        del spec
        parts = [
            _entries(
                whole_numbers(batch.column("k0")),
                whole_numbers(batch.column("k1")),
                batch.column(ROW_COLUMN).to_numpy(),
            )
            for batch in rows
        ]
        return _write(parts, out)

    def merge(self, spec: Spec, parts: Sequence[Part], out: Store) -> Built:
        """Put the entries of all parts together, under their new numbers."""
        del spec
        found = []
        for part in parts:
            if not isinstance(part.reader, IntervalReader):
                raise InvalidRequestError(
                    "A segment of another kind was given to merge()", "Merge segments of one kind."
                )
            entries = part.reader.entries()
            renumbered = part.renumber[entries["row"]]
            kept = renumbered >= 0
            found.append(_entries(entries["start"][kept], entries["end"][kept], renumbered[kept]))
        return _write(found, out)

    def plan(self, spec: Spec, group: Sequence[Atom]) -> Probe | None:
        """Answer comparisons of either column."""
        del spec
        window, consumed = read_window(group)
        if not consumed:
            return None
        return Probe(consumed=consumed, answer=Answer.EXACT, payload=window.to_bytes())

    def skip(self, spec: Spec, probe: Probe, summary: bytes) -> bool:
        """See whether any group may have what is wanted."""
        del spec
        window = window_from_bytes(probe.payload)
        return not any(_wanted(groups_from_bytes(summary), window))

    def cost(self, spec: Spec, probe: Probe, summary: bytes, rows: int) -> Cost:
        """About as many rows as start where they are looked for."""
        del spec, rows
        window = window_from_bytes(probe.payload)
        found = size = 0.0
        for group, low, high in _wanted(groups_from_bytes(summary), window):
            candidates = group.share(low, high) * (group.stop - group.begin)
            found += candidates
            size += (candidates + PAGE) * _ENTRY.itemsize + (group.stop - group.begin) / PAGE * 8
        return Cost(rows=found, bytes=size)

    def open(self, spec: Spec, store: Store) -> Reader:
        """Open the segment."""
        del spec
        return IntervalReader(store)


class IntervalReader(Reader):
    """One segment."""

    def __init__(self, store: Store) -> None:
        """Read nothing yet."""
        self._store = store

    def lookup(self, probe: Probe) -> RowNumbers:
        """The rows whose start and end lie in the window: of each group, those that start where they must."""
        window = window_from_bytes(probe.payload)
        found = [np.zeros(0, dtype=np.uint32)]
        for group, low, high in _wanted(self._groups(), window):
            begin, stop = self._places(group, low, high)
            for place in range(begin, stop, _ENTRIES_AT_ONCE):
                entries = self._read(place, min(stop, place + _ENTRIES_AT_ONCE))
                found.append(entries["row"][_inside(entries, window)])
        return row_numbers(np.concatenate(found))

    def entries(self) -> NDArray[Any]:  # Any: records
        """Everything."""
        return self._read(0, self._store.open(ENTRIES_FILE).size // _ENTRY.itemsize)

    def _groups(self) -> tuple[Group, ...]:
        file = self._store.open(GROUPS_FILE)
        return groups_from_bytes(bytes(file.read(0, file.size)))

    def _places(self, group: Group, low: int, high: int) -> tuple[int, int]:
        """From which entry to which those lie that start between two numbers, to the page."""
        first, last = -(-group.begin // PAGE), -(-group.stop // PAGE)
        starts = ArrayFile(self._store.open(STARTS_FILE), "<u8").read(first, last)
        before = int(np.searchsorted(starts, np.uint64(low), side="left")) - 1
        after = int(np.searchsorted(starts, np.uint64(high), side="right"))
        begin = group.begin if before < 0 else (first + before) * PAGE
        return begin, min(group.stop, (first + after) * PAGE)

    def _read(self, begin: int, stop: int) -> NDArray[Any]:  # Any: records
        file = self._store.open(ENTRIES_FILE)
        content = file.read(begin * _ENTRY.itemsize, (stop - begin) * _ENTRY.itemsize)
        return np.frombuffer(content, dtype=_ENTRY)


def _wanted(groups: Sequence[Group], window: Window) -> list[tuple[Group, int, int]]:
    """The groups that may have what the window wants, and between which starts."""
    if window.is_empty:
        return []
    found = []
    for group in groups:
        starts = group.wanted(window)
        if starts is not None:
            found.append((group, *starts))
    return found


def _inside(entries: NDArray[Any], window: Window) -> NDArray[np.bool_]:  # Any: records
    starts, ends = entries["start"], entries["end"]
    inside: NDArray[np.bool_] = (
        (starts >= np.uint64(window.start_low))
        & (starts <= np.uint64(window.start_high))
        & (ends >= np.uint64(window.end_low))
        & (ends <= np.uint64(window.end_high))
    )
    return inside


def _entries(
    starts: NDArray[np.uint64], ends: NDArray[np.uint64], rows: NDArray[Any]
) -> NDArray[Any]:  # Any: rows of two types of number, and records
    entries = np.empty(len(rows), dtype=_ENTRY)
    entries["start"], entries["end"], entries["row"] = starts, ends, rows
    return entries


def _write(parts: Sequence[NDArray[Any]], out: Store) -> Built:  # Any: records
    entries = np.concatenate([np.zeros(0, dtype=_ENTRY), *parts])
    order, groups = order_by_group(entries["start"], entries["end"])
    entries = entries[order]
    write_array(out, ENTRIES_FILE, entries)
    write_array(out, STARTS_FILE, np.ascontiguousarray(entries["start"][::PAGE]))
    summary = groups_to_bytes(groups)
    with out.create(GROUPS_FILE) as file:
        file.write(summary)
    return Built(keyed=len(entries), summary=summary)
