"""LanceDB, another reader of the format, opens a table and answers through a sorted B-tree. Runs where it is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancewright as lw
from support.tables import ids

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import json, sys
import lancedb
folder, questions = sys.argv[1], json.loads(sys.argv[2])
table = lancedb.connect(folder).open_table("rows")
found = {}
for question in questions:
    search = table.search().where(question).select(["id"]).limit(1_000_000)
    rows = search.to_arrow()["id"].to_pylist()
    found[question] = (sorted(rows), "ScalarIndexQuery" in search.explain_plan(verbose=True))
print(json.dumps([found, [index.name for index in table.list_indices()]]))
"""
QUESTIONS = (
    "number = 77",
    "number < 40",
    "number BETWEEN 500 AND 520",
    "number IN (3, 999, 5000)",
    "number IS NULL",
)


def interpreter() -> str:
    """One that has lancedb: this one, or the one ``LANCEWRIGHT_LANCEDB_PYTHON`` names."""
    found = os.environ.get("LANCEWRIGHT_LANCEDB_PYTHON", sys.executable)
    has = subprocess.run([found, "-c", "import lancedb"], check=False, capture_output=True)
    if has.returncode:
        pytest.skip("lancedb is not installed; LANCEWRIGHT_LANCEDB_PYTHON names an interpreter that has it")
    return found


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_lancedb_answers_through_the_index_before_and_after_changes(tmp_path: Path, stable: bool) -> None:
    python = interpreter()
    uri = str(tmp_path / "rows.lance")
    numbers = np.random.default_rng(3).permutation(6_000) % 1_000
    table = pa.table({"id": np.arange(6_000), "number": pa.array(numbers, mask=np.arange(6_000) % 50 == 3)})
    lance.write_dataset(table, uri, max_rows_per_file=1_500, enable_stable_row_ids=stable)
    # What Lance itself builds shows what this release of LanceDB can see: older ones pass over row addresses on stable ids.
    lance.dataset(uri).create_scalar_index("id", "BTREE", name="theirs")
    lw.open(uri, progress=False).create_index("number", kind="btree", name="ours", ranges=5, page_rows=64)

    for change in (lambda: None, lambda: lance.dataset(uri).delete("id % 7 = 1")):
        change()
        asked = [python, "-c", PROGRAM, str(tmp_path), json.dumps(QUESTIONS)]
        done = subprocess.run(asked, check=True, capture_output=True, text=True)
        found, names = json.loads(done.stdout.strip().splitlines()[-1])
        assert ("ours" in names) is ("theirs" in names)
        assert "ours" in names or stable
        for question in QUESTIONS:
            assert found[question][0] == ids(lance.dataset(uri), question, use_index=False), question
            assert found[question][1] is ("ours" in names), question
