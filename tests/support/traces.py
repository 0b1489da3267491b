"""What a build left on storage: every file and folder of a local table, and those that nobody refers to."""

from __future__ import annotations

from pathlib import Path

import lance

from lancewright.table.location import table_ref
from lancewright.table.snapshot_reader import read_snapshot


def listing(uri: str) -> list[str]:
    """Every file and every folder below the table, relative to it."""
    return sorted(str(path.relative_to(uri)) for path in Path(uri).rglob("*"))


def scratch(uri: str) -> list[str]:
    """Folders below ``_indices`` that no version of the table lists, and our own folder, if there is one."""
    versions = [version["version"] for version in lance.dataset(uri).versions()]
    snapshots = [read_snapshot(table_ref(uri, version=version)) for version in versions]
    known = {segment.uuid for snapshot in snapshots for segment in snapshot.segments}
    folders = [path for path in Path(uri, "_indices").glob("*") if path.name not in known]
    own = Path(uri).glob("_lancewright*")
    return sorted(str(path.relative_to(uri)) for path in [*folders, *own])
