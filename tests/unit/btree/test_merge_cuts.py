"""A cut divides every segment so that nothing before it is greater than anything behind it, and ranges are even."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewright.build.merge_cuts import Cut, PageEntries, cut_segments

Rows = list[Any]


def entries(rows: Rows, page_rows: int, type_: pa.DataType) -> PageEntries:
    """The page entries of one file with these rows, NULLs first."""
    pages = [rows[start : start + page_rows] for start in range(0, len(rows), page_rows)]
    return PageEntries(
        mins=pa.array([page[0] for page in pages], type_),
        maxs=pa.array([page[-1] for page in pages], type_),
        null_counts=np.array([page.count(None) for page in pages], dtype=np.int64),
        page_rows=page_rows,
    )


def place_in(rows: Rows, cut: Cut, number: int, page_rows: int) -> int:
    """Where the cut divides these rows, by looking at all of them."""
    place = cut.places[number]
    if place.row is not None:
        return min(place.row, len(rows))
    (key,) = cut.key.to_pylist()
    start = place.page * page_rows
    inside = rows[start : start + page_rows]
    assert inside, "a cut lies in a page that is there"
    return start + sum(value is None or value < key for value in inside)


def ranges_of(segments: list[tuple[Rows, int]], type_: pa.DataType, ranges: int) -> list[list[Rows]]:
    cuts = cut_segments([entries(rows, size, type_) for rows, size in segments], type_, ranges)
    places = [
        [0, *(place_in(rows, cut, number, size) for cut in cuts), len(rows)]
        for number, (rows, size) in enumerate(segments)
    ]
    assert all(found == sorted(found) for found in places)
    return [
        [rows[found[number] : found[number + 1]] for (rows, _), found in zip(segments, places, strict=True)]
        for number in range(len(cuts) + 1)
    ]


def order(value: Any) -> tuple[bool, Any]:
    """NULLs first, texts by their bytes."""
    return (value is not None, value.encode() if isinstance(value, str) else value)


def in_order(rows: Rows) -> Rows:
    return [None] * rows.count(None) + sorted((row for row in rows if row is not None), key=order)


values = st.one_of(st.none(), st.integers(0, 9), st.integers(-(2**62), 2**62))
words = st.one_of(
    st.none(), st.sampled_from(["", "a", "ab", "abcdefgh", "abcdefghi", "é", "zz"]), st.text(max_size=12)
)
hundreds = st.one_of(st.none(), st.integers(-99_999, 99_999).map(lambda number: Decimal(number).scaleb(2)))


@pytest.mark.parametrize(
    ("type_", "strategy"),
    [(pa.int64(), values), (pa.string(), words), (pa.decimal128(5, -2), hundreds)],
    ids=["int64", "string", "decimal128(5, -2)"],
)
@given(data=st.data())
def test_ranges_follow_each_other_and_hold_every_row_once(
    type_: pa.DataType, strategy: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    segments = [
        (in_order(data.draw(st.lists(strategy, max_size=60))), data.draw(st.integers(1, 9)))
        for _ in range(data.draw(st.integers(1, 4)))
    ]

    found = ranges_of(segments, type_, data.draw(st.integers(1, 8)))

    filled = [in_order([row for rows in one for row in rows]) for one in found if any(one)]
    for left, right in pairwise(filled):
        assert right[0] is not None or left[-1] is None
        assert left[-1] is None or order(left[-1]) <= order(right[0])
    for number, (rows, _) in enumerate(segments):
        assert [value for one in found for value in one[number]] == rows


@pytest.mark.parametrize(
    "values_of",
    [
        lambda random: np.sort(random.integers(0, 2**62, 20_000)),
        lambda _random: np.zeros(20_000, dtype="i8"),
        lambda random: np.sort(random.zipf(1.3, 20_000)),
        lambda _random: np.arange(20_000),
    ],
    ids=["random", "constant", "zipf", "ascending"],
)
def test_ranges_are_even_whatever_the_values(values_of: Any) -> None:
    random = np.random.default_rng(3)
    segments = [(values_of(random).tolist(), 50), (values_of(random)[::3].tolist(), 20), ([None] * 3_000, 30)]

    found = ranges_of(segments, pa.int64(), 10)

    sizes = [sum(map(len, one)) for one in found]
    assert len(sizes) == 10
    assert max(sizes) <= 1.15 * sum(sizes) / 10


def test_a_segment_without_pages_is_cut_nowhere() -> None:
    found = ranges_of([(list(range(100)), 10), ([], 10)], pa.int64(), 4)

    assert len(found) == 4
