"""A worker process imports what its tasks need, and keeps memory only where that was asked for."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import lancewright

_NEEDLESS = (
    "lancewright.api",
    "lancewright.query",
    "lancewright.maintain",
    "lancewright.sql_verbs",
    "lancewright.report",
)


def _run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout


def test_a_worker_that_sorts_does_not_import_the_rooms_of_the_driver() -> None:
    modules = _run(
        "import sys, lancewright.spark.exchange, lancewright.build.range_worker; print(*sys.modules, sep='\\n')"
    ).split()

    assert "lancewright.kinds.btree.range_writer" in modules
    assert [name for name in modules if name.startswith(_NEEDLESS)] == []


def test_every_public_name_is_there_and_an_unknown_one_is_told() -> None:
    found = _run(
        "import lancewright as lw\n"
        "assert set(lw.__all__) <= set(dir(lw)), dir(lw)\n"
        "assert all(getattr(lw, name) is not None for name in lw.__all__)\n"
        "try:\n    lw.opne\nexcept AttributeError as error:\n    print(error)\n"
    )

    assert found.strip() == "module 'lancewright' has no attribute 'opne'"


def test_no_public_name_is_that_of_a_module_which_would_take_its_place() -> None:
    modules = {module.name for module in pkgutil.iter_modules(lancewright.__path__)}

    assert modules
    assert modules & set(lancewright.__all__) == set()


def test_kept_memory_is_used_again_and_costs_no_page_faults() -> None:
    faults = [
        int(
            _run(
                "import resource, numpy as np\n"
                "from lancewright.spark.worker_process import keep_memory\n"
                f"{setup}\n"
                "def fill():\n    for _ in range(5):\n        np.ones(6_000_000)\n"
                "fill()\n"
                "before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
                "fill()\n"
                "print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)"
            )
        )
        for setup in ("", "keep_memory()")
    ]

    assert faults[1] < faults[0] // 4
