"""Removes old versions through Lance's own cleanup, and says beforehand which files go with them.

Lance keeps the latest version, those with a tag and those a branch starts from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from lancewright.table.lance_compat import translating
from lancewright.table.opening import open_dataset

if TYPE_CHECKING:
    from collections.abc import Collection

    from lancewright.table.location import TableRef

# Lance cuts the list short otherwise.
_FILES_MAX = 2**31
_VERSION_BITS = 2**64 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DoomedFile:
    """A file that goes with old versions; ``kind`` as Lance names it."""

    path: str
    kind: str
    size_bytes: int

    @property
    def version(self) -> int | None:
        """The version whose manifest this is."""
        folder, _, name = self.path.rpartition("/")
        number = name.removesuffix(".manifest")
        if folder != "_versions" or not number.isdecimal() or name == number:
            return None
        # The newer way of naming counts down, so that a listing gives the latest first.
        return _VERSION_BITS - int(number) if len(number) == len(str(_VERSION_BITS)) else int(number)


def explain_old_versions(table: TableRef, versions: Collection[int]) -> tuple[DoomedFile, ...]:
    """The files that would go with these versions, as far as no other version uses them."""
    if not versions:
        return ()
    dataset = open_dataset(table.latest())
    with translating(table, "look for old versions of"):
        found = dataset.explain_cleanup_old_versions(
            versions=sorted(versions),
            error_if_tagged_old_versions=False,
            include_files=True,
            max_files=_FILES_MAX,
        )
    root = _path_on_store(table.root_uri)
    return tuple(
        DoomedFile(path=file.path.removeprefix(root), kind=file.kind, size_bytes=file.size_bytes)
        for file in found.candidate_files
    )


def remove_old_versions(table: TableRef, versions: Collection[int]) -> None:
    """Remove these versions and what only they use."""
    dataset = open_dataset(table.latest())
    with translating(table, "remove old versions of"):
        dataset.cleanup_old_versions(versions=sorted(versions), error_if_tagged_old_versions=False)


def _path_on_store(root: str) -> str:
    path = unquote(urlsplit(root).path) if "://" in root else root
    return f"{path.strip('/')}/"
