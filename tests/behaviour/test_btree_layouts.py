"""Which layout a BTree gets: sorted as a whole unless asked otherwise, and never so that a compaction can break it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancewright as lw
from lancewright.kinds.btree.empty_ranges import count_parts, find_empty_range_risk
from lancewright.table.config import DEFER_REMAP_KEY
from support.runners import BusyRunner
from support.tables import append_rows, ids, write_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RANGED = {"ranges": 4, "page_rows": 32}
QUESTIONS = ("number = 7", "number < 100", "number BETWEEN 480 AND 520", "number IS NULL", "number != 5")


def make(tmp_path: Path, *, stable: bool = False) -> lw.Table:
    return lw.open(write_table(str(tmp_path / "t"), stable_row_ids=stable).uri, progress=False)


def parts(table: lw.Table, name: str = "number_idx") -> list[int]:
    (info,) = [info for info in table.indexes() if info.name == name]
    return [count_parts(segment) for segment in info.segments]


def is_deferred(table: lw.Table) -> bool:
    return table.snapshot().config.get(DEFER_REMAP_KEY) == "true"


def is_right(table: lw.Table) -> bool:
    dataset = lance.dataset(table.name)
    return all(
        ids(dataset, question, use_index=True) == ids(dataset, question, use_index=False)
        for question in QUESTIONS
    )


def test_without_a_word_about_the_layout_the_rows_are_sorted_as_a_whole(tmp_path: Path) -> None:
    table = make(tmp_path)

    table.create_index("number", kind="btree", **RANGED)

    assert parts(table) == [4]
    assert is_deferred(table)
    assert is_right(table)


@pytest.mark.parametrize("stable", [False, True])
def test_a_small_table_gets_one_part_and_no_setting(tmp_path: Path, stable: bool) -> None:
    table = make(tmp_path, stable=stable)

    table.create_index("number", kind="btree")

    assert parts(table) == [1]
    assert table.snapshot().config == {}
    assert is_right(table)


def test_the_fragment_layout_is_there_on_request_and_when_several_segments_are_asked_for(
    tmp_path: Path,
) -> None:
    table = make(tmp_path)

    table.create_index("number", kind="btree", layout="fragment")
    table.create_index("number", kind="btree", name="two", segments=2)

    assert (parts(table), parts(table, "two")) == ([0], [0, 0])
    assert table.snapshot().config == {}


CHOICES: list[tuple[bool, dict[str, bool], int, bool, bool]] = [
    # stable row ids, what is asked: parts, table set to deferred remap, at risk
    (False, {}, 4, True, False),
    (False, {"defer_remap": False}, 0, False, False),
    (False, {"keep_ranges": True}, 4, True, False),
    (False, {"defer_remap": False, "keep_ranges": True}, 4, False, True),
    (True, {}, 0, False, False),
    (True, {"keep_ranges": True}, 4, False, True),
]


@pytest.mark.parametrize(("stable", "asked", "expected", "deferred", "at_risk"), CHOICES)
def test_ranges_are_kept_where_they_are_safe_or_asked_for(
    tmp_path: Path, stable: bool, asked: dict[str, bool], expected: int, deferred: bool, at_risk: bool
) -> None:
    table = make(tmp_path, stable=stable)
    parameters: dict[str, Any] = {**RANGED, **asked}

    table.create_index("number", kind="btree", **parameters)

    assert parts(table) == [expected]
    assert is_deferred(table) is deferred
    assert (find_empty_range_risk(table.snapshot(), "number_idx") is not None) is at_risk
    assert is_right(table)


@pytest.mark.parametrize("stable", [False, True])
def test_an_index_called_at_risk_is_broken_by_such_a_compaction_and_one_not_called_so_is_not(
    tmp_path: Path, stable: bool
) -> None:
    for keep in (True, False):
        uri = str(tmp_path / f"keep {keep}")
        table = lw.open(write_table(uri, stable_row_ids=stable).uri, progress=False)
        table.create_index("number", kind="btree", name="ix", keep_ranges=keep, defer_remap=False, **RANGED)
        risk = find_empty_range_risk(table.snapshot(), "ix")
        dataset = lance.dataset(uri)
        # Every fragment keeps rows, and so is rewritten; one range keeps none.
        dataset.delete("number BETWEEN 240 AND 760")

        dataset.optimize.compact_files()

        try:
            broken = not is_right(table)
        except BaseException:  # noqa: BLE001 - Lance panics, which is no Exception
            broken = True
        assert (risk is not None) is keep
        assert broken is keep


def test_a_table_that_defers_already_keeps_the_ranges_and_the_setting(tmp_path: Path) -> None:
    table = make(tmp_path)
    lance.dataset(table.name).update_config({DEFER_REMAP_KEY: "true"})

    table.create_index("number", kind="btree", defer_remap=False, **RANGED)

    assert parts(table) == [4]
    assert is_deferred(table)


def test_several_sorted_indexes_and_others_are_published_by_one_commit(tmp_path: Path) -> None:
    table = make(tmp_path)
    before = table.snapshot().version

    table.create_indexes(
        [
            lw.IndexRequest(column="number", kind="btree", parameters=RANGED),
            lw.IndexRequest(column="amount", kind="btree", parameters={"ranges": 3}),
            lw.IndexRequest(column="category", kind="btree"),
            lw.IndexRequest(column="category", kind="bitmap", name="words"),
            lw.IndexRequest(column="at", kind="btree", segments=2),
        ]
    )

    assert [parts(table, f"{column}_idx") for column in ("number", "amount", "category", "at")] == [
        [4], [3], [1], [0, 0],
    ]  # fmt: skip
    assert len(table.indexes()) == 5
    # One commit sets the table, one shows all indexes.
    assert table.snapshot().version == before + 2
    assert is_right(table)


ACTS: dict[str, Callable[[str], object]] = {
    "append": append_rows,
    "delete": lambda uri: lance.dataset(uri).delete("id % 9 = 1"),
    "update": lambda uri: lance.dataset(uri).update({"number": "number + 5"}, where="id % 7 = 2"),
    "compaction": lambda uri: (
        lance.dataset(uri).delete("id % 9 = 1"), lance.dataset(uri).optimize.compact_files()
    ),
    "another index": lambda uri: lance.dataset(uri).create_scalar_index("amount", "BTREE"),
    "a kind that deferral harms": lambda uri: lw.open(uri, progress=False).create_index("text", kind="fm"),
}  # fmt: skip


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("act", ACTS)
def test_what_others_commit_during_the_sort_leaves_the_answers_right(
    tmp_path: Path, act: str, stable: bool
) -> None:
    table = make(tmp_path, stable=stable)
    uri = table.name
    runner = BusyRunner([lambda: ACTS[act](uri)], stage="sample_one")

    lw.open(uri, runner=runner, progress=False).create_index("number", kind="btree", **RANGED)

    assert is_right(table)
    (info,) = [info for info in table.indexes() if info.name == "number_idx"]
    # What is new since the build began is left to the next refresh.
    assert len(info.coverage.gaps) <= 1
    assert find_empty_range_risk(table.snapshot(), "number_idx") is None


def test_ranges_left_by_a_dead_build_are_copied_when_they_are_not_safe_any_more(tmp_path: Path) -> None:
    table = make(tmp_path)
    uri = table.name
    request = [lw.IndexRequest(column="number", kind="btree", parameters=RANGED)]
    other = lw.IndexRequest(column="amount", kind="btree", parameters={"layout": "fragment"})
    broken = BusyRunner(failing=range(8), stage="build_index_segment")
    with pytest.raises(lw.TasksFailedError):
        lw.open(uri, runner=broken, progress=False).create_indexes([*request, other])
    table.create_index("text", kind="fm")

    table.create_indexes([*request, other])

    assert parts(table) == [0]
    assert not is_deferred(table)
    assert is_right(table)


def pages_read(dataset: lance.LanceDataset, question: str) -> int:
    seen: list[Any] = []
    dataset.scanner(columns=["id"], filter=question, scan_stats_callback=seen.append).to_table()
    return int(seen[0].parts_loaded)


def test_a_lookup_reads_the_pages_its_value_is_on_and_no_other(tmp_path: Path) -> None:
    """With the lookup warm: one page for a unique key, and for a repeated one those it fills, across ranges too."""
    uri = str(tmp_path / "table")
    keys = np.arange(100_000)
    keys[20_000:23_500] = 20_000  # three and a half pages
    keys[40_000:80_000] = 40_000  # forty pages, more than a range has
    order = np.random.default_rng(2).permutation(len(keys))
    table = pa.table({"id": np.arange(100_000), "number": keys[order]})
    lance.write_dataset(table, uri, max_rows_per_file=20_000)
    lw.open(uri, progress=False).create_index("number", kind="btree", ranges=4, page_rows=1_000)
    dataset = lance.dataset(uri)
    assert parts(lw.open(uri, progress=False)) == [4]
    pages_read(dataset, "number = 1")  # warms the lookup

    unique = [pages_read(dataset, f"number = {key}") for key in (5_500, 31_234, 99_001)]
    some, many = (pages_read(dataset, f"number = {key}") for key in (20_000, 40_000))

    assert unique == [1, 1, 1]
    assert 4 <= some <= 5
    # A range ends wherever its last row is, so each may add a page that is not full.
    assert 40 <= many <= 40 + 5
