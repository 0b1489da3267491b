"""What lies below a table is listed while others write and delete there."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

from lancewright.table.location import table_ref
from lancewright.table.stored_files import list_stored_files

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_folder_that_goes_while_files_are_listed_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("data/a", "_indices/gone/b", "_indices/here/c"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    really = os.scandir

    def scan(folder: Any) -> Any:
        if not isinstance(folder, int) and os.fspath(folder).endswith("gone"):
            shutil.rmtree(folder)
        return really(folder)

    monkeypatch.setattr(os, "scandir", scan)

    found = list_stored_files(table_ref(str(tmp_path)))

    assert [file.path for file in found] == ["_indices/here/c", "data/a"]
