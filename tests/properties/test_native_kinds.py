"""The kit's conditions, asked through the planner of every kind that Lance builds, find the rows that are TRUE.

Each kind is tried on each type of column in one of four layouts; ``LANCEWRIGHT_LONG=1`` tries all layouts and more conditions.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest

from lancewright.query.resolve import ScanRequest, plan_scan, resolve_scan
from lancewright.query.run import run_scan
from lancewright.query.settings import ScanSettings
from lancewright.runtime.local_runner import LocalRunner
from lancewright.table.location import table_ref
from support.native_kinds import CASES, LAYOUTS, LONG, Layout, NativeCase, make_table, tree

if TYPE_CHECKING:
    from pathlib import Path

TREES = 150 if LONG else 12
# An index that can answer is asked, whatever it costs.
EAGER = ScanSettings(random_read_bytes=0, run_bytes=0, index_byte_weight=0.0)
WORLDS = [
    (case, layout)
    for number, case in enumerate(CASES)
    for place, layout in enumerate(LAYOUTS)
    if (LONG or place == number % len(LAYOUTS)) and (case.kind != "json" or not layout.stable_row_ids)
]
asked: Counter[str] = Counter()


@pytest.mark.parametrize(("case", "layout"), WORLDS, ids=str)
def test_what_is_asked_of_a_native_kind_is_answered_rightly(
    tmp_path: Path, case: NativeCase, layout: Layout
) -> None:
    table = make_table(str(tmp_path), case, layout)
    random = np.random.default_rng(len(str(case)))
    single = (
        table.atoms if LONG else [table.atoms[place] for place in random.permutation(len(table.atoms))[:24]]
    )

    for judged in (*single, *(tree(random, table.atoms) for _ in range(TREES))):
        request = ScanRequest(where=judged.sql, columns=("id",), settings=EAGER, strict=True)
        scan = resolve_scan(plan_scan(table_ref(table.uri), request, 2))
        found = run_scan(scan, LocalRunner())["id"].to_pylist()
        assert sorted(found) == judged.rows(table.alive), judged.sql
        asked[case.kind] += any(note.used for note in scan.planned.plan.notes)


def test_every_kind_that_is_trusted_for_something_was_asked(request: pytest.FixtureRequest) -> None:
    run = [item for item in request.session.items if "test_what_is_asked_of_a_native" in item.name]
    if len(run) < len(WORLDS):
        pytest.skip("only some of the kinds were tried")

    kinds = {case.kind for case in CASES}
    assert {kind for kind in kinds if not asked[kind]} == {"json"}
