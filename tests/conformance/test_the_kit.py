"""The kit accepts kinds that are right and rejects those that are wrong in one place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lancewright.testing import run_check, run_kit
from lancewright.testing.mutants import MUTANTS, Mutant
from lancewright.testing.toys import nearest_harness, shelf_harness

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("make", [shelf_harness, nearest_harness])
def test_a_kind_that_is_right_conforms(make: object) -> None:
    assert callable(make)

    report = run_kit(make())

    assert report.conforms, str(report)
    assert "mandatory" in report.summary()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fails_the_check_that_is_there_for_it(mutant: Mutant) -> None:
    result = run_check(mutant.harness, mutant.caught_by)

    assert not result.passed
    # It fails because a promise is broken, not because the mutant crashes.
    assert "BrokenPromiseError" in result.problem


def test_there_are_mutants_enough() -> None:
    assert len(MUTANTS) >= 9


def test_the_suite_runs_under_pytest_on_a_kind_by_name(tmp_path: Path) -> None:
    run = _pytest(tmp_path, "--index-kind", "key", "-k", "not life and not oracle")

    assert run.returncode == 0, run.stdout
    assert "passed" in run.stdout


def test_the_suite_fails_a_mutant(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(
        "from lancewright.testing.mutants import MUTANTS\n"
        "harness = next(one for one in MUTANTS if one.name == 'IsOffByOneBound').harness\n"
    )

    run = _pytest(tmp_path, "--index-harness", "wrong:harness", "-k", "every_bound")

    assert run.returncode == 1
    assert "1 failed" in run.stdout


def _pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    # The plugin is named, because a checkout is not always installed with its entry points.
    command = ["-m", "pytest", "-p", "lancewright_pytest", "-p", "no:cacheprovider", "--pyargs"]
    return subprocess.run(
        [sys.executable, *command, "lancewright.testing.suite", "-q", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(folder)])},
        capture_output=True,
        text=True,
        check=False,
    )
