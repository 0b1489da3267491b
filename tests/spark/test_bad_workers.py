"""Workers that cannot do the work: one error says what is wrong with them, and the table stays as it was."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import lancewright
from support.build_program import outcome, start
from support.busy_table import busy_table
from support.traces import listing

pytestmark = pytest.mark.spark


def build_with_workers_from(folder: Path, uri: str) -> dict[str, Any]:
    return outcome(
        start(
            uri=uri,
            master="local[1]",
            workers_path=str(folder),
            column="number",
            kind="btree",
            name="ours",
        )
    )


def test_a_worker_without_the_package_is_told_with_how_to_ship_it(tmp_path: Path) -> None:
    uri = str(busy_table(str(tmp_path / "table"), fragments=3).uri)
    before = listing(uri)
    package = tmp_path / "workers" / "lancewright"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("""raise ModuleNotFoundError("No module named 'lancewright'")""")

    end = build_with_workers_from(package.parent, uri)

    assert (end["error"], end["problem"]) == (
        "UnsupportedError",
        "Spark's Python workers cannot import lancewright",
    )
    assert "spark.archives" in end["remedy"]
    assert listing(uri) == before


def test_a_worker_with_another_version_is_told_with_both_versions(tmp_path: Path) -> None:
    uri = str(busy_table(str(tmp_path / "table"), fragments=3).uri)
    before = listing(uri)
    package = tmp_path / "workers" / "lancewright"
    shutil.copytree(Path(lancewright.__file__).parent, package)
    (package / "version.py").write_text('__version__ = "0.0.7"\n')

    end = build_with_workers_from(package.parent, uri)

    assert (end["error"], end["problem"]) == (
        "UnsupportedError",
        f"The worker has lancewright 0.0.7, the driver {lancewright.__version__}",
    )
    assert "same version" in end["remedy"]
    assert listing(uri) == before
