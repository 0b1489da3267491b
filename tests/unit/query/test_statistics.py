"""Estimates follow the data, and a zone that holds a row for which a condition is TRUE is never left out."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewright.model.predicate import (
    And,
    Comparison,
    InList,
    IsNull,
    Like,
    Literal,
    Not,
    Operator,
    Predicate,
)
from lancewright.query.statistics import IndexStatistics, KeyTable, PageTable, ZoneTable, zone_mask

PAGE = 100
FLOATS = st.sampled_from([None, math.nan, -math.inf, -1.5, -0.0, 0.0, 1.5, math.inf])


def page_table(values: np.ndarray, *, nulls: int = 0) -> PageTable:
    ordered = np.sort(values)
    starts = range(0, len(ordered), PAGE)
    return PageTable(
        low=pa.array(ordered[::PAGE]),
        high=pa.array([ordered[min(start + PAGE, len(ordered)) - 1] for start in starts]),
        nulls=np.array([nulls, *([0] * (len(starts) - 1))]),
        page_rows=PAGE,
    )


def compare(operator: Operator, value: object, type_: pa.DataType | None = None) -> Comparison:
    return Comparison(column="c", operator=operator, literal=Literal(value=value, type=type_ or pa.int64()))


def rows_and_pages(table: PageTable, predicate: Predicate) -> tuple[float, float]:
    statistics = IndexStatistics(tables={"ix": (table,)}, rows={"ix": 10_000})
    estimate = statistics.estimate("ix", predicate)
    assert estimate is not None
    return estimate.rows, estimate.pages


def test_a_unique_key_touches_one_page_and_few_rows() -> None:
    rows, pages = rows_and_pages(page_table(np.arange(10_000)), compare(Operator.EQUAL, 4321))

    assert pages == 1
    assert rows < PAGE


def test_a_key_outside_every_page_touches_nothing() -> None:
    assert rows_and_pages(page_table(np.arange(10_000)), compare(Operator.EQUAL, -5)) == (0, 0)


def test_a_value_in_half_of_the_rows_is_known_to_be_frequent() -> None:
    values = np.concatenate([np.full(5000, 7), np.arange(100, 5100)])

    rows, pages = rows_and_pages(page_table(values), compare(Operator.EQUAL, 7))

    assert rows == pytest.approx(5000, rel=0.02)
    assert pages == 50


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_a_range_is_estimated_within_a_page(low: int, high: int) -> None:
    between = And(children=(compare(Operator.GREATER_EQUAL, low), compare(Operator.LESS, high)))

    rows, _ = rows_and_pages(page_table(np.arange(10_000)), between)

    assert abs(rows - max(0, high - low)) <= PAGE + 1


def test_a_list_costs_a_page_for_each_of_its_keys() -> None:
    keys = tuple(Literal(value=value, type=pa.int64()) for value in range(0, 10_000, 50))

    rows, pages = rows_and_pages(page_table(np.arange(10_000)), InList(column="c", literals=keys))

    assert pages == 100  # every page, each counted once at most
    assert rows <= 10_000


def test_not_equal_is_nearly_everything_and_nulls_are_counted() -> None:
    table = page_table(np.arange(10_000), nulls=30)

    assert rows_and_pages(table, compare(Operator.NOT_EQUAL, 3))[0] > 9_900
    assert rows_and_pages(table, IsNull(column="c"))[0] == 30
    assert rows_and_pages(table, Not(child=IsNull(column="c")))[0] == 9_970


def test_the_share_of_a_bitmap_is_that_of_its_keys() -> None:
    statistics = IndexStatistics(
        tables={"ix": (KeyTable(keys=pa.array([*range(100)]), size_bytes=1000),)}, rows={"ix": 5000}
    )

    one = statistics.estimate("ix", compare(Operator.EQUAL, 3))
    half = statistics.estimate("ix", compare(Operator.LESS, 50))

    assert one is not None
    assert one.rows == pytest.approx(50)
    assert half is not None
    assert half.rows == pytest.approx(2500)


def test_nothing_is_estimated_for_an_index_nothing_is_known_of() -> None:
    assert IndexStatistics().estimate("ix", compare(Operator.EQUAL, 3)) is None


def zones_of(values: list[float | None], size: int) -> ZoneTable:
    parts = [values[start : start + size] for start in range(0, len(values), size)]

    def bounds(part: list[float | None], place: int) -> float | None:
        known = [value for value in part if value is not None and not math.isnan(value)]
        # As Lance writes them: the largest is NaN as soon as there is one.
        if place == -1 and any(value is not None and math.isnan(value) for value in part):
            return math.nan
        return sorted(known, key=lambda value: (value, math.copysign(1, value)))[place] if known else None

    return ZoneTable(
        low=pa.array([bounds(part, 0) for part in parts], pa.float64()),
        high=pa.array([bounds(part, -1) for part in parts], pa.float64()),
        nulls=np.array([sum(value is None for value in part) for part in parts]),
        nans=np.array([sum(value is not None and math.isnan(value) for value in part) for part in parts]),
        fragments=np.zeros(len(parts), dtype=np.int64),
        starts=np.arange(0, len(values), size),
        lengths=np.array([len(part) for part in parts]),
    )


def _key(value: float) -> tuple[int, float, float]:
    """Lance's total order of floats."""
    return (1, 0.0, 0.0) if math.isnan(value) else (0, value, math.copysign(1, value))


def _is_true(value: float | None, operator: Operator, literal: float) -> bool:
    if value is None:
        return False
    left, right = _key(value), _key(literal)
    # The equality of a full scan takes the zeros for one; the order does not.
    equal = left == right or value == literal
    return {
        Operator.EQUAL: equal,
        Operator.LESS: left < right,
        Operator.LESS_EQUAL: left <= right or equal,
        Operator.GREATER: left > right,
        Operator.GREATER_EQUAL: left >= right or equal,
    }[operator]


@given(
    st.lists(FLOATS, min_size=1, max_size=24),
    st.sampled_from([op for op in Operator if op is not Operator.NOT_EQUAL]),
    FLOATS.filter(lambda value: value is not None),
)
def test_no_zone_with_a_true_row_is_left_out(
    values: list[float | None], operator: Operator, literal: float
) -> None:
    zones = zones_of(values, 4)

    mask = zone_mask(zones, compare(operator, literal, pa.float64()))

    for place, value in enumerate(values):
        if _is_true(value, operator, literal):
            assert mask[place // 4]


@given(
    st.lists(st.none() | st.text("ab\u00e9\U0001f600z", max_size=4), min_size=1, max_size=24),
    st.text("ab\u00e9\U0001f600z", min_size=1, max_size=3),
)
def test_no_zone_with_a_matching_prefix_is_left_out(values: list[str | None], prefix: str) -> None:
    parts = [values[start : start + 4] for start in range(0, len(values), 4)]
    known = [[value for value in part if value is not None] for part in parts]
    zones = ZoneTable(
        low=pa.array([min(part, key=str.encode) if part else None for part in known], pa.string()),
        high=pa.array([max(part, key=str.encode) if part else None for part in known], pa.string()),
        nulls=np.array([part.count(None) for part in parts]),
        nans=np.zeros(len(parts), dtype=np.int64),
        fragments=np.zeros(len(parts), dtype=np.int64),
        starts=np.arange(0, len(values), 4),
        lengths=np.array([len(part) for part in parts]),
    )

    mask = zone_mask(zones, Like(column="c", pattern=f"{prefix}%"))

    for place, value in enumerate(values):
        if value is not None and value.startswith(prefix):
            assert mask[place // 4]
