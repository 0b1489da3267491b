"""A filter that Lance evaluates for Spark finds exactly the rows that Spark would find."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import datasource as pushed
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit

from lancewright.model.predicate import to_lance_sql
from lancewright.spark.filters import filter_to_predicate
from properties.predicates import columns_of_schema

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import Column, SparkSession

pytestmark = pytest.mark.spark

NAN, INF = float("nan"), float("inf")
DAY = dt.date(2026, 11, 1)
NOON = dt.datetime(2026, 11, 1, 12, 0, 0, 1, tzinfo=dt.UTC)
VALUES: dict[str, list[Any]] = {
    "double": [0.0, -0.0, 1.5, -1.5, 0.1, INF, -INF, NAN],
    "single": [0.0, 1.5, 0.10000000149011612, INF, NAN],
    "whole": [1, -1, 2**40],
    "tiny": [1, 127],
    "text": ["", "a", "é", "A%", "it's"],
    "flag": [True, False],
    "price": [Decimal("1.50"), Decimal("-2.25")],
    "day": [DAY],
    "at": [NOON],
    "local": [NOON.replace(tzinfo=None)],
    "bytes": [b"", b"a", b"\xff"],
    "nested": [3],
}
_PATHS = {"nested": ("outer", "field")}


def table() -> pa.Table:
    real = np.array([NAN, NAN, 0.0, 0.0, 1.5, -1.5, INF, -INF, 0.1, 2.0])
    bits = real.view("u8").copy()
    bits[1] |= np.uint64(1 << 63)
    bits[3] |= np.uint64(1 << 63)
    bits[9] = np.uint64(0x7FF8_0000_0000_0001)  # a NaN with other bits
    real, hole = bits.view("f8"), np.arange(11) == 10
    real = np.append(real, 0.0)

    def cycle(values: list[Any], type_: pa.DataType) -> pa.Array:
        return pa.array([[*values, None][row % (len(values) + 1)] for row in range(11)], type_)

    return pa.table(
        {
            "row": pa.array(range(11), pa.int64()),
            "double": pa.array(real, mask=hole, from_pandas=False),
            "single": pa.array(real.astype("f4"), mask=hole, from_pandas=False),
            "whole": cycle([1, -1, 0, 2**40, -(2**63), 2**63 - 1], pa.int64()),
            "tiny": cycle([1, 127, -128], pa.int8()),
            "text": cycle(["", "a", "b", "é", "A%", "it's", "ab"], pa.string()),
            "flag": cycle([True, False], pa.bool_()),
            "price": cycle([Decimal("1.50"), Decimal("-2.25"), Decimal("0.00")], pa.decimal128(10, 2)),
            "day": cycle([DAY, dt.date(1969, 12, 31)], pa.date32()),
            "at": cycle([NOON, dt.datetime(1960, 1, 1, tzinfo=dt.UTC)], pa.timestamp("us", tz="UTC")),
            "local": cycle(
                [NOON.replace(tzinfo=None), dt.datetime(1960, 1, 1)],  # noqa: DTZ001  a wall clock
                pa.timestamp("us"),
            ),
            "bytes": cycle([b"", b"a", b"\xff", b"a\0"], pa.binary()),
            "outer": cycle([{"field": 3}, {"field": None}], pa.struct([("field", pa.int32())])),
        }
    )


def filters() -> Iterator[tuple[pushed.Filter, Column]]:
    for name, values in VALUES.items():
        path = _PATHS.get(name, (name,))
        column = F.col(".".join(path))
        yield pushed.IsNull(path), column.isNull()
        yield pushed.IsNotNull(path), column.isNotNull()
        yield pushed.EqualNullSafe(path, None), column.eqNullSafe(F.lit(None))
        for value in values:
            constant = F.lit(value)
            yield pushed.EqualTo(path, value), column == constant
            yield pushed.EqualNullSafe(path, value), column.eqNullSafe(constant)
            yield pushed.LessThan(path, value), column < constant
            yield pushed.LessThanOrEqual(path, value), column <= constant
            yield pushed.GreaterThan(path, value), column > constant
            yield pushed.GreaterThanOrEqual(path, value), column >= constant
            yield pushed.In(path, (value, values[0])), column.isin(value, values[0])
            yield pushed.In(path, (value, None)), column.isin(value, F.lit(None))
    for text in VALUES["text"]:
        yield pushed.StringStartsWith(("text",), text), F.col("text").startswith(text)
        yield pushed.StringEndsWith(("text",), text), F.col("text").endswith(text)
        yield pushed.StringContains(("text",), text), F.col("text").contains(text)


def test_lance_finds_the_rows_that_spark_finds(spark: SparkSession, tmp_path: Path) -> None:
    rows = table()
    dataset = lance.write_dataset(rows, tmp_path / "t")
    asked = [*filters()]
    asked += [(pushed.Not(one), ~column) for one, column in asked]
    columns = columns_of_schema(rows.schema)
    frame = spark.createDataFrame(rows)

    answers = frame.select("row", *(column.alias(f"c{at}") for at, (_, column) in enumerate(asked))).toArrow()

    wrong, exact = [], 0
    for at, (filter_, _) in enumerate(asked):
        wanted = {
            row
            for row, yes in zip(answers["row"].to_pylist(), answers[f"c{at}"].to_pylist(), strict=True)
            if yes
        }
        found = filter_to_predicate(filter_, columns)
        if found is None:
            continue
        exact += found.exact
        sql = to_lance_sql(found.predicate)
        got = set(dataset.scanner(filter=sql, columns=["row"]).to_table()["row"].to_pylist())
        if got != wanted if found.exact else not wanted <= got:
            wrong.append((filter_, sql, sorted(got), sorted(wanted)))
    assert wrong == []
    assert exact > 0.9 * len(asked)
