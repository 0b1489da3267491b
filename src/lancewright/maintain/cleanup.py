"""The cleanup verb: old versions go, and what failed builds and writers left behind; nothing that a version or a build needs.

What is listed first, then which builds run, then what the versions use: in this order a build that finishes meanwhile is
found in one of the two.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from lancewright.errors import ConflictError, InvalidRequestError, NotFoundError
from lancewright.maintain.builds import read_builds, remove_builds
from lancewright.maintain.strays import Stray, find_strays, has_detached_versions
from lancewright.observe.events import FilesRemoved
from lancewright.observe.sinks import NullSink
from lancewright.table.old_versions import explain_old_versions, remove_old_versions
from lancewright.table.opening import open_dataset
from lancewright.table.references import References, list_branch_points, list_versions, read_references
from lancewright.table.stored_files import delete_stored_files, list_stored_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lancewright.maintain.builds import KnownBuild
    from lancewright.maintain.strays import FileKind
    from lancewright.observe.sinks import Sink
    from lancewright.table.location import TableRef
    from lancewright.table.old_versions import DoomedFile
    from lancewright.table.stored_files import StoredFile

OLDER_THAN = timedelta(days=7)
ORPHAN_AGE = timedelta(days=7)
# A build reads the table shortly before it has a journal.
_PLANNING_S = 600.0
# Lance removes what no version uses at this age when it removes versions, whoever works on it.
_LANCE_ORPHAN_AGE_S = 7 * 86_400.0
_KINDS: dict[str, FileKind] = {
    "manifest": "manifest",
    "temporary_manifest": "manifest",
    "data": "data",
    "transaction": "transaction",
    "index": "segment",
    "deletion": "deletion",
}
Sleep: TypeAlias = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupRules:
    """What is old.

    Versions that were committed longer ago than ``older_than``, and files nobody uses, last written longer ago than ``orphan_age``.
    """

    older_than: timedelta = OLDER_THAN
    orphan_age: timedelta = ORPHAN_AGE

    def __post_init__(self) -> None:
        """Refuse what is no span of time."""
        for name in ("older_than", "orphan_age"):
            value = getattr(self, name)
            if not isinstance(value, timedelta) or value < timedelta(0):
                raise InvalidRequestError(
                    f"{name}={value!r} is no age", "Pass a datetime.timedelta of zero or more."
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPlan:
    """What a cleanup would remove: versions, and every file with its size. ``notes`` say what is kept and why."""

    table: str
    version: int
    versions: tuple[int, ...]
    files: tuple[Stray, ...]
    notes: tuple[str, ...] = ()
    size_bytes: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Add the sizes up."""
        object.__setattr__(self, "size_bytes", sum(file.size_bytes for file in self.files))


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupReceipt:
    """What a cleanup removed. ``failed`` are files the storage would not delete; the next cleanup finds them again."""

    table: str
    version: int
    seconds: float
    versions: tuple[int, ...]
    files: tuple[Stray, ...]
    failed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    size_bytes: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Add the sizes up."""
        object.__setattr__(self, "size_bytes", sum(file.size_bytes for file in self.files))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """One look at what lies there."""

    stored: tuple[StoredFile, ...]
    builds: tuple[KnownBuild, ...]
    versions: dict[int, float]
    branch_points: frozenset[int]
    now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Doomed:
    """The versions that go, and the files that go with them; ``refused`` when Lance would take what others use."""

    versions: tuple[int, ...] = ()
    files: tuple[DoomedFile, ...] = ()
    references: References
    refused: bool = False


def plan_cleanup(table: TableRef, rules: CleanupRules | None = None) -> CleanupPlan:
    """Say what a cleanup would remove; writes nothing."""
    chosen = rules or CleanupRules()
    look = _look(table, chosen)
    doomed = _doomed(table, look, chosen)
    files = _doomed_strays(doomed.files)
    told = {file.path for file in files}
    files += tuple(stray for stray in _strays(look, chosen, doomed.references) if stray.path not in told)
    return CleanupPlan(
        table=table.name,
        version=max(look.versions),
        versions=_versions_of(doomed.files),
        files=tuple(sorted(files, key=lambda file: file.path)),
        notes=_notes(look, doomed),
    )


def clean_up(
    table: TableRef,
    rules: CleanupRules | None = None,
    sink: Sink | None = None,
    sleep: Sleep = time.sleep,
) -> CleanupReceipt:
    """Remove old versions, then what nobody needs."""
    with _beside_other_cleanups(table):
        return _clean_up(table, rules or CleanupRules(), sink or NullSink(), sleep)


def _clean_up(table: TableRef, chosen: CleanupRules, sink: Sink, sleep: Sleep) -> CleanupReceipt:
    started = time.monotonic()
    tell = partial(_tell, sink, f"cleanup-{uuid.uuid4().hex[:12]}")
    before = _look(table, chosen)
    doomed = _doomed(table, before, chosen)
    if doomed.versions:
        remove_old_versions(table, doomed.versions)
        tell("old versions", len(doomed.versions))
    look = _look(table, chosen, sleep)
    strays = _strays(look, chosen, read_references(table))
    failed = delete_stored_files(table, (stray.path for stray in strays))
    tell("files that nobody uses", len(strays) - len(failed))
    over = [build for build in look.builds if build.state == "over"]
    remove_builds(table, over)
    tell("journals of builds that are over", len(over))
    left = failed.union(file.path for file in look.stored)
    gone = tuple(stray for stray in _doomed_strays(doomed.files) if stray.path not in left)
    gone += tuple(stray for stray in strays if stray.path not in failed)
    return CleanupReceipt(
        table=table.name,
        version=max(look.versions),
        seconds=time.monotonic() - started,
        versions=tuple(sorted(set(before.versions) - set(look.versions))),
        files=tuple(sorted(gone, key=lambda file: file.path)),
        failed=tuple(sorted(failed)),
        notes=_notes(look, doomed),
    )


@contextmanager
def _beside_other_cleanups(table: TableRef) -> Iterator[None]:
    """What goes while it is looked at went with another cleanup, unless the table itself is gone."""
    try:
        yield
    except NotFoundError as error:
        open_dataset(table.latest())
        raise ConflictError(
            f"Another cleanup removed versions of {table.name} while this one looked at them",
            "Run the same call again.",
        ) from error


def _tell(sink: Sink, job_id: str, what: str, count: int) -> None:
    if count:
        sink.record(FilesRemoved(job_id=job_id, what=what, count=count))


def _look(table: TableRef, rules: CleanupRules, claim_sleep: Sleep | None = None) -> _Look:
    now = time.time()
    stored = list_stored_files(table)
    builds = read_builds(table, stored, now - rules.orphan_age.total_seconds(), claim_sleep)
    return _Look(
        stored=stored,
        builds=builds,
        versions=list_versions(table),
        branch_points=list_branch_points(table),
        now=now,
    )


def _old_versions(look: _Look, rules: CleanupRules) -> tuple[int, ...]:
    """Versions that are old and that no running build reads; none when Lance would take a running build's work with them."""
    running = [build for build in look.builds if build.state == "running"]
    if any(look.now - build.started > _LANCE_ORPHAN_AGE_S / 2 for build in running):
        return ()
    numbers = list(look.versions)
    replaced_at = dict(zip(numbers, list(look.versions.values())[1:], strict=False))
    needed = look.branch_points.union(*(build.versions for build in running))
    since = min((build.started - _PLANNING_S for build in running), default=look.now)
    committed_before = look.now - rules.older_than.total_seconds()
    return tuple(
        version
        for version in numbers[:-1]
        if look.versions[version] <= committed_before
        and version not in needed
        and replaced_at[version] < since
    )


