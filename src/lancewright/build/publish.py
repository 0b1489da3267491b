"""Makes finished segments visible in one commit, and looks at what became of them there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewright.build.index_work import find_untrusted, segments_to_remove, work_left
from lancewright.build.range_safety import wants_deferral
from lancewright.errors import ConflictError, LancewrightError
from lancewright.kinds.btree.empty_ranges import defers_remap, find_ranged
from lancewright.observe.events import IndexCommitted
from lancewright.table.commit import IndexChange, commit_segments
from lancewright.table.config import DEFER_REMAP_KEY, set_table_config, unset_table_config
from lancewright.table.history import read_history
from lancewright.table.snapshot_reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lancewright.build.index_work import IndexWork
    from lancewright.build.resolve import ResolvedRequest
    from lancewright.build.stage import BuildContext
    from lancewright.model.snapshot import TableSnapshot


def publish_segments(context: BuildContext, snapshot: TableSnapshot, works: Sequence[IndexWork]) -> int:
    """Commit every index's segments at once, as if from ``snapshot``; return the version that shows them.

    Raises ConflictError, with the table as it was, when a commit since then does not go together with this one.
    """
    _require_lease(context)
    _require_untouched(context, snapshot, works)
    removed = {work.name: segments_to_remove(work, snapshot) for work in works}
    change = IndexChange(
        add=tuple(built.segment for work in works for built in work.built),
        remove=tuple(segment for work in works for segment in removed[work.name]),
    )
    protected = _defer_remaps(context, snapshot, works)
    context.journal.record_publication(snapshot.version, (segment.uuid for segment in change.add))
    try:
        version = commit_segments(context.table, snapshot, change)
    except LancewrightError as error:
        # After any other error nobody knows whether the commit arrived, so look.
        if isinstance(error, ConflictError) or not _is_shown(context, change):
            context.journal.forget_publication(snapshot.version)
            if protected:
                unset_table_config(context.table, DEFER_REMAP_KEY)
        raise
    for work in works:
        _tell_committed(context, work, version, len(removed[work.name]))
    return version


def find_unfinished(
    context: BuildContext, old: TableSnapshot, committed: TableSnapshot, works: Sequence[IndexWork]
) -> tuple[IndexWork, ...]:
    """After a commit: the indexes that lost fragments to a commit in between, as work for another round."""
    if committed.version == old.version + 1:
        return ()
    for work in works:
        _require_column(work, committed)
    history = read_history(context.table, old.version, committed.version - 1)
    left = (work_left(work, committed, history) for work in works)
    return tuple(work for work in left if work is not None)


def take_back(context: BuildContext, todo: Sequence[ResolvedRequest]) -> None:
    """Remove what a build that failed in a later round had already shown, as far as nothing was there before."""
    published = context.journal.read_published()
    if not published:
        return
    snapshot = read_snapshot(context.table.latest())
    fresh = {entry.spec.name for entry in todo if not entry.exists}
    shown = tuple(
        segment for segment in snapshot.segments if segment.uuid in published and segment.name in fresh
    )
    if shown:
        commit_segments(context.table, snapshot, IndexChange(remove=shown))


def _defer_remaps(context: BuildContext, snapshot: TableSnapshot, works: Sequence[IndexWork]) -> bool:
    """See to it that every engine's compaction defers the remap, before an index is shown that needs it.

    One that remaps at once could empty a part of a range-partitioned index, and leaves out what a kind covers that Lance does
    not know: the table would never be compacted there.
    """
    specs = [work.resolved.spec for work in works]
    exposed = [
        work.resolved.spec
        for work in works
        if work.resolved.spec.plugin is not None or find_ranged(built.segment for built in work.built)
    ]
    if defers_remap(snapshot) or not any(wants_deferral(snapshot, specs, spec) for spec in exposed):
        return False
    set_table_config(context.table, {DEFER_REMAP_KEY: "true"})
    return True


def _is_shown(context: BuildContext, change: IndexChange) -> bool:
    shown = {segment.uuid for segment in read_snapshot(context.table.latest()).segments}
    return any(segment.uuid in shown for segment in change.add)


def _require_lease(context: BuildContext) -> None:
    if not context.journal.holds_lease():
        raise ConflictError(
            "Another process took this build for dead and went on with it",
            "Wait for that process; its build makes the same index.",
        )


def _require_untouched(context: BuildContext, snapshot: TableSnapshot, works: Sequence[IndexWork]) -> None:
    """Refuse to commit over what Lance would let through, leaving wrong or missing coverage.

    What happens in the instant between this look and the commit is found afterwards.
    """
    latest = read_snapshot(context.table.latest())
    history = read_history(context.table, snapshot.version, latest.version)
    for work in works:
        columns = work.resolved.spec.columns
        untrusted = find_untrusted(work, latest, history)
        dropped = [column for column in columns if column.field_id not in latest.columns_by_field_id]
        if untrusted or dropped:
            names = ", ".join(repr(column.path) for column in dropped or columns)
            raise ConflictError(
                f"Another writer dropped column {names}"
                if dropped
                else f"Another writer changed column {names} in fragments {list(untrusted)[:10]}",
                "Read the table again and retry.",
            )


def _require_column(work: IndexWork, committed: TableSnapshot) -> None:
    for column in work.resolved.spec.columns:
        if column.field_id not in committed.columns_by_field_id:
            raise ConflictError(
                f"Column {column.path!r} was dropped while index {work.name!r} was being built",
                "Read the table again and index a column that exists.",
            )


def _tell_committed(context: BuildContext, work: IndexWork, version: int, removed: int) -> None:
    context.sink.record(
        IndexCommitted(
            job_id=context.journal.build_id,
            index=work.name,
            version=version,
            segments_added=len(work.built),
            segments_removed=removed,
            fragments=tuple(sorted({fragment for built in work.built for fragment in built.segment.covered})),
        )
    )
