"""Whatever the table went through and whatever Spark asks of the data source, it gives the rows that are TRUE.

The filters that Spark pushes go to every index that can answer, for thousands of filters without Spark; for some on Spark itself,
many in one job. That ``where`` gives the same rows is a part of ``test_scans``.

``LANCEWRIGHT_EXAMPLES`` and ``LANCEWRIGHT_SEED`` are those of ``test_scans``.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from functools import reduce
from typing import TYPE_CHECKING

import lance
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import lancewright as lw
from lancewright.model.predicate import And, Predicate, to_lance_sql
from lancewright.query.settings import ScanSettings
from support.examples import examples_of
from support.kleene import evaluate
from support.query_worlds import World, make_world
from support.source_reading import read_source
from support.spark_predicates import conjuncts, to_column, to_filter
from support.world_predicates import ATOMS, PREDICATES

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

WORLDS = 12
EXAMPLES = max(1, int(os.environ.get("LANCEWRIGHT_EXAMPLES", "2400")) // 5 // WORLDS)
SEED = int(os.environ.get("LANCEWRIGHT_SEED", "0"))
SPARK_WORLDS = 2
SPARK_EXAMPLES = max(1, EXAMPLES // 8)
EAGER = ScanSettings(
    random_read_bytes=0, run_bytes=0, index_byte_weight=0.0, rows_per_task=7, scan_rows_per_task=90
)
UNHURRIED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
tried: Counter[str] = Counter()


@pytest.fixture(scope="module", params=range(SEED, SEED + WORLDS))
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("source-worlds"), request.param)


@pytest.fixture(scope="module")
def rows(world: World) -> pa.Table:
    return every_row(world)


@given(st.lists(ATOMS | PREDICATES, min_size=1, max_size=4), st.none() | PREDICATES)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=UNHURRIED)
def test_what_spark_pushes_beside_a_where_gives_the_rows_that_are_true(
    world: World, rows: pa.Table, parts: list[Predicate], where: Predicate | None
) -> None:
    note("; ".join(world.history))
    wanted = [part for one in parts for part in conjuncts(one)]
    filters = {to_filter(part): part for part in wanted if to_filter(part) is not None}
    sql = None if where is None else to_lance_sql(where)
    note(f"{sql}; {list(filters)}")

    found, left = read_source(world.uri, ["_rowaddr", "id"], EAGER, where=sql, filters=list(filters))

    asked = [*filters.values(), *([] if where is None else [where])]
    after = addresses(rows, [filters[one] for one in left]) if left else set(rows["_rowaddr"].to_pylist())
    given_ = found["_rowaddr"].to_pylist()
    expected = addresses(rows, asked) if asked else after
    assert sorted(set(given_) & after) == sorted(expected)
    assert len(given_) == len(set(given_))
    tried["pushed"] += len(filters)
    tried["left"] += len(left)


def test_spark_was_left_few_of_the_filters_it_can_push(request: pytest.FixtureRequest) -> None:
    """After the test above, for all its tables."""
    if not tried["pushed"]:
        pytest.skip("the test above was not asked for")

    assert tried["left"] < tried["pushed"] / 10


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(SEED, SEED + SPARK_WORLDS))
def test_spark_finds_through_the_source_what_it_finds_in_the_rows_themselves(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    world = make_world(tmp_path_factory.mktemp("source-on-spark"), seed)
    rows = every_row(world)
    lw.register(spark)
    drawn: list[Predicate] = []

    @examples_of(seed)
    @given(PREDICATES)
    @settings(max_examples=SPARK_EXAMPLES, deadline=None, suppress_health_check=UNHURRIED)
    def draw(predicate: Predicate) -> None:
        drawn.append(predicate)

    draw()
    expected = [sorted(rows.filter(evaluate(one, rows))["id"].to_pylist()) for one in drawn]

    asked_by_option = [load(spark, world, where=to_lance_sql(predicate)) for predicate in drawn]
    whole = load(spark, world)
    spark.conf.set(PUSHDOWN, "true")
    try:
        # One frame for each filter: see decision 0016.
        pushed = [load(spark, world, push_filters="true").where(to_column(one)) for one in drawn]
        both = [
            load(spark, world, push_filters="true", where=to_lance_sql(one)).where(to_column(one))
            for one in drawn
        ]
        filtered = [whole.where(to_column(one)) for one in drawn]
        ways = {"where": asked_by_option, "pushed": pushed, "both": both, "Spark's own": filtered}
        found = {way: in_one_job(frames) for way, frames in ways.items()}
    finally:
        spark.conf.unset(PUSHDOWN)

    for number, predicate in enumerate(drawn):
        for way, answers in found.items():
            assert answers[number] == expected[number], (way, to_lance_sql(predicate), world.history)


def every_row(world: World) -> pa.Table:
    return lance.dataset(world.uri).scanner(with_row_address=True).to_table()


def addresses(rows: pa.Table, asked: list[Predicate]) -> set[int]:
    """The rows that meet all conditions. Spark and Lance agree on these values: their one NaN is above all other numbers."""
    together = asked[0] if len(asked) == 1 else And(children=tuple(asked))
    return set(rows.filter(evaluate(together, rows))["_rowaddr"].to_pylist())


def load(spark: SparkSession, world: World, **options: str) -> DataFrame:
    return spark.read.format("lancewright").options(**options).load(world.uri)


def in_one_job(frames: list[DataFrame]) -> dict[int, list[int]]:
    """The rows of each frame, by its number. Any frame alone would cost a job."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

    numbered = [frame.select(F.lit(at).alias("at"), "id") for at, frame in enumerate(frames)]
    found: dict[int, list[int]] = defaultdict(list)
    for row in reduce(lambda left, right: left.union(right), numbered).collect():
        found[row["at"]].append(row["id"])
    return {at: sorted(found[at]) for at in range(len(frames))}
