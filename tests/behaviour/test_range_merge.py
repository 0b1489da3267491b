"""Merging sorted segments reads their pages only, and answers as a scan does whatever happened to the table meanwhile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyroaring import FrozenBitMap

import lancewright as lw
from lancewright.build.range_merge import RangeMerge, merge_ranges
from lancewright.kinds.btree.empty_ranges import count_parts
from lancewright.model.columns import find_column
from lancewright.runtime.local_runner import LocalRunner
from lancewright.table import column_reader
from lancewright.table.commit import IndexChange, commit_segments
from lancewright.table.config import DEFER_REMAP_KEY
from lancewright.table.location import table_ref
from lancewright.table.segment_files import SegmentReader
from lancewright.table.snapshot_reader import read_snapshot
from support.busy_table import CASES, busy_table, rewrite_column, wrong_answers
from support.range_delta import RangeDelta, build_delta
from support.tables import append_rows, ids, plan_uses_index, rows, write_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from lancewright.build.range_merge import MergedSegment

COLUMNS = ("number", "amount", "category")
QUESTIONS = {
    "number": ("number = 123", "number < 40", "number >= 960", "number != 5", "number IN (1, 250, 999, 5555)",
               "number IS NULL", "number IS NOT NULL", "number BETWEEN 240 AND 260", "NOT (number < 900)"),
    "amount": ("amount = 0.0", "amount < -1.0", "amount > 1.5", "amount IS NULL", "NOT (amount < 0.5)"),
    "category": ("category = 'beta'", "category < 'eta'", "category IS NULL", "category IN ('alpha', 'kappa')",
                 "category LIKE 'ga%'", "category != 'beta'"),
}  # fmt: skip
MODES = pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])


def build(uri: str, column: str, **parameters: Any) -> None:
    chosen = {"ranges": 4, "page_rows": 32, "name": "ours", **parameters}
    lw.open(uri, progress=False).create_index(column, kind="btree", **chosen)


def add_delta(uri: str, column: str, *, everything: bool = False, **parameters: Any) -> None:
    """Sort the fragments no segment covers into a segment of their own, or everything into one that claims no more."""
    table = table_ref(uri)
    snapshot = read_snapshot(table)
    wanted = uncovered(uri)
    delta = build_delta(
        RangeDelta(
            table=table,
            snapshot=snapshot,
            name="ours",
            column=find_column(snapshot.columns, column),
            fragments=snapshot.fragments_by_id if everything else wanted,
            parameters={"ranges": 3, "page_rows": 20, **parameters},
        ),
        LocalRunner(),
    )
    assert set(delta.covered) == (set(snapshot.fragments_by_id) if everything else wanted)
    commit_segments(table, snapshot, IndexChange(add=(replace(delta, fragments=FrozenBitMap(wanted)),)))


def merge(uri: str, column: str, runner: Any = None, **parameters: Any) -> MergedSegment:
    table = table_ref(uri)
    snapshot = read_snapshot(table)
    sources = snapshot.segments_named("ours")
    merged = merge_ranges(
        RangeMerge(
            table=table,
            snapshot=snapshot,
            column=find_column(snapshot.columns, column),
            sources=sources,
            parameters={"ranges": 5, "page_rows": 64, **parameters},
        ),
        runner or LocalRunner(),
    )
    commit_segments(table, snapshot, IndexChange(remove=sources, add=(merged.segment,)))
    return merged


def wrong(uri: str, column: str) -> list[str]:
    dataset = lance.dataset(uri)
    return [
        question
        for question in QUESTIONS[column]
        if ids(dataset, question, use_index=True) != ids(dataset, question, use_index=False)
        or (" != " not in question and "NOT (" not in question and not plan_uses_index(dataset, question))
    ]


def uncovered(uri: str) -> set[int]:
    snapshot = read_snapshot(table_ref(uri))
    covered = {fragment for segment in snapshot.segments_named("ours") for fragment in segment.covered}
    return set(snapshot.fragments_by_id) - covered


def no_table_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_asked: object) -> None:
        raise AssertionError("the table was read")

    monkeypatch.setattr(column_reader, "read_column", refuse)
    monkeypatch.setattr(column_reader, "sample_column", refuse)
    monkeypatch.setattr(lance.LanceDataset, "scanner", refuse)
    monkeypatch.setattr(lance.LanceFragment, "scanner", refuse)
    monkeypatch.setattr(lance.LanceFragment, "take", refuse)


def update_column(uri: str) -> None:
    lance.dataset(uri).update(
        {"number": "number + 5", "amount": "amount + 1", "category": "'theta'"}, where="id % 7 = 2"
    )


def merge_in(uri: str) -> None:
    act = lance.dataset(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    act.execute(rows(600, start=3_700, seed=9))


def delete(uri: str) -> None:
    lance.dataset(uri).delete("id % 5 = 1 OR number BETWEEN 300 AND 320")


def compact_deferred(uri: str) -> None:
    delete(uri)
    dataset = lance.dataset(uri)
    dataset.optimize.compact_files(defer_index_remap=not dataset.has_stable_row_ids)


CHANGES: dict[str, Callable[[str], object]] = {
    "append": append_rows,
    "delete": delete,
    "update": update_column,
    "merge_insert": merge_in,
    "compaction": compact_deferred,
    "compaction at once": lambda uri: (delete(uri), lance.dataset(uri).optimize.compact_files()),
    "a delta of Lance's": lambda uri: (
        append_rows(uri),
        lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0),
    ),
}


@MODES
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("column", COLUMNS)
def test_a_base_and_a_delta_become_one_right_segment_without_reading_the_table(
    tmp_path: Path, column: str, change: str, stable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "table")
    write_table(uri, stable_row_ids=stable, delete="id % 11 = 3")
    build(uri, column)
    CHANGES[change](uri)
    append_rows(uri)
    add_delta(uri, column)
    update_column(uri)

    with monkeypatch.context() as patched:
        no_table_reads(patched)
        merged = merge(uri, column)

    assert wrong(uri, column) == []
    assert len(read_snapshot(table_ref(uri)).segments_named("ours")) == 1
    assert count_parts(merged.segment) == (0 if stable else 5)
    assert uncovered(uri) == set(merged.segment.covered) ^ set(read_snapshot(table_ref(uri)).fragments_by_id)
    lance.dataset(uri).optimize.compact_files()
    assert wrong(uri, column) == []


@MODES
@pytest.mark.parametrize("layouts", [("range", "fragment"), ("fragment", "range"), ("fragment", "fragment")])
def test_plain_segments_merge_with_ranged_ones(
    tmp_path: Path, layouts: tuple[str, str], stable: bool
) -> None:
    uri = str(tmp_path / "table")
    write_table(uri, stable_row_ids=stable)
    plain = {"layout": "fragment", "ranges": None}
    build(uri, "number", **(plain if layouts[0] == "fragment" else {"keep_ranges": True}))
    append_rows(uri)
    if layouts[1] == "fragment":
        lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    else:
        add_delta(uri, "number", keep_ranges=True)

    merge(uri, "number", keep_ranges=True)

    assert wrong(uri, "number") == []
    assert uncovered(uri) == set()


def test_a_merge_without_deferred_remap_ends_as_one_file(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    write_table(uri)
    build(uri, "number", defer_remap=False)
    append_rows(uri)
    add_delta(uri, "number")

    merged = merge(uri, "number")

    assert {file.path for file in merged.segment.files or ()} == {"page_data.lance", "page_lookup.lance"}
    assert DEFER_REMAP_KEY not in read_snapshot(table_ref(uri)).config
    assert wrong(uri, "number") == []
    folders = {path.name for path in (Path(uri) / "_indices").iterdir() if any(path.iterdir())}
    assert merged.segment.uuid in folders


@pytest.mark.parametrize(
    "values",
    [np.zeros(20_000, "i8"), np.repeat([3, 5], 10_000), np.arange(20_000), np.random.default_rng(1).zipf(1.3, 20_000)],
    ids=["constant", "two values", "unique", "zipf"],
)  # fmt: skip
def test_ranges_of_a_merge_are_even(tmp_path: Path, values: Any) -> None:
    uri = str(tmp_path / "table")
    table = pa.table({"id": np.arange(20_000), "number": pa.array(values, pa.int64())})
    lance.write_dataset(table, uri, max_rows_per_file=5_000)
    build(uri, "number", ranges=3)
    lance.write_dataset(table.slice(0, 4_000), uri, mode="append")
    add_delta(uri, "number")

    merged = merge(uri, "number", ranges=6)

    assert len(merged.rows_per_range) == 6
    assert sum(merged.rows_per_range) == 24_000
    assert max(merged.rows_per_range) <= 4_000 * 1.15
    assert wrong(uri, "number") == []


def test_nulls_are_cut_among_ranges_too(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    numbers = pa.array(np.arange(10_000), mask=np.arange(10_000) % 10 != 0)
    lance.write_dataset(pa.table({"id": np.arange(10_000), "number": numbers}), uri, max_rows_per_file=2_500)
    build(uri, "number")
    append = pa.table({"id": np.arange(3_000), "number": pa.nulls(3_000, pa.int64())})
    lance.write_dataset(append, uri, mode="append")
    add_delta(uri, "number")

    merged = merge(uri, "number", ranges=5)

    assert max(merged.rows_per_range) <= 13_000 / 5 * 1.15
    assert wrong(uri, "number") == []


def test_a_merge_spills_past_its_memory_and_stays_right(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    texts = pa.array([f"{number % 977:0200d}" for number in range(60_000)])
    lance.write_dataset(pa.table({"id": np.arange(60_000), "category": texts}), uri, max_rows_per_file=20_000)
    build(uri, "category", ranges=2, page_rows=512)
    lance.write_dataset(pa.table({"id": np.arange(60_000), "category": texts}), uri, mode="append")
    add_delta(uri, "category", page_rows=512)

    merged = merge(uri, "category", ranges=1, task_memory_mib=16)

    assert merged.rows == 120_000
    dataset = lance.dataset(uri)
    for question in (f"category = '{3:0200d}'", f"category < '{5:0200d}'", "category IS NULL"):
        assert ids(dataset, question, use_index=True) == ids(dataset, question, use_index=False)


def test_rows_another_segment_answers_for_and_gone_fragments_are_dropped(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    write_table(uri)
    build(uri, "number")
    lance.dataset(uri).delete("id < 500")
    append_rows(uri)
    add_delta(uri, "number", everything=True)

    merged = merge(uri, "number")

    # 500 of the base are gone; the delta was sorted over everything, and covers the new fragment only.
    assert merged.rows == 4_000
    assert merged.rows_dropped == 500 + 3_500
    assert wrong(uri, "number") == []


def test_a_merge_that_fails_leaves_no_file(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    write_table(uri)
    build(uri, "number")
    append_rows(uri)
    add_delta(uri, "number")
    before = {path for path in Path(uri).rglob("*") if path.is_file()}

    class Broken(LocalRunner):
        def map(self, job: Any, tasks: Any, on_outcome: Any) -> None:
            super().map(job, list(tasks)[:-1], on_outcome)

    with pytest.raises(lw.TasksFailedError):
        merge(uri, "number", runner=Broken())

    assert {path for path in Path(uri).rglob("*") if path.is_file()} == before


@MODES
def test_the_old_values_of_a_column_rewritten_in_place_do_not_come_back(tmp_path: Path, stable: bool) -> None:
    """The base still holds them, for the very addresses the delta has new values for."""
    uri = str(tmp_path / "table")
    busy_table(uri, stable_row_ids=stable)
    build(uri, "number")
    rewrite_column(uri, "number", 3)
    assert uncovered(uri) == {3}
    add_delta(uri, "number")

    merged = merge(uri, "number")

    rows_left = lance.dataset(uri).count_rows()
    assert merged.rows == rows_left
    assert merged.rows_dropped == lance.dataset(uri).get_fragment(3).count_rows()
    assert wrong_answers(uri, CASES["btree"]) == []
    assert uncovered(uri) == set()


def test_a_source_that_misses_rows_is_not_merged_into_silence(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    write_table(uri)
    build(uri, "number")
    append_rows(uri)
    table = table_ref(uri)
    snapshot = read_snapshot(table)
    (base,) = snapshot.segments_named("ours")
    lying = replace(base, fragments=FrozenBitMap(snapshot.fragments_by_id))

    with pytest.raises(lw.errors.CorruptIndexError, match="miss rows"):
        merge_ranges(
            RangeMerge(
                table=table,
                snapshot=snapshot,
                column=find_column(snapshot.columns, "number"),
                sources=(lying,),
            ),
            LocalRunner(),
        )


def test_only_the_pages_of_a_range_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = str(tmp_path / "table")
    write_table(uri)
    build(uri, "number")
    append_rows(uri)
    add_delta(uri, "number")
    read = []
    original = SegmentReader.read

    def note(self: SegmentReader, start: int, stop: int, batch_rows: int) -> Any:
        read.append(stop - start)
        return original(self, start, stop, batch_rows)

    monkeypatch.setattr(SegmentReader, "read", note)

    merged = merge(uri, "number", ranges=8)

    # Every row once, and again at most a page of each source for each cut.
    assert sum(read) <= merged.rows + merged.rows_dropped + 7 * (32 + 20)
