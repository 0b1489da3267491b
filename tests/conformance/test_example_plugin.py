"""The example in ``examples/grid_kind`` is installed as a package and used through its entry point."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugin")
    # From a copy: building leaves files beside the sources.
    source = folder / "source"
    subprocess.run(["cp", "-r", str(ROOT / "examples" / "grid_kind"), str(source)], check=True)
    target = folder / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps"]
    subprocess.run([*pip, "--no-index", "--target", str(target), str(source)], check=True)
    return target


def run(code: str, folder: Path, *more: Path) -> str:
    path = os.pathsep.join(str(part) for part in (ROOT / "src", *more))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_installed_kind_is_known_by_its_name_without_being_imported(
    installed: Path, tmp_path: Path
) -> None:
    said = run(
        """
        import sys
        import lancewright
        from lancewright.kinds.plugins import PLUGINS
        print(PLUGINS.names(), "lancewright_grid" in sys.modules)
        """,
        tmp_path,
        installed,
    )

    assert "'grid'" in said
    assert said.strip().endswith("False")


def test_an_installed_kind_is_built_asked_and_when_uninstalled_scanned_around(
    installed: Path, tmp_path: Path
) -> None:
    build = """
        import lance, numpy as np, pyarrow as pa
        import lancewright as lw
        random = np.random.default_rng(1)
        rows = pa.table({"x": random.uniform(0, 100, 400_000), "y": random.uniform(0, 100, 400_000)})
        lance.write_dataset(rows, "places.lance", max_rows_per_file=100_000)
        lw.open("places.lance", progress=False).create_index(["x", "y"], kind="grid", cell=0.5)
    """
    ask = """
        import lancewright as lw
        table = lw.open("places.lance", progress=False)
        where = "x >= 10 AND x < 10.4 AND y >= 20.5 AND y < 20.9"
        (line,) = table.explain(where, analyze=True).indexes
        print(line.kind, line.reason, table.scan(where).count() == table.scan(where, use_indexes=False).count())
    """

    run(build, tmp_path, installed)

    assert run(ask, tmp_path, installed).split() == ["grid", "INEXACT_PREFILTER", "True"]
    assert run(ask, tmp_path).split() == ["grid", "NO_PLUGIN", "True"]


def test_an_installed_kind_conforms(installed: Path, tmp_path: Path) -> None:
    said = run(
        """
        from lancewright.testing import run_kit
        from lancewright_grid import harness
        report = run_kit(harness())
        print(report)
        assert report.conforms
        """,
        tmp_path,
        installed,
    )

    assert said.startswith("grid: 30/30 mandatory")
