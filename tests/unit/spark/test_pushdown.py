"""Which filters are answered, which are left to Spark."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import datasource as pushed

from lancewright.model.predicate import to_lance_sql
from lancewright.spark.pushdown import choose_filters
from properties.predicates import columns_of_schema

COLUMNS = columns_of_schema(
    pa.schema(
        [
            ("id", pa.int64()),
            ("ratio", pa.float64()),
            ("fine", pa.timestamp("ns")),
            ("user", pa.struct([("age", pa.int32())])),
        ]
    )
)


def asked(*filters: pushed.Filter) -> str | None:
    predicate = choose_filters(filters, COLUMNS).predicate
    return None if predicate is None else to_lance_sql(predicate)


def test_the_null_check_spark_adds_to_a_comparison_is_not_asked_for() -> None:
    assert asked(pushed.IsNotNull(("id",)), pushed.EqualTo(("id",), 5)) == "id = 5"
    assert asked(pushed.IsNotNull(("user",)), pushed.GreaterThan(("user", "age"), 5)) == "user.age > 5"
    assert asked(pushed.IsNotNull(("id",)), pushed.Not(pushed.EqualTo(("id",), 5))) == "NOT (id = 5)"


def test_a_null_check_that_nothing_else_implies_is_asked_for() -> None:
    assert asked(pushed.IsNotNull(("id",))) == "id IS NOT NULL"
    assert (
        asked(pushed.IsNotNull(("id",)), pushed.EqualNullSafe(("id",), None))
        == "id IS NOT NULL AND id IS NULL"
    )
    assert asked(pushed.IsNotNull(("id",)), pushed.Not(pushed.EqualNullSafe(("id",), 5))) == (
        "id IS NOT NULL AND NOT (id IS NOT NULL AND id = 5)"
    )
    assert asked(pushed.IsNotNull(("fine",)), pushed.EqualTo(("fine",), 5)) == "fine IS NOT NULL"


def test_what_cannot_be_said_exactly_goes_back_to_spark() -> None:
    fine = pushed.EqualTo(("fine",), 5)
    zero = pushed.In(("ratio",), (0.0, 1.0))

    chosen = choose_filters([pushed.EqualTo(("id",), 5), fine, zero], COLUMNS)

    assert chosen.left == (fine, zero)
    assert chosen.predicate is not None
    assert "ratio" in to_lance_sql(chosen.predicate)


def test_without_filters_nothing_is_asked() -> None:
    assert choose_filters([], COLUMNS).predicate is None
