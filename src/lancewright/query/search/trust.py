"""Answers which segments may be asked, where Lance's own answers are known to be wrong. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewright.errors import InvalidRequestError
from lancewright.kinds.registry import find_kind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lancewright.kinds.lance_native.definition import NativeKind
    from lancewright.model.index import IndexState, Segment
    from lancewright.model.snapshot import TableSnapshot

_FRAGMENT_REUSE = "__lance_frag_reuse"


def older_than_compaction(snapshot: TableSnapshot, index: IndexState) -> tuple[Segment, ...]:
    """Segments of a graph that a deferred compaction went over: once it dropped a deleted row, every search fails."""
    kind = _native(index.kind)
    if kind is None or kind.follows_deferred_compaction:
        return ()
    compacted = max(
        (entry.dataset_version for entry in snapshot.segments if entry.name == _FRAGMENT_REUSE), default=-1
    )
    return tuple(segment for segment in index.segments if segment.dataset_version <= compacted)


def trusts_scalar_indexes(snapshot: TableSnapshot) -> bool:
    """True when Lance may answer a filter from the table's scalar indexes.

    It does not say which one it would ask, so one that may be wrong spoils all: a scan of the filter's columns is then read.
    """
    deferred = any(entry.name == _FRAGMENT_REUSE for entry in snapshot.segments)
    return not any(_may_be_wrong(snapshot, index, deferred=deferred) for index in snapshot.indexes)


def may_be_stale(snapshot: TableSnapshot, index: IndexState) -> bool:
    """True when an older segment may hold old values of rows that a newer one holds as well."""
    kind = _native(index.kind)
    versions = {segment.dataset_version for segment in index.segments}
    return snapshot.stable_row_ids and kind is not None and kind.stale_on_update and len(versions) > 1


def find_stale(
    index: IndexState, created: NDArray[np.uint64], updated: NDArray[np.uint64]
) -> NDArray[np.bool_]:
    """Rows that a segment may know from before their last update: it was built between creation and update."""
    suspects = created > updated  # no row is
    for segment in index.segments:
        suspects |= (created <= segment.dataset_version) & (updated > segment.dataset_version)
    return suspects


def _may_be_wrong(snapshot: TableSnapshot, index: IndexState, *, deferred: bool) -> bool:
    kind = _native(index.kind)
    if kind is None or kind.family == "vector" or not index.segments:
        return False
    return (
        kind.trusted.is_faulty_everywhere
        or may_be_stale(snapshot, index)
        or (deferred and not kind.follows_deferred_compaction)
    )


def _native(kind: str) -> NativeKind | None:
    try:
        return find_kind(kind)
    except InvalidRequestError:
        return None
