"""Small files beside a table's data, on the table's own storage: journals, trained models, scratch.

Lance's cleanup does not look into this folder. Every call is one request; a write appears whole or not at all.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lance.file import LanceFileSession

from lancewright.errors import InvalidRequestError, NotFoundError
from lancewright.table.lance_compat import open_cause, translate_error, translating

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lancewright.model.index import Segment
    from lancewright.table.location import TableRef

SIDE_FOLDER = "_lancewright"
_SEGMENT_FOLDER = "_indices"
_LOCAL_SCHEMES = ("file", "file+uring", "file-object-store")


class SideFiles:
    """Reads and writes small files below a table's root."""

    def __init__(self, table: TableRef) -> None:
        """Open a session with the table's storage options; makes no request yet."""
        self._table = table
        self._session = LanceFileSession(table.root_uri, dict(table.storage_options) or None)
        self._local_root = local_root(table.root_uri)

    def write(self, path: str, content: bytes) -> None:
        """Write one file; raise when the location cannot be written."""
        with tempfile.NamedTemporaryFile(prefix="lancewright-") as local:
            local.write(content)
            local.flush()
            try:
                self._session.upload_file(local.name, path)
            except Exception as error:  # noqa: BLE001 - translated, whatever it is
                translated = translate_error(error, self._table, f"write {path} beside")
                if isinstance(translated, NotFoundError):
                    translated = InvalidRequestError(
                        translated.problem, "Check that the location may be written."
                    )
                raise translated from open_cause(error, self._table)

    def read(self, path: str) -> bytes | None:
        """Read one file, or None when it is not there."""
        with tempfile.NamedTemporaryFile(prefix="lancewright-") as local:
            try:
                self._session.download_file(path, local.name)
            except Exception as error:  # noqa: BLE001 - translated, whatever it is
                with translating(self._table, f"read {path} beside"):
                    is_there = self._session.contains(path)
                if is_there:
                    raise translate_error(error, self._table, f"read {path} beside") from open_cause(
                        error, self._table
                    )
                return None
            return Path(local.name).read_bytes()

    def list(self, folder: str) -> tuple[str, ...]:
        """Every file below a folder, as paths that ``read`` takes; empty when there is no such folder."""
        try:
            return tuple(sorted(self._session.list(folder)))
        except Exception as error:  # noqa: BLE001 - translated, whatever it is
            translated = translate_error(error, self._table, f"list {folder} beside")
            if isinstance(translated, NotFoundError):
                return ()
            raise translated from open_cause(error, self._table)

    def delete(self, paths: Iterable[str]) -> int:
        """Delete files, leaving out those already gone; return how many were there."""
        deleted = 0
        for path in paths:
            try:
                self._session.delete_file(path)
            except OSError:
                # Gone already, or held back by the store: a leftover is found by cleanup, so it is no error here.
                continue
            deleted += 1
        return deleted

    def delete_folder(self, folder: str) -> int:
        """Delete every file below a folder, and on a local disk the empty folders too; return how many files."""
        deleted = self.delete(self.list(folder))
        if self._local_root is not None:
            remove_empty_folders(self._local_root, self._local_root / folder)
        return deleted

    def holds_segment(self, segment: Segment) -> bool:
        """True when every file the segment lists is still on storage: a cleanup may have taken it for an orphan."""
        folder = f"{_SEGMENT_FOLDER}/{segment.uuid}/"
        present = {path.partition(folder)[2] for path in self.list(folder)}
        return segment.files is not None and {file.path for file in segment.files} <= present

    def delete_segment(self, uuid: str) -> int:
        """Delete the files of a segment that no version of the table lists."""
        return self.delete_folder(f"{_SEGMENT_FOLDER}/{uuid}")


def local_root(uri: str) -> Path | None:
    """The folder of a table on a local disk, or None when it is elsewhere."""
    scheme, separator, path = uri.partition("://")
    if not separator:
        return Path(uri)
    return Path(unquote(path)) if scheme in _LOCAL_SCHEMES else None


def remove_empty_folders(root: Path, folder: Path) -> None:
    """Remove what is empty at and below ``folder``, then its parents, but never the table itself."""
    # What another cleanup removes meanwhile is passed over.
    inside = [Path(above, name) for above, names, _ in os.walk(folder) for name in names]
    above = [folder, *(parent for parent in folder.parents if root in parent.parents)]
    for path in [*sorted(inside, reverse=True), *above]:
        try:
            path.rmdir()
        except OSError:
            # In use again, or gone: somebody else's folder now.
            continue
