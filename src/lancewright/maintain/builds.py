"""Answers which builds left a journal beside a table: those that run, those that may be resumed, those that are over.

Reads journals, and takes over those that are over when they are to be removed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from lancewright.build.journal import Journal, find_journals
from lancewright.table.side_files import SideFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lancewright.table.location import TableRef
    from lancewright.table.stored_files import StoredFile

State: TypeAlias = Literal["running", "resumable", "over"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBuild:
    """A build with a journal.

    ``started``: the time of its oldest file, before which it wrote nothing. ``segments``: those its journal names. ``versions``: those
    it read rows of.
    """

    folder: str
    state: State
    started: float
    last_seen: float
    segments: frozenset[str]
    versions: frozenset[int]

    @property
    def build_id(self) -> str:
        """The name events know it by."""
        return self.folder.rpartition("/")[2]


def read_builds(
    table: TableRef,
    stored: Sequence[StoredFile],
    over_before: float,
    claim_sleep: Callable[[float], None] | None = None,
) -> tuple[KnownBuild, ...]:
    """Every build with a journal. One that is dead, and silent since before ``over_before``, is over.

    With ``claim_sleep`` those that are over are taken over first, so that no equal call goes on with one that is being removed.
    """
    files = SideFiles(table)
    return tuple(_read_build(journal, stored, over_before, claim_sleep) for journal in find_journals(files))


def remove_builds(table: TableRef, builds: Sequence[KnownBuild]) -> None:
    """Delete the folders of builds that were taken over; their segments are judged like any others."""
    files = SideFiles(table)
    for build in builds:
        files.delete_folder(build.folder)


def _read_build(
    journal: Journal,
    stored: Sequence[StoredFile],
    over_before: float,
    claim_sleep: Callable[[float], None] | None,
) -> KnownBuild:
    times = [file.modified for file in stored if file.path.startswith(f"{journal.folder}/")]
    # One that came after the listing wrote nothing that is listed.
    started, last_seen = (min(times), max(times)) if times else (time.time(), time.time())
    state: State = "resumable"
    if not journal.is_abandoned():
        state = "running"
    elif last_seen <= over_before:
        # Whoever takes it over at the same moment has it, and runs.
        state = "over" if claim_sleep is None or journal.claim(claim_sleep) else "running"
    named = {*journal.list_segments(), *journal.list_sorts(), *journal.read_published()}
    return KnownBuild(
        folder=journal.folder,
        state=state,
        started=started,
        last_seen=last_seen,
        segments=frozenset(named),
        versions=frozenset(journal.read_rounds()),
    )
