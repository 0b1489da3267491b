"""The drop verb: takes every segment of a name out of the table, in one commit. Files go when versions are cleaned up."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancewright.build.backoff import backoff_s
from lancewright.errors import ConflictError, NotFoundError
from lancewright.observe.events import IndexDropped
from lancewright.table.commit import IndexChange, commit_segments
from lancewright.table.snapshot_reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from lancewright.observe.sinks import Sink
    from lancewright.table.location import TableRef

_ATTEMPTS_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DropReceipt:
    """What a drop removed."""

    table: str
    index: str
    version: int
    segments: int


def drop_index(
    table: TableRef, name: str, sink: Sink, sleep: Callable[[float], None] = time.sleep
) -> DropReceipt:
    """Remove an index, of whatever kind; raise NotFoundError when there is none of this name."""
    for attempt in range(_ATTEMPTS_MAX):
        snapshot = read_snapshot(table.latest())
        segments = snapshot.segments_named(name)
        if not segments or segments[0].is_system:
            names = ", ".join(index.name for index in snapshot.indexes) or "none"
            raise NotFoundError(f"Table {table.name} has no index {name!r}", f"Its indexes are: {names}.")
        try:
            version = commit_segments(table, snapshot, IndexChange(remove=segments))
        except ConflictError:
            sleep(backoff_s(attempt))
            continue
        sink.record(IndexDropped(job_id=f"drop-{name}", index=name, version=version))
        return DropReceipt(table=table.name, index=name, version=version, segments=len(segments))
    raise ConflictError(
        f"Other writers kept changing {table.name}: index {name!r} was not dropped",
        "Run the same call again.",
    )
