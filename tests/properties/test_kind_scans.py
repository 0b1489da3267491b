"""Whatever the table went through and whatever is asked, indexes of our own kinds give the rows that are TRUE.

``LANCEWRIGHT_KIND_WORLDS`` sets the number of tables (24), ``LANCEWRIGHT_KIND_EXAMPLES`` of predicates for each (60).
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

import lance
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from lancewright.model.predicate import Predicate, to_lance_sql
from lancewright.query.plan import indexes_of
from lancewright.query.resolve import ScanRequest, plan_scan, resolve_scan
from lancewright.query.run import count_scan, run_scan
from lancewright.query.settings import ScanSettings
from lancewright.runtime.local_runner import LocalRunner
from lancewright.table.location import table_ref
from support.kind_worlds import make_kind_world
from support.kleene import evaluate
from support.world_predicates import PREDICATES

if TYPE_CHECKING:
    import pyarrow as pa

    from support.query_worlds import World

WORLDS = int(os.environ.get("LANCEWRIGHT_KIND_WORLDS", "24"))
EXAMPLES = int(os.environ.get("LANCEWRIGHT_KIND_EXAMPLES", "60"))
SEED = int(os.environ.get("LANCEWRIGHT_SEED", "0"))
EAGER = ScanSettings(
    random_read_bytes=0, run_bytes=0, index_byte_weight=0.0, rows_per_task=7, scan_rows_per_task=90
)
tried: Counter[str] = Counter()


@pytest.fixture(scope="module", params=range(SEED, SEED + WORLDS))
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_kind_world(tmp_path_factory.mktemp("worlds"), request.param)


@pytest.fixture(scope="module")
def rows(world: World) -> pa.Table:
    return lance.dataset(world.uri).scanner(with_row_address=True).to_table()


@given(PREDICATES, st.sampled_from([EAGER, EAGER, EAGER, ScanSettings()]))
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)
def test_a_scan_gives_the_rows_that_are_true(
    world: World, rows: pa.Table, predicate: Predicate, chosen: ScanSettings
) -> None:
    note("; ".join(world.history))
    note(to_lance_sql(predicate))
    planned = plan_scan(
        table_ref(world.uri),
        ScanRequest(bound=predicate, columns=("_rowaddr",), settings=chosen, strict=True),
        2,
    )
    note(str(planned.plan.portions))

    scan = resolve_scan(planned)

    expected = sorted(rows["_rowaddr"].filter(evaluate(predicate, rows)).to_pylist())
    assert sorted(run_scan(scan, LocalRunner())["_rowaddr"].to_pylist()) == expected
    assert count_scan(scan, LocalRunner()) == len(expected)
    tried.update(
        name.partition("_")[0]
        for portion in planned.plan.portions
        if portion.probe is not None
        for name in indexes_of(portion.probe)
    )


def test_both_kinds_were_asked_often(request: pytest.FixtureRequest) -> None:
    """After the test above, for all its tables."""
    run = [item for item in request.session.items if "gives_the_rows_that_are_true" in item.name]
    if len(run) < WORLDS:
        pytest.skip("only some of the tables were asked")
    assert tried["composite"] >= WORLDS * EXAMPLES // 10
    assert tried["key"] >= WORLDS * EXAMPLES // 40
