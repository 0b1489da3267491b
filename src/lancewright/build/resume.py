"""Opens a build's journal, going on with a dead attempt where there is one, and clears up after the build."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lancewright.build.index_work import IndexWork, adopt_segments
from lancewright.build.journal import Journal, find_abandoned, start_journal
from lancewright.build.publish import take_back
from lancewright.errors import LancewrightError
from lancewright.observe.events import JournalCleaned, SegmentReused
from lancewright.table.history import read_history
from lancewright.table.side_files import SideFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lancewright.build.resolve import ResolvedRequest
    from lancewright.build.stage import BuildContext
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.table.conflict import BuiltSegment
    from lancewright.table.location import TableRef

_logger = logging.getLogger("lancewright")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedJournal:
    """The journal of this attempt, and the segments an earlier one left in it."""

    journal: Journal
    finished: dict[str, tuple[BuiltSegment, ...]]


def open_journal(
    table: TableRef,
    snapshot: TableSnapshot,
    todo: Sequence[ResolvedRequest],
    sleep: Callable[[float], None],
    *,
    resume: bool,
) -> OpenedJournal:
    """Take over the journal of an equal call that died, or start one; the others that died are removed."""
    files = SideFiles(table)
    fingerprint = hashlib.sha256("".join(sorted(entry.fingerprint for entry in todo)).encode()).hexdigest()
    current = {segment.uuid for segment in snapshot.segments}
    chosen = None
    for journal in find_abandoned(files, fingerprint):
        if not journal.claim(sleep):
            continue
        # One that published what the table still has did its work, and died before it could clear up.
        if not resume or chosen is not None or not current.isdisjoint(journal.read_published()):
            journal.remove()
        else:
            chosen = journal
    if chosen is None:
        return OpenedJournal(journal=start_journal(files, fingerprint), finished={})
    return OpenedJournal(journal=chosen, finished=chosen.read_built())


def begin_works(
    context: BuildContext,
    snapshot: TableSnapshot,
    begun: Sequence[IndexWork],
    finished: dict[str, tuple[BuiltSegment, ...]],
) -> tuple[IndexWork, ...]:
    """The works of this attempt, with what of an earlier one still fits the table."""
    fresh = [replace(work, resolved=_with_model(context.journal, work.resolved)) for work in begun]
    works = adopt_finished(context.table, snapshot, fresh, finished)
    for work in works:
        _tell_reused(context, work)
    return works


def adopt_finished(
    table: TableRef,
    snapshot: TableSnapshot,
    works: Sequence[IndexWork],
    finished: dict[str, tuple[BuiltSegment, ...]],
) -> tuple[IndexWork, ...]:
    """Add finished segments to the works that lack them."""
    versions = [built.segment.dataset_version for segments in finished.values() for built in segments]
    if not versions:
        return tuple(works)
    history = read_history(table, min(versions), snapshot.version)
    return tuple(adopt_segments(work, snapshot, finished.get(work.name, ()), history) for work in works)


def clear_up(context: BuildContext) -> None:
    """Remove the journal, and the segments that were merged away or lost."""
    try:
        removed = context.journal.remove()
    except LancewrightError as error:
        # The index is committed and right; what is left over costs space only, and the next equal call removes it.
        _logger.warning("could not remove the journal of a finished build: %s", error)
        return
    context.sink.record(JournalCleaned(job_id=context.journal.build_id, files=removed))


def give_up(context: BuildContext, todo: Sequence[ResolvedRequest]) -> None:
    """Leave nothing of a failed build that nobody can resume."""
    _leave(context, todo, keep=False)


def let_go(context: BuildContext, todo: Sequence[ResolvedRequest]) -> None:
    """Let an equal call resume a failed build at once; one that finished nothing leaves nothing behind."""
    _leave(context, todo, keep=True)


def _leave(context: BuildContext, todo: Sequence[ResolvedRequest], *, keep: bool) -> None:
    journal = context.journal
    try:
        # Whoever took the build over needs all of it.
        if not journal.holds_lease():
            return
        take_back(context, todo)
        if keep and journal.has_finished_work():
            journal.release_lease()
        else:
            journal.remove()
    except LancewrightError as error:
        # The caller hears of the first error, not of what went wrong while clearing up after it.
        _logger.warning("could not clear up after a failed build: %s", error)


def _with_model(journal: Journal, entry: ResolvedRequest) -> ResolvedRequest:
    """Give a vector index the place of its model, and write what the caller passed in."""
    if entry.kind.family != "vector" or not entry.spec.train:
        return entry
    given_path = None
    if entry.given_model is not None:
        given_path = journal.model_path(entry.fingerprint, given=True)
        journal.write_model(given_path, entry.given_model.to_bytes())
    if entry.model_is_whole:
        return replace(entry, spec=replace(entry.spec, model_path=given_path))
    spec = replace(entry.spec, model_path=journal.model_path(entry.fingerprint), given_model_path=given_path)
    return replace(entry, spec=spec)


def _tell_reused(context: BuildContext, work: IndexWork) -> None:
    for built in work.built:
        context.sink.record(
            SegmentReused(
                job_id=context.journal.build_id,
                index=work.name,
                segment=built.segment.uuid,
                fragments=tuple(built.segment.covered),
            )
        )
