"""How many key ranges a sort makes: what was asked for, else what fits a task and keeps every slot busy to the end."""

from __future__ import annotations

import pytest

from lancewright.build.range_build import count_ranges


@pytest.mark.parametrize(
    ("rows", "parallelism", "expected"),
    [(0, 2, 1), (4_000_000, 2, 1), (4_000_001, 2, 2), (9 * 4_000_000, 2, 10), (100_000_000, 2, 26), (100_000_000, 200, 25)],
)  # fmt: skip
def test_ranges_fit_a_task_and_end_together(rows: int, parallelism: int, expected: int) -> None:
    assert count_ranges(rows, 16, {}, parallelism) == expected


def test_wide_values_make_more_ranges() -> None:
    assert count_ranges(4_000_000, 1_000, {}, 1) > 40


def test_what_was_asked_for_is_what_is_made() -> None:
    assert count_ranges(1_000, 16, {"ranges": 7}, 2) == 7
    assert count_ranges(5, 16, {"ranges": 7}, 2) == 5
    assert count_ranges(1_000, 16, {"rows_per_range": 300}, 3) == 4
