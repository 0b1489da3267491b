"""Filters written in Python: the same trees as SQL, with values of any library."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lancewright as lw
from lancewright.errors import InvalidRequestError
from lancewright.model.predicate import Expression, Not, parse_predicate, resolve_where, to_lance_sql
from unit.model.predicate.test_reading import COLUMNS

UTC = dt.UTC


def text(where: Any) -> str:
    found = resolve_where(where, COLUMNS)
    assert found is not None
    return to_lance_sql(found)


def _nested(levels: int) -> Expression:
    found = lw.col("id") == 0
    for number in range(levels):
        one = lw.col("id") != number
        found = found & one if number % 2 else found | one
    return found


@pytest.mark.parametrize(
    ("expression", "sql"),
    [
        (lw.col("id") > 3, "id > 3"),
        (3 < lw.col("id"), "id > 3"),  # noqa: SIM300  the mirrored form is the test
        (lw.col("id") == 2.5, "id = 2.5"),
        (lw.col("id") != np.int8(3), "id != 3"),
        (lw.col("small") < np.uint64(2**64 - 1), "small < 18446744073709551615"),
        (lw.col("weight") == 0.1, "weight = 0.1"),
        (~(lw.col("weight") < 0.5), "NOT (weight < 0.5)"),
        (lw.col("ratio") == float("nan"), "ratio = CAST('NaN' AS DOUBLE)"),  # noqa: PLW0177  a condition
        (lw.col("ratio") < math.inf, "ratio < CAST('inf' AS DOUBLE)"),
        (lw.col("price") == Decimal("1.5"), "price = 1.5"),
        (lw.col("price") == 0.1, "price = 0.1"),
        (lw.col("name") == "it's", "name = 'it''s'"),
        (lw.col("name") == np.str_("a"), "name = 'a'"),
        (lw.col("flag") == np.bool_(1), "flag = TRUE"),
        (lw.col("flag"), "flag"),
        (~lw.col("flag"), "NOT flag"),
        (lw.col("data") == b"\x00'", "data = X'0027'"),
        (lw.col("day") == dt.date(2026, 11, 1), "day = '2026-11-01'"),
        (lw.col("at") == dt.datetime(2026, 11, 1, 1, 2, 3, 4), "at = '2026-11-01 01:02:03.000004'"),  # noqa: DTZ001
        (lw.col("at") == np.datetime64("2026-11-01T00:00:00", "s"), "at = '2026-11-01'"),
        (lw.col("at") == pd.Timestamp("2026-11-01"), "at = '2026-11-01'"),
        (lw.col("at") < pd.Timestamp("2026-11-01 00:00:00.000000001"), "at <= '2026-11-01'"),
        (lw.col("utc") == dt.datetime(2026, 11, 1, tzinfo=UTC), "utc = '2026-11-01'"),
        (lw.col("clock") == dt.time(12), "clock = '12:00'"),
        (lw.col("id") == None, "id = NULL"),  # noqa: E711  as pandas users write it
        (lw.col("at") == pd.NaT, "at = NULL"),
        (lw.col("id") == pd.NA, "id = NULL"),
        (lw.col("id") == pa.scalar(7, pa.int16()), "id = 7"),
        (lw.col("id").isin([1, 2, 2]), "id IN (1, 2)"),
        (lw.col("id").isin(np.array([1, 2])), "id IN (1, 2)"),
        (lw.col("id").isin([1, None]), "id IN (1, NULL)"),
        (lw.col("id").is_null(), "id IS NULL"),
        (lw.col("id").is_not_null(), "id IS NOT NULL"),
        (lw.col("id").between(1, 2), "id BETWEEN 1 AND 2"),
        (lw.col("name").like("a!%", escape="!"), "name LIKE 'a!%' ESCAPE '!'"),
        (lw.col("name").ilike("a%"), "name ILIKE 'a%'"),
        (lw.col("name").startswith("a'"), "starts_with(name, 'a''')"),
        (lw.col("name").endswith("a"), "ends_with(name, 'a')"),
        (lw.col("name").contains("a"), "contains(name, 'a')"),
        (lw.col("tags").has("a"), "array_has(tags, 'a')"),
        (lw.col("tags").has_any(["a", "b"]), "array_has_any(tags, ['a', 'b'])"),
        (lw.col("tags").has_all(["a"]), "array_has_all(tags, ['a'])"),
        (lw.col("user.`full name`") == "x", "user.`full name` = 'x'"),
        (lw.col("id") > lw.col("small"), "id > small"),
        ((lw.col("id") > 1) & (lw.col("id") < 9) & lw.col("flag"), "id > 1 AND id < 9 AND flag"),
        ((lw.col("id") > 1) | ~(lw.col("name") == "a"), "id > 1 OR NOT (name = 'a')"),
    ],
)
def test_python_says_what_sql_says(expression: Expression, sql: str) -> None:
    assert text(expression) == to_lance_sql(parse_predicate(sql, COLUMNS))


@pytest.mark.parametrize(
    "other",
    [
        lw.col("name") == "a",
        lw.col("name").is_not_null(),
        lw.col("name").like("a%"),
        lw.col("name").startswith("a"),
        lw.col("tags").has("a"),
        lw.col("flag") == True,  # noqa: E712  the value is the test
    ],
    ids=str,
)
def test_a_negation_means_the_same_literals_whatever_else_is_negated_with_them(other: Expression) -> None:
    number = (lw.col("weight") == 0.1) | (lw.col("id") == 10**30) | (lw.col("id") < 2.5)

    negated = resolve_where(~(number & other), COLUMNS)

    positive = resolve_where(number & other, COLUMNS)
    assert positive is not None
    assert negated == Not(child=positive)


def test_nothing_is_in_an_empty_list_and_null_stays_null() -> None:
    assert text(lw.col("id").isin([])) == "id IS NULL AND CAST(NULL AS BOOLEAN)"


def test_an_int_beyond_64_bits_is_compared_exactly() -> None:
    assert text(lw.col("id") < 2**70) == "id IS NOT NULL OR CAST(NULL AS BOOLEAN)"


def test_no_filter_is_none() -> None:
    assert resolve_where(None, COLUMNS) is None


@pytest.mark.parametrize(
    "ask",
    [
        lambda: bool(lw.col("id")),
        lambda: lw.col("id") > 1 and lw.col("flag"),
        lambda: not lw.col("flag"),
        lambda: 1 < lw.col("id") < 3,  # type: ignore[operator]
        lambda: lw.col("id") in [1, 2],
    ],
)
def test_words_that_ask_for_a_truth_value_are_refused_with_the_operator_to_use(ask: Any) -> None:
    with pytest.raises(InvalidRequestError, match="Use & instead of and"):
        ask()


@pytest.mark.parametrize(
    "ask",
    [
        lambda: (lw.col("id") > 1) & 3,
        lambda: lw.col("id") == (lw.col("id") > 1),
        lambda: lw.col("id").isin("abc"),
        lambda: lw.col("name").startswith(5),
        lambda: lw.col("a..b"),
        lambda: lw.col(5),  # type: ignore[arg-type]
        lambda: text(_nested(5_000)),
        lambda: text(lw.col("id") == "x"),
        lambda: text(lw.col("id") == object()),
        lambda: text(lw.col("id") == [1]),
        lambda: text(lw.col("at") == dt.datetime(2026, 1, 1, tzinfo=UTC)),
        lambda: text(lw.col("flag") == 1),
        lambda: text(5),
        lambda: text(b"id = 1"),
        lambda: text(lw.col("nowhere") == 1),
    ],
)
def test_what_has_no_meaning_is_refused(ask: Any) -> None:
    with pytest.raises(InvalidRequestError):
        ask()
