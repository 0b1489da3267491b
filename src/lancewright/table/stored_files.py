"""Lists the files below a table's root with their sizes and ages, and deletes some of them.

On a local disk this also sees what Lance's own listing leaves out: files that a killed writer never finished.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lance.file import LanceFileSession

from lancewright.table.lance_compat import translating
from lancewright.table.opening import open_dataset
from lancewright.table.side_files import local_root, remove_empty_folders

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lancewright.table.location import TableRef

_REQUESTS_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """One file, by its path below the table's root; ``modified`` in seconds since 1970, by the storage's clock."""

    path: str
    size_bytes: int
    modified: float


def list_stored_files(table: TableRef) -> tuple[StoredFile, ...]:
    """Every file below the root, also those of branches when it is the trunk's."""
    root = local_root(table.root_uri)
    if root is not None:
        with translating(table, "list the files of"):
            return tuple(sorted(_walk(root), key=lambda file: file.path))
    dataset = open_dataset(table.latest())
    with translating(table, "list the files of"):
        rows: list[dict[str, Any]] = dataset.all_files().read_all().to_pylist()  # Any: columns differ in type
    return tuple(
        StoredFile(path=row["path"], size_bytes=row["size_bytes"], modified=row["last_modified"].timestamp())
        for row in sorted(rows, key=lambda row: str(row["path"]))
    )


def delete_stored_files(table: TableRef, paths: Iterable[str]) -> frozenset[str]:
    """Delete files; return those that are still there. One that is gone already is no failure."""
    root = local_root(table.root_uri)
    if root is not None:
        return frozenset(path for path in paths if not _unlink(root, path))
    session: Any = LanceFileSession(table.root_uri, dict(table.storage_options) or None)  # Any: untyped

    def delete(path: str) -> bool:
        try:
            session.delete_file(path)
        except OSError:
            return not session.contains(path)
        return True

    listed = tuple(paths)
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool, translating(table, "delete files of"):
        done = list(pool.map(delete, listed))
    return frozenset(path for path, is_gone in zip(listed, done, strict=True) if not is_gone)


def _walk(root: Path) -> Iterator[StoredFile]:
    for folder, _, names in os.walk(root, onerror=_raise_unless_gone):
        for name in names:
            path = Path(folder, name)
            try:
                status = path.stat()
            except FileNotFoundError:  # deleted since
                continue
            yield StoredFile(
                path=path.relative_to(root).as_posix(),
                size_bytes=status.st_size,
                modified=status.st_mtime,
            )


def _raise_unless_gone(error: OSError) -> None:
    """Another cleanup may remove a folder between the listing of its parent and its own."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _unlink(root: Path, path: str) -> bool:
    file = root / path
    try:
        file.unlink(missing_ok=True)
    except OSError:
        return False
    if file.parent.parent != root:  # the folders that the format names stay
        remove_empty_folders(root, file.parent)
    return True
