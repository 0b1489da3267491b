"""Reads what a judgement of an index's segments needs to know of the past: the table as a segment found it, and since.

Costs a few small requests for each version a segment was built at, and none for an index without a gap.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancewright.errors import NotFoundError
from lancewright.table.history import History, read_history
from lancewright.table.side_files import SideFiles
from lancewright.table.snapshot_reader import read_snapshot

if TYPE_CHECKING:
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.table.location import TableRef

_MANIFEST = re.compile(r"_versions/(d?)(\d+)\.manifest\Z")
_NEWEST_FIRST = 1 << 63


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The table at the version a segment was built at, or at the oldest one left, and what happened since.

    ``exact``: it is the segment's own version. Without a snapshot nothing is known.
    """

    before: TableSnapshot | None
    exact: bool
    since: History


class Past:
    """Reads each version once."""

    def __init__(self, table: TableRef, snapshot: TableSnapshot) -> None:
        """Read nothing yet."""
        self._table = table
        self._snapshot = snapshot
        self._known: dict[int, Evidence] = {}
        self._oldest: int | None = None

    def look(self, version: int) -> Evidence:
        """What is known of a segment that was built at this version."""
        if version not in self._known:
            self._known[version] = self._read(version)
        return self._known[version]

    def _read(self, version: int) -> Evidence:
        before = self._snapshot_at(version)
        if before is not None:
            return self._since(before, exact=True)
        before = self._snapshot_at(self._oldest_version())
        if before is None or before.version < version:
            # Versions were cleaned up around one that a tag keeps: it is older than the segment and says nothing of it.
            return Evidence(before=None, exact=False, since=_UNKNOWN)
        return self._since(before, exact=False)

    def _since(self, before: TableSnapshot, *, exact: bool) -> Evidence:
        history = read_history(self._table, before.version, self._snapshot.version)
        return Evidence(before=before, exact=exact, since=history)

    def _snapshot_at(self, version: int) -> TableSnapshot | None:
        try:
            return read_snapshot(self._table.pinned(version))
        except NotFoundError:
            return None

    def _oldest_version(self) -> int:
        if self._oldest is None:
            matches = (_MANIFEST.search(path) for path in SideFiles(self._table).list("_versions"))
            numbers = [int(match.group(2)) for match in matches if match is not None and not match.group(1)]
            versions = [2**64 - 1 - number if number > _NEWEST_FIRST else number for number in numbers]
            self._oldest = min(versions, default=self._snapshot.version)
        return self._oldest


_UNKNOWN = History(rows_moved=True, columns_rewritten=True, complete=False)
