"""Cutting a row of weights into contiguous groups: complete, exact in number, the heaviest as light as can be."""

from __future__ import annotations

import time
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewright.build.groups import cut_contiguous, split_at_gaps

WEIGHTS = st.lists(st.integers(0, 40) | st.just(0), max_size=40)
FEW_WEIGHTS = st.lists(st.integers(0, 9), min_size=1, max_size=8)


def _heaviest(weights: list[int], cuts: list[int]) -> int:
    return max(sum(weights[start:end]) for start, end in pairwise([0, *cuts, len(weights)]))


@given(WEIGHTS, st.integers(-1, 50))
def test_the_groups_are_contiguous_complete_and_as_many_as_asked(weights: list[int], asked: int) -> None:
    groups = cut_contiguous(weights, asked)

    assert len(groups) == max(0, min(asked, len(weights)))
    assert all(len(group) > 0 for group in groups)
    if groups:
        assert [position for group in groups for position in group] == list(range(len(weights)))


@given(FEW_WEIGHTS, st.integers(1, 8))
def test_no_other_cut_has_a_lighter_heaviest_group(weights: list[int], asked: int) -> None:
    asked = min(asked, len(weights))

    groups = cut_contiguous(weights, asked)

    lightest = min(_heaviest(weights, list(cuts)) for cuts in combinations(range(1, len(weights)), asked - 1))
    assert max(sum(weights[position] for position in group) for group in groups) == lightest


@given(WEIGHTS.filter(bool), st.integers(1, 50))
def test_no_group_is_heavier_than_the_average_and_one_position_more(weights: list[int], asked: int) -> None:
    groups = cut_contiguous(weights, asked)

    heaviest = max(sum(weights[position] for position in group) for group in groups)
    assert heaviest <= sum(weights) / len(groups) + max(weights)


@pytest.mark.parametrize(("positions", "asked"), [(100, 7), (100, 100), (1000, 3)])
def test_positions_without_weight_are_shared_out_too(positions: int, asked: int) -> None:
    groups = cut_contiguous([0] * positions, asked)

    sizes = [len(group) for group in groups]
    assert (sum(sizes), len(sizes)) == (positions, asked)
    assert max(sizes) <= 2 * positions / asked + 1


def test_equal_weights_make_groups_of_equal_size_when_they_can() -> None:
    assert [len(group) for group in cut_contiguous([5] * 12, 4)] == [3, 3, 3, 3]


def test_one_heavy_position_stands_alone() -> None:
    assert cut_contiguous([1, 1, 100, 1, 1], 3) == (range(2), range(2, 3), range(3, 5))


@pytest.mark.parametrize("weight", [0, 1_000_000])
def test_ten_thousand_positions_are_cut_into_thousands_of_groups_in_a_moment(weight: int) -> None:
    started = time.process_time()
    groups = cut_contiguous([weight] * 10_000, 6_000)
    seconds = time.process_time() - started

    assert len(groups) == 6_000
    assert seconds < 0.5


@given(st.sets(st.integers(0, 60)))
def test_positions_are_split_wherever_one_is_missing_and_nowhere_else(chosen: set[int]) -> None:
    pieces = split_at_gaps(sorted(chosen))

    assert [position for piece in pieces for position in piece] == sorted(chosen)
    assert all(right == left + 1 for piece in pieces for left, right in pairwise(piece))
    assert all(right[0] > left[-1] + 1 for left, right in pairwise(pieces))
