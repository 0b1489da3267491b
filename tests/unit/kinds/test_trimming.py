"""What the commit and the refresh rely on: when a segment may claim less than it holds, per kind and row-id mode.

Each test runs Lance and compares the outcome with what the kind's definition says, so a Lance release that behaves
otherwise, better or worse, shows here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lancewright.kinds.lance_native.segments import merge_segments
from lancewright.kinds.registry import find_kind
from unit.kinds.laboratory import (
    KINDS,
    ROWS,
    SCALAR_KINDS,
    TEXT_KINDS,
    Bench,
    cases,
    commit,
    compact,
    fragment_ids,
    make_table,
    rewrite_in_place,
    set_up,
    trim,
    update_rows,
    wrong_answers,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import lance

    from lancewright.kinds.lance_native.definition import NativeKind

ALL = [0, 1, 2, 3]
EVERY_CASE = [
    pytest.param(case, stable, id=f"{case}-{'stable' if stable else 'addresses'}")
    for stable in (False, True)
    for case in cases(stable_row_ids=stable)
]


def rewritten_and_covered_again(dataset: lance.LanceDataset, bench: Bench, type_: str) -> lance.LanceDataset:
    old = bench.build(dataset, ALL)
    dataset = rewrite_in_place(dataset, type_, 2)
    return commit(dataset, [trim(old, [0, 1]), bench.build(dataset, [2, 3])])


def handed_to_another_segment(dataset: lance.LanceDataset, bench: Bench, _type: str) -> lance.LanceDataset:
    return commit(dataset, [trim(bench.build(dataset, ALL), [0, 1]), bench.build(dataset, [2, 3])])


def compacted_away(dataset: lance.LanceDataset, bench: Bench, _type: str) -> lance.LanceDataset:
    old = bench.build(dataset, ALL)
    dataset, new = compact(dataset, [2, 3])
    return commit(dataset, [trim(old, [0, 1]), bench.build(dataset, new)])


def compacted_away_and_rewritten(dataset: lance.LanceDataset, bench: Bench, type_: str) -> lance.LanceDataset:
    old = bench.build(dataset, ALL)
    dataset, new = compact(dataset, [2, 3])
    dataset = rewrite_in_place(dataset, type_, new[0])
    return commit(dataset, [trim(old, [0, 1]), bench.build(dataset, new)])


def rewritten_and_left_uncovered(dataset: lance.LanceDataset, bench: Bench, type_: str) -> lance.LanceDataset:
    old = bench.build(dataset, ALL)
    dataset = rewrite_in_place(dataset, type_, 2)
    return commit(dataset, [trim(old, [0, 1])])


def rows_updated_between_two_segments(
    dataset: lance.LanceDataset, bench: Bench, type_: str
) -> lance.LanceDataset:
    old = bench.build(dataset, [0, 1])
    dataset = update_rows(dataset, type_, ROWS, ROWS + 60)
    return commit(dataset, [old, bench.build(dataset, [two for two in fragment_ids(dataset) if two > 1])])


def rewritten_and_cleaned(dataset: lance.LanceDataset, bench: Bench, type_: str) -> lance.LanceDataset:
    old = bench.build(dataset, ALL)
    dataset = rewrite_in_place(dataset, type_, 2)
    cleaned = merge_segments(dataset, [trim(old, [0, 1])])
    return commit(dataset, [cleaned, bench.build(dataset, [2, 3])])


def kind_of(case: str) -> NativeKind:
    return find_kind(case.split(":", maxsplit=1)[0])


def is_right(
    folder: Path,
    case: str,
    stable: bool,
    scenario: Callable[[lance.LanceDataset, Bench, str], lance.LanceDataset],
) -> bool:
    type_ = KINDS[case][0]
    dataset = make_table(folder, type_, stable_row_ids=stable)
    bench = set_up(dataset, case)
    return not wrong_answers(scenario(dataset, bench, type_), case, bench, folder)


@pytest.mark.parametrize(("case", "stable"), EVERY_CASE)
def test_a_fragment_that_lives_on_may_change_segments_only_where_the_definition_says_so(
    tmp_path: Path, case: str, stable: bool
) -> None:
    kind = kind_of(case)

    outcomes = [
        is_right(tmp_path / "1", case, stable, rewritten_and_covered_again),
        is_right(tmp_path / "2", case, stable, handed_to_another_segment),
    ]

    trimming = kind.trimming_on_stable_row_ids if stable else kind.trimming_on_addresses
    assert all(outcomes) is trimming.alive


@pytest.mark.parametrize(("case", "stable"), EVERY_CASE)
def test_a_fragment_that_is_gone_may_be_taken_out_only_where_the_definition_says_so(
    tmp_path: Path, case: str, stable: bool
) -> None:
    kind = kind_of(case)

    outcomes = [
        is_right(tmp_path / "1", case, stable, compacted_away),
        is_right(tmp_path / "2", case, stable, compacted_away_and_rewritten),
    ]

    trimming = kind.trimming_on_stable_row_ids if stable else kind.trimming_on_addresses
    assert all(outcomes) is trimming.gone


@pytest.mark.parametrize(("case", "stable"), EVERY_CASE)
def test_updated_rows_make_stale_answers_only_on_stable_row_ids_and_where_the_definition_says_so(
    tmp_path: Path, case: str, stable: bool
) -> None:
    if case == "inverted" and not stable:
        pytest.skip("deleted documents still count in BM25 scores, as in any Lance index")
    stale_expected = stable and kind_of(case).stale_on_update

    right = is_right(tmp_path, case, stable, rows_updated_between_two_segments)

    assert right is not stale_expected


@pytest.mark.parametrize(
    ("case", "stable"), [parameters for parameters in EVERY_CASE if parameters.values[0] != "inverted"]
)
def test_every_kind_may_give_up_a_fragment_that_nobody_covers_afterwards(
    tmp_path: Path, case: str, stable: bool
) -> None:
    assert is_right(tmp_path, case, stable, rewritten_and_left_uncovered)


@pytest.mark.parametrize(
    "case", [case for case in (*SCALAR_KINDS, *TEXT_KINDS) if not case.startswith("json")]
)
def test_a_merge_of_one_cleans_a_trimmed_segment_where_the_definition_says_so(
    tmp_path: Path, case: str
) -> None:
    right = is_right(tmp_path, case, False, rewritten_and_cleaned)

    assert right is kind_of(case).cleaned_by_merge
