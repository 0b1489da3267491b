"""Turns what two native builders leave half done into segments that can be committed as they are."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lance.dataset import Index

_BITMAP_FILE = "bitmap_page_lookup.lance"


def finish_inverted(dataset: Any, staged: Index) -> Index:  # a LanceDataset, untyped inside
    """Merge the staged files into a readable segment on this worker and delete them.

    The native build returns ``staging/…`` files that the committing process would otherwise have to merge, all of
    them, on the driver.
    """
    finished: Index = dataset.merge_existing_index_segments([staged])
    delete_files(dataset, staged)
    return finished


def finish_json_bitmap(dataset: Any, shard: Index) -> Index:  # a LanceDataset, untyped inside
    """Give the shard's only file the name of a whole bitmap: with that name Lance reads it as one (measured).

    Copies the file through a local temporary file, because storage has no rename.
    """
    from lance.dataset import IndexFile

    file = (shard.files or [])[0]  # a shard is one file
    session, folder = dataset.new_file_session(), _folder(dataset, shard)
    with tempfile.TemporaryDirectory() as local:
        copy = str(Path(local) / _BITMAP_FILE)
        session.download_file(f"{folder}/{file.path}", copy)
        session.upload_file(copy, f"{folder}/{_BITMAP_FILE}")
    session.delete_file(f"{folder}/{file.path}")
    return replace(shard, files=[IndexFile(_BITMAP_FILE, file.size_bytes)])


def delete_files(dataset: Any, index: Index) -> None:  # a LanceDataset, untyped inside
    """Delete the files of a segment that was never committed; what cannot be deleted is left to cleanup."""
    session, folder = dataset.new_file_session(), _folder(dataset, index)
    for file in index.files or ():
        try:
            session.delete_file(f"{folder}/{file.path}")
        except OSError:  # an orphan costs space, failing here would cost the finished segment
            return


def _folder(dataset: Any, index: Index) -> str:  # a LanceDataset, untyped inside
    # A session's root is the table's; on a checked-out branch the index lies under the branch's own folder.
    plain = f"_indices/{index.uuid}"
    session = dataset.new_file_session()
    first = next((file.path for file in index.files or ()), "")
    if session.contains(f"{plain}/{first}"):
        return plain
    branches = dataset.branches.list()
    candidates = (f"tree/{branch}/{plain}" for branch in branches)
    return next((folder for folder in candidates if session.contains(f"{folder}/{first}")), plain)
