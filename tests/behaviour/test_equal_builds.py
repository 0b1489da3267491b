"""Two processes that build the same index at the same moment do not spoil each other's work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pytest

import lancewright as lw
from support.build_program import outcome, start
from support.busy_table import CASES, busy_table, is_served, wrong_answers
from support.runners import BusyRunner
from support.traces import scratch

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 5_000


def is_right(uri: str, kind: str) -> bool:
    (info,) = [info for info in lw.open(uri, progress=False).indexes() if info.name == "ours"]
    return info.coverage.is_complete and is_served(uri, CASES[kind]) and not wrong_answers(uri, CASES[kind])


@pytest.mark.parametrize("kind", ["ngram", "btree"])
def test_one_of_two_equal_builds_wins_and_the_other_hears_why(tmp_path: Path, kind: str) -> None:
    uri = busy_table(str(tmp_path / "table"), rows_per_fragment=ROWS).uri
    drivers = [start(uri=uri, column=CASES[kind].column, kind=kind, name="ours") for _ in range(2)]

    ends = [outcome(driver) for driver in drivers]

    assert [end["error"] for end in ends].count(None) == 1
    # Whoever comes after the other's commit hears it before its first task.
    assert {end["error"] for end in ends} <= {None, "ConflictError", "InvalidRequestError"}
    assert is_right(uri, kind)
    assert scratch(uri) == []


def test_with_replace_two_equal_builds_both_succeed(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table"), rows_per_fragment=ROWS).uri
    drivers = [
        start(uri=uri, column="text", kind="ngram", name="ours", segments=segments, replace=True)
        for segments in (4, 8)
    ]

    ends = [outcome(driver) for driver in drivers]

    assert [end["error"] for end in ends] == [None, None]
    assert len(lw.open(uri, progress=False).snapshot().segments_named("ours")) in {4, 8}
    assert is_right(uri, "ngram")
    assert scratch(uri) == []
    for version in lance.dataset(uri).versions():
        lance.dataset(uri, version=version["version"]).count_rows("contains(text, 'alpha')")


@pytest.mark.parametrize("replace", [False, True])
def test_two_processes_do_not_both_take_up_the_same_broken_off_build(tmp_path: Path, replace: bool) -> None:
    uri = busy_table(str(tmp_path / "table"), rows_per_fragment=ROWS).uri
    with pytest.raises(lw.TasksFailedError):
        lw.open(uri, runner=BusyRunner(failing=[2, 6]), progress=False).create_index(
            "text", kind="ngram", name="ours", segments=8, replace=replace
        )
    drivers = [
        start(uri=uri, column="text", kind="ngram", name="ours", segments=8, replace=replace)
        for _ in range(2)
    ]

    ends = [outcome(driver) for driver in drivers]

    assert None in {end["error"] for end in ends}
    assert {end["error"] for end in ends} <= {None, "ConflictError", "InvalidRequestError"}
    assert is_right(uri, "ngram")
    assert scratch(uri) == []
