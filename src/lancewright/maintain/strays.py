"""Answers which files below a table's root nobody needs: what no version uses, no build may need, and is old enough. Pure.

Only what the format or this package puts in a known place is ever judged; whatever else lies there is left alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lancewright.maintain.builds import KnownBuild
    from lancewright.table.references import References
    from lancewright.table.stored_files import StoredFile

FileKind: TypeAlias = Literal[
    "manifest", "data", "deletion", "transaction", "segment", "unfinished", "journal", "scratch", "other"
]
UNREFERENCED = "no version uses it"
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_SEGMENT = re.compile(rf"_indices/({_UUID})/.+")
_PLACES: tuple[tuple[FileKind, re.Pattern[str]], ...] = (
    ("data", re.compile(r"data/[^/]+\.lance")),
    ("deletion", re.compile(r"_deletions/[^/]+\.(?:arrow|bin)")),
    ("transaction", re.compile(r"_transactions/[^/]+\.txn")),
    # On a local disk a file has such a name until it is whole.
    (
        "unfinished",
        re.compile(r"(?:data|_deletions|_transactions|_versions)/(?:\.tmp[A-Za-z0-9]{6}|[^/]+#\d+)"),
    ),
    ("scratch", re.compile(r"_lancewright/(?:builds|deltas)/.+")),
)
_DETACHED = re.compile(r"(?:.*/)?_versions/d\d+\.manifest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """A file to be removed, and why."""

    path: str
    kind: FileKind
    size_bytes: int
    why: str


def has_detached_versions(stored: Iterable[StoredFile]) -> bool:
    """True when there are versions that no listing of versions tells of: what they use is not known."""
    return any(_DETACHED.fullmatch(file.path) for file in stored)


def find_strays(
    stored: Sequence[StoredFile],
    references: References,
    builds: Sequence[KnownBuild],
    old_before: float,
) -> tuple[Stray, ...]:
    """The files that may go: last written at ``old_before`` or earlier, used by no version, and not part of a build's work.

    A segment goes as a whole: the age of its youngest file counts. While a build runs, nothing of the scratch and no segment that is
    younger than its journal goes, because tasks record a segment only when it is finished.
    """
    kept_segments = references.segments.union(*(build.segments for build in builds if build.state != "over"))
    running_since = min((build.started for build in builds if build.state == "running"), default=None)
    kept_folders = tuple(f"{build.folder}/" for build in builds if build.state != "over")
    over_folders = tuple(f"{build.folder}/" for build in builds if build.state == "over")
    segment_times = _segment_times(stored)

    def is_young(modified: float) -> bool:
        return modified > old_before or (running_since is not None and modified >= running_since)

    found: list[Stray] = []
    for file in stored:
        if file.path.startswith(kept_folders or "\0"):
            continue
        if file.path.startswith(over_folders or "\0"):
            found.append(_stray(file, "journal", "its build is over"))
        elif segment := _SEGMENT.fullmatch(file.path):
            uuid = segment.group(1)
            if uuid not in kept_segments and not is_young(segment_times[uuid]):
                found.append(_stray(file, "segment", UNREFERENCED))
        elif (kind := _kind(file.path)) == "scratch":
            if not is_young(file.modified):
                found.append(_stray(file, kind, "left by a build that is gone"))
        elif kind is not None and file.path not in references.files and file.modified <= old_before:
            found.append(_stray(file, kind, UNREFERENCED))
    return tuple(found)


def _segment_times(stored: Iterable[StoredFile]) -> dict[str, float]:
    times: dict[str, float] = {}
    for file in stored:
        if segment := _SEGMENT.fullmatch(file.path):
            uuid = segment.group(1)
            times[uuid] = max(file.modified, times.get(uuid, file.modified))
    return times


def _kind(path: str) -> FileKind | None:
    return next((kind for kind, place in _PLACES if place.fullmatch(path)), None)


def _stray(file: StoredFile, kind: FileKind, why: str) -> Stray:
    return Stray(path=file.path, kind=kind, size_bytes=file.size_bytes, why=why)
