"""Answers which files the versions of a table use: every version that is left, on the trunk and on every branch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lancewright.errors import LancewrightError, NotFoundError, UnsupportedError
from lancewright.table.lance_compat import translating
from lancewright.table.manifest_messages import Manifest
from lancewright.table.opening import open_dataset
from lancewright.table.snapshot_reader import read_segment_uuids

if TYPE_CHECKING:
    from collections.abc import Collection

    import lance

    from lancewright.table.location import TableRef

_REQUESTS_AT_ONCE = 16
_ATTEMPTS_MAX = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """What versions use: segments by uuid, and other files by their path below whichever root has them."""

    segments: frozenset[str]
    files: frozenset[str]


def read_references(table: TableRef, without: Collection[int] = ()) -> References:
    """Read every version's manifest; ``without`` leaves out versions of the reference's own branch.

    A branch uses files of the table it comes from, so all of them are asked. Where a path lies does not matter: their names are
    random, and to keep one too many does no harm.
    """
    trunk = find_trunk(table)
    dataset = open_dataset(trunk)
    with translating(table, "list the branches of"):
        names: tuple[str, ...] = tuple(dataset.branches.list())
    segments: set[str] = set()
    files: set[str] = set()
    own_root = table.root_uri
    for one in (trunk, *(replace(trunk, branch=name) for name in names)):
        left_out = frozenset(without) if one.root_uri == own_root else frozenset[int]()
        try:
            open_dataset(one)
        except NotFoundError:  # deleted since, or by halves: it answers nothing
            if one.root_uri == own_root:
                raise
            continue
        segments |= _read_segments(one, left_out)
        files |= _read_files(one, left_out)
    return References(segments=frozenset(segments), files=frozenset(files))


def find_trunk(table: TableRef) -> TableRef:
    """The table that a branch belongs to, also when somebody names the branch by its own folder."""
    if table.branch is not None:
        return replace(table, branch=None, version=None)
    dataset = open_dataset(table.latest())
    branch: str = Manifest.FromString(dataset._ds.serialized_manifest()).branch  # noqa: SLF001 - pylance has no public way to it
    if not branch:
        return table.latest()
    root, found, rest = table.root_uri.rpartition(f"/tree/{branch}")
    if not found or rest:
        raise UnsupportedError(
            f"{table.name} is branch {branch!r} of a table that its place does not tell",
            "Open the table itself, with branch=.",
        )
    return replace(table, uri=root, version=None)


def list_branch_points(table: TableRef) -> frozenset[int]:
    """The versions branches start from, of this branch or of others: numbers only, so there may be one too many.

    Lance loses sight of a branch that was made when the table went by another name, such as a relative path.
    """
    dataset = open_dataset(find_trunk(table))
    with translating(table, "list the branches of"):
        found: dict[str, Any] = (
            dataset.branches.list()
        )  # Any: pylance describes a branch as a dict of several types
    points = {int(branch["parent_version"]) for branch in found.values()}
    return frozenset(
        points.union(int(step[0]) for branch in found.values() for step in branch["branch_identifier"])
    )


def list_versions(table: TableRef) -> dict[int, float]:
    """When each version was committed, in seconds since 1970, oldest first."""
    for attempt in range(_ATTEMPTS_MAX):
        dataset = open_dataset(table.latest())
        try:
            with translating(table, "list the versions of"):
                listed: list[Any] = dataset.versions()  # Any: pylance describes a version as a dict
        except NotFoundError:
            # Another cleanup may have removed one between Lance's listing and its look at it.
            if attempt == _ATTEMPTS_MAX - 1:
                raise
        else:
            found = {int(entry["version"]): float(entry["timestamp"].timestamp()) for entry in listed}
            return dict(sorted(found.items()))
    raise AssertionError  # the last attempt returns or raises


def _read_segments(table: TableRef, without: frozenset[int]) -> set[str]:
    versions = _version_numbers(open_dataset(table)) - without
    found: dict[int, frozenset[str]] = {}

    def read(version: int) -> LancewrightError | None:
        try:
            found[version] = read_segment_uuids(table.pinned(version))
        except LancewrightError as error:
            return error
        return None

    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
        errors = dict(zip(sorted(versions), pool.map(read, sorted(versions)), strict=True))
    wrong = {version: error for version, error in errors.items() if error is not None}
    if wrong:
        # A version that another cleanup removed uses nothing; one that is there and cannot be read may use anything.
        still_there = _version_numbers(open_dataset(table))
        for version, error in wrong.items():
            if version in still_there:
                raise error
    return {uuid for uuids in found.values() for uuid in uuids}


def _read_files(table: TableRef, without: frozenset[int]) -> set[str]:
    for attempt in range(_ATTEMPTS_MAX):
        try:
            dataset = open_dataset(table)
            with translating(table, "list the files that versions use of"):
                rows: list[dict[str, Any]] = dataset.tracked_files().read_all().to_pylist()  # Any: as stored
        except LancewrightError:
            # Another cleanup may have removed a version just now.
            if attempt == _ATTEMPTS_MAX - 1:
                raise
        else:
            # Manifests of two branches may have one name, and are nobody's but their version's.
            return {
                str(row["path"])
                for row in rows
                if row["version"] not in without and row["type"] != "manifest"
            }
    raise AssertionError  # the last attempt returns or raises


def _version_numbers(dataset: lance.LanceDataset) -> frozenset[int]:
    refs: list[Any] = dataset.version_refs()  # Any: pylance describes it as a dict
    return frozenset(int(ref["version"]) for ref in refs)
