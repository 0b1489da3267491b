"""What lies in a folder, to see whether something was written, or left behind."""

from __future__ import annotations

from pathlib import Path

import lance


def list_files(folder: str | Path) -> dict[str, int]:
    """Every file below the folder and every folder itself, with the time of its last change."""
    return {str(path): path.stat().st_mtime_ns for path in sorted(Path(folder).rglob("*"))}


def strays(uri: str) -> list[str]:
    """Files of a table on a local disk, without branches, that its one version does not use."""
    dataset = lance.dataset(uri)
    known = {str(row["path"]) for row in dataset.tracked_files().read_all().to_pylist()}
    known.add("_versions/latest_version_hint.json")
    found = (path.relative_to(uri).as_posix() for path in Path(uri).rglob("*") if path.is_file())
    return sorted(path for path in found if path not in known)
