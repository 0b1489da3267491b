"""Which of Spark's filters become predicates, which exactly, and which stay with Spark."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import datasource as pushed

from lancewright.model.predicate import to_lance_sql
from lancewright.spark.filters import filter_to_predicate
from properties.predicates import columns_of_schema

COLUMNS = columns_of_schema(
    pa.schema(
        [
            ("id", pa.int64()),
            ("small", pa.int8()),
            ("ratio", pa.float64()),
            ("weight", pa.float32()),
            ("name", pa.string()),
            ("kind", pa.dictionary(pa.int8(), pa.string())),
            ("price", pa.decimal128(10, 2)),
            ("at", pa.timestamp("us", tz="UTC")),
            ("local", pa.timestamp("us")),
            ("fine", pa.timestamp("ns")),
            ("day", pa.date32()),
            ("clock", pa.time64("us")),
            ("tags", pa.list_(pa.string())),
            ("user", pa.struct([("age", pa.int32())])),
            ("a.b", pa.int64()),
        ]
    )
)
NOON = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)
BELOW = "ratio < CAST('-inf' AS DOUBLE)"


@pytest.mark.parametrize(
    ("filter_", "sql"),
    [
        (pushed.EqualTo(("id",), 5), "id = 5"),
        (pushed.EqualTo(("id",), None), "CAST(NULL AS BOOLEAN)"),
        (pushed.Not(pushed.EqualTo(("id",), 5)), "NOT (id = 5)"),
        (pushed.EqualNullSafe(("id",), None), "id IS NULL"),
        (pushed.EqualNullSafe(("id",), 5), "id IS NOT NULL AND id = 5"),
        (pushed.LessThan(("small",), 1000), "small IS NOT NULL OR CAST(NULL AS BOOLEAN)"),
        (pushed.In(("id",), (1, 2, None)), "id IN (1, 2) OR CAST(NULL AS BOOLEAN)"),
        (pushed.GreaterThan(("ratio",), 1.5), f"ratio > 1.5 OR {BELOW}"),
        (pushed.LessThan(("ratio",), 1.5), f"ratio < 1.5 AND NOT ({BELOW})"),
        (pushed.EqualTo(("ratio",), float("nan")), f"ratio > CAST('inf' AS DOUBLE) OR {BELOW}"),
        (pushed.EqualTo(("weight",), 0.5), "weight = 0.5"),
        (pushed.IsNotNull(("user", "age")), "user.age IS NOT NULL"),
        (pushed.EqualTo(("a.b",), 1), "`a.b` = 1"),
        (pushed.StringStartsWith(("name",), "it's"), "starts_with(name, 'it''s')"),
        (pushed.StringEndsWith(("name",), "x"), "ends_with(name, 'x')"),
        (pushed.StringContains(("name",), "x"), "contains(name, 'x')"),
        (pushed.EqualTo(("kind",), "x"), "kind = 'x'"),
        (pushed.EqualTo(("price",), Decimal("1.50")), "price = arrow_cast('1.50', 'Decimal128(10, 2)')"),
        (pushed.EqualTo(("at",), NOON), "at = timestamp '2026-11-01 12:00:00'"),
        (pushed.EqualTo(("local",), NOON.replace(tzinfo=None)), "local = timestamp '2026-11-01 12:00:00'"),
        (pushed.EqualTo(("day",), dt.date(2026, 11, 1)), "day = date '2026-11-01'"),
    ],
)
def test_a_filter_that_can_be_said_in_lance_is_handled_exactly(filter_: pushed.Filter, sql: str) -> None:
    found = filter_to_predicate(filter_, COLUMNS)

    assert found is not None
    assert to_lance_sql(found.predicate) == sql
    assert found.exact


@pytest.mark.parametrize(
    "filter_",
    [
        pushed.EqualTo(("nowhere",), 1),
        pushed.EqualTo(("ID",), 1),
        pushed.EqualTo(("tags",), ["a"]),
        pushed.EqualTo(("tags", "item"), "a"),
        pushed.EqualTo(("id",), "5"),
        pushed.EqualTo(("id",), True),
        pushed.EqualTo(("name",), 5),
        pushed.EqualTo(("ratio",), Decimal("0.1")),
        pushed.EqualTo(("fine",), NOON.replace(tzinfo=None)),
        pushed.EqualTo(("clock",), dt.time(12)),
        pushed.EqualTo(("at",), NOON.replace(tzinfo=None)),
        pushed.EqualTo(("local",), NOON),
        pushed.EqualTo(("day",), NOON),
        pushed.EqualTo(("at",), dt.date(2026, 11, 1)),
        pushed.In(("id",), ()),
        pushed.In(("id",), (1, "x")),
        pushed.StringContains(("kind",), "x"),
        pushed.Not(pushed.EqualTo(("fine",), NOON)),
    ],
)
def test_a_filter_whose_meaning_may_differ_stays_with_spark(filter_: pushed.Filter) -> None:
    assert filter_to_predicate(filter_, COLUMNS) is None


def test_a_list_with_a_zero_is_filtered_again_and_never_negated() -> None:
    filter_ = pushed.In(("ratio",), (0.0, 1.0))

    found = filter_to_predicate(filter_, COLUMNS)

    assert found is not None
    assert not found.exact
    assert filter_to_predicate(pushed.Not(filter_), COLUMNS) is None
