"""Whatever the table went through and whatever is asked, a scan through indexes gives the rows that are TRUE, and so does the data source.

``LANCEWRIGHT_EXAMPLES`` sets the number of predicates (2,400), spread over as many tables as ``LANCEWRIGHT_WORLDS`` says (40).
``LANCEWRIGHT_SEED`` gives other tables (0). What Hypothesis finds is judged by Arrow, not by Lance.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import lancewright as lw
from lancewright.model.predicate import Comparison, Literal, Operator, Predicate, to_lance_sql
from lancewright.query.plan import Reason
from lancewright.query.resolve import ScanRequest, plan_scan, resolve_scan
from lancewright.query.run import count_scan, run_scan
from lancewright.query.settings import ScanSettings
from lancewright.runtime.local_runner import LocalRunner
from lancewright.table.location import table_ref
from support.examples import examples_of
from support.kleene import evaluate
from support.query_worlds import World, make_world
from support.source_reading import read_source
from support.world_predicates import PREDICATES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lancewright.query.resolve import ResolvedScan

WORLDS = int(os.environ.get("LANCEWRIGHT_WORLDS", "40"))
EXAMPLES = max(1, int(os.environ.get("LANCEWRIGHT_EXAMPLES", "2400")) // WORLDS)
SEED = int(os.environ.get("LANCEWRIGHT_SEED", "0"))
SPARK_WORLDS = 4
SPARK_EXAMPLES = max(1, EXAMPLES // 6)
# Asking an index costs nothing and reading a row nothing: every index that can answer is asked.
EAGER = ScanSettings(
    random_read_bytes=0, run_bytes=0, index_byte_weight=0.0, rows_per_task=7, scan_rows_per_task=90
)
USUAL = ScanSettings()
COLUMNS = ("_rowaddr", "id", "s")
UNHURRIED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
# How many predicates were judged, and how many of them were answered by an index, for all rows or some.
tried: Counter[str] = Counter()
different: set[str] = set()


@pytest.fixture(scope="module", params=range(SEED, SEED + WORLDS))
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("worlds"), request.param)


@pytest.fixture(scope="module")
def rows(world: World) -> pa.Table:
    return lance.dataset(world.uri).scanner(with_row_address=True).to_table()


@given(PREDICATES, st.sampled_from([EAGER, EAGER, EAGER, USUAL]))
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=UNHURRIED)
def test_a_scan_gives_the_rows_that_are_true(
    world: World, rows: pa.Table, predicate: Predicate, chosen: ScanSettings
) -> None:
    note("; ".join(world.history))
    note(to_lance_sql(predicate))
    runner = LocalRunner()

    scan = resolve(world, predicate, chosen)

    note(str(scan.planned.plan.portions))
    expected = rows.filter(evaluate(predicate, rows)).select(COLUMNS)
    assert in_order(run_scan(scan, runner)) == in_order(expected)
    assert count_scan(scan, runner) == expected.num_rows
    assert in_order(read_source(world.uri, COLUMNS, chosen, where=to_lance_sql(predicate))[0]) == in_order(
        expected
    )
    tried["judged"] += 1
    different.add(f"{world.uri} {to_lance_sql(predicate)}")
    tried["by index"] += any(answer.rows is not None for answer in scan.answers)


def test_so_many_predicates_were_judged_as_promised(request: pytest.FixtureRequest) -> None:
    """After the test above, for all its tables. Hypothesis may stop early, when it has tried all there is."""
    run = [item for item in request.session.items if "test_a_scan_gives_the_rows_that_are_true" in item.name]
    if len(run) < WORLDS:
        pytest.skip("only some of the tables were asked")

    assert tried["judged"] >= EXAMPLES * WORLDS
    assert tried["by index"] >= tried["judged"] // 3
    # Hypothesis repeats itself now and then, above all in what is small.
    assert len(different) >= tried["judged"] * 5 // 6
    assert len({one.partition(" ")[2] for one in different}) >= tried["judged"] // 2


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(SEED, SEED + SPARK_WORLDS))
def test_spark_gives_the_same_rows(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    world = make_world(tmp_path_factory.mktemp("spark-worlds"), seed)
    rows = lance.dataset(world.uri).scanner(with_row_address=True).to_table()
    table = lw.open(world.uri, spark=spark, progress=False)

    @examples_of(seed)
    @given(PREDICATES)
    @settings(max_examples=SPARK_EXAMPLES, deadline=None, suppress_health_check=UNHURRIED)
    def judge(predicate: Predicate) -> None:
        note("; ".join(world.history))
        sql = to_lance_sql(predicate)
        expected = rows.filter(evaluate(predicate, rows)).select(COLUMNS)

        found = table.scan(sql, columns=COLUMNS).to_spark().toArrow()

        assert in_order(found) == in_order(expected)
        assert in_order(table.scan(sql, columns=COLUMNS).to_arrow()) == in_order(expected)

    judge()


def resolve(world: World, predicate: Predicate, chosen: ScanSettings) -> ResolvedScan:
    """The scan with its indexes asked. Strict: none of them may fail."""
    request = ScanRequest(bound=predicate, columns=COLUMNS, settings=chosen, strict=True)
    return resolve_scan(plan_scan(table_ref(world.uri), request, 2))


def in_order(rows: pa.Table) -> list[tuple[object, ...]]:
    """The rows in the order of their addresses."""
    return sorted(zip(*(rows[name].to_pylist() for name in COLUMNS), strict=True), key=lambda row: row[0])


@pytest.mark.parametrize("column", ["i", "f", "s", "t", "n.x"])
def test_an_index_that_covers_anything_is_asked(world: World, column: str) -> None:
    type_, value = {
        "i": (pa.int64(), 3),
        "f": (pa.float64(), 0.25),
        "s": (pa.string(), "ab"),
        "t": (pa.timestamp("us"), 10**6),
        "n.x": (pa.int32(), 3),
    }[column]
    equal = Comparison(column=column, operator=Operator.EQUAL, literal=Literal(value=value, type=type_))

    planned = plan_scan(table_ref(world.uri), ScanRequest(bound=equal, settings=EAGER), 2)

    notes = [note for note in planned.plan.notes if note.kind in {"btree", "bitmap", "zonemap"}]
    of_column = [note for note in notes if note.index.startswith(f"{column.replace('.', '_')}_index")]
    # One that a rewrite made doubtful is asked and checked again, which may cost more than a scan.
    asked = {
        Reason.USED,
        Reason.INEXACT_PREFILTER,
        Reason.TOO_MANY_ROWS,
        Reason.NO_COVERAGE,
        Reason.STALE,
        Reason.NOT_BUILT,
        Reason.CHEAPER_INDEX,
    }
    # Nearly every zone of values in no order may hold any value.
    assert {note.reason for note in of_column if note.kind != "zonemap"} <= asked
    assert bool(planned.plan.probed) == any(note.used for note in of_column)