def _doomed(table: TableRef, look: _Look, rules: CleanupRules) -> _Doomed:
    """What old versions take with them, checked against what every other version uses."""
    versions = _old_versions(look, rules)
    files = explain_old_versions(table, versions)
    references = read_references(table, _versions_of(files))
    if any(_is_used(file.path, references) for file in files):
        return _Doomed(references=read_references(table), refused=True)
    return _Doomed(versions=versions, files=files, references=references)


def _is_used(path: str, references: References) -> bool:
    folder, _, rest = path.partition("/")
    return path in references.files or (
        folder == "_indices" and rest.partition("/")[0] in references.segments
    )


def _strays(look: _Look, rules: CleanupRules, references: References) -> tuple[Stray, ...]:
    if has_detached_versions(look.stored):
        everything = frozenset(file.path for file in look.stored if not file.path.startswith("_lancewright/"))
        segments = frozenset(path.split("/")[1] for path in everything if path.startswith("_indices/"))
        references = References(segments=segments, files=everything)
    return find_strays(look.stored, references, look.builds, look.now - rules.orphan_age.total_seconds())


def _doomed_strays(doomed: Sequence[DoomedFile]) -> tuple[Stray, ...]:
    return tuple(
        Stray(
            path=file.path,
            kind=_KINDS.get(file.kind, "other"),
            size_bytes=file.size_bytes,
            why="goes with old versions",
        )
        for file in doomed
    )


def _versions_of(doomed: Sequence[DoomedFile]) -> tuple[int, ...]:
    return tuple(sorted(file.version for file in doomed if file.version is not None))


def _notes(look: _Look, doomed: _Doomed) -> tuple[str, ...]:
    notes = [
        f"Build {build.build_id} is running: what it wrote and the versions it reads stay"
        for build in look.builds
        if build.state == "running"
    ]
    notes += [
        f"Build {build.build_id} is dead since {_ago(look.now - build.last_seen)}: the same call may go on with it"
        for build in look.builds
        if build.state == "resumable"
    ]
    if doomed.refused:
        notes.append(
            "Lance would remove files with the old versions that other versions use: no version was removed"
        )
    if has_detached_versions(look.stored):
        notes.append(
            "The table has detached versions, which may use any file: only journals and scratch are judged"
        )
    return tuple(notes)


def _ago(seconds: float) -> str:
    if seconds >= 86_400:
        return f"{seconds / 86_400:.1f} days"
    return f"{seconds / 3_600:.1f} hours" if seconds >= 3_600 else f"{seconds / 60:.0f} minutes"
