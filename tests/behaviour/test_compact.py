"""A compaction on executors leaves every index covering and answering what it did, in each way of carrying it over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pytest

import lancewright as lw
from lancewright.build.rounds import BuildOptions
from lancewright.errors import CorruptIndexError, InvalidRequestError, UnsupportedError
from lancewright.maintain.catch_up import catch_up, plan_catch_up, trim_reuse
from lancewright.maintain.compact import CompactRules, compact_table, plan_compact
from lancewright.model.coverage import measure_coverage
from lancewright.observe.sinks import MemorySink
from lancewright.runtime.local_runner import LocalRunner
from lancewright.table.commit import IndexChange, commit_segments
from lancewright.table.compaction import commit_compaction_alone, plan_compaction, run_compaction
from lancewright.table.location import table_ref
from lancewright.table.snapshot_reader import read_snapshot
from support.busy_table import (
    CASES,
    append,
    busy_table,
    delete,
    rewrite_column,
    update_rows,
    wrong_answers,
    wrong_index_answers,
)
from support.eager_scans import assert_equal_to_a_full_scan
from support.runners import BusyRunner

if TYPE_CHECKING:
    from pathlib import Path

    from lancewright.maintain.catch_up import CatchUpReceipt
    from lancewright.maintain.compact import CompactReceipt

NO_WAIT = BuildOptions(sleep=lambda _seconds: None, poll_s=0.05)
BOTH_MODES = pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
EVERY_KIND = pytest.mark.parametrize("kind", sorted(CASES))
REWRITABLE = ["bitmap", "bloomfilter", "btree", "label_list", "ngram", "zonemap"]
FOLLOWING = [*REWRITABLE, "inverted", "ivf_flat", "ivf_pq", "ivf_sq"]


def create(uri: str, kind: str, segments: int | None = 2, **more: object) -> None:
    case = CASES[kind]
    count = None if kind == "ivf_sq" else segments
    lw.open(uri, progress=False).create_index(
        case.column, kind=kind, name="ours", segments=count, **{**case.parameters, **more}
    )


def compact(
    uri: str, remap: str | None = None, runner: LocalRunner | None = None, rows: int = 350
) -> CompactReceipt:
    rules = CompactRules(remap=remap, rows_per_fragment=rows)  # type: ignore[arg-type] # as a caller may
    return compact_table(table_ref(uri), runner or LocalRunner(), MemorySink(), NO_WAIT, rules)


def die() -> None:
    raise RuntimeError("killed")


def follow(uri: str) -> CatchUpReceipt:
    return catch_up(table_ref(uri), LocalRunner(), MemorySink(), NO_WAIT)


def notes(uri: str) -> int:
    return len(read_snapshot(table_ref(uri)).deferred)


def assert_true(uri: str, kind: str) -> None:
    snapshot = read_snapshot(table_ref(uri))
    index = snapshot.index("ours")
    assert index is not None
    coverage = measure_coverage(snapshot, index)
    assert coverage.gaps == ()
    assert wrong_answers(uri, CASES[kind]) == []
    assert wrong_index_answers(uri, CASES[kind], list(coverage.covered)) == []


@EVERY_KIND
@BOTH_MODES
def test_after_a_compaction_every_index_covers_and_answers_as_before(
    tmp_path: Path, kind: str, stable: bool
) -> None:
    uri = busy_table(str(tmp_path / "table"), stable_row_ids=stable).uri
    create(uri, kind)
    delete(uri)

    receipt = compact(uri)

    assert receipt.fragments_after < receipt.fragments_before == 8
    assert notes(uri) == 0
    if stable and kind == "ivf_sq":
        pytest.xfail("deleted vectors of compacted fragments take places among the best k in Lance itself")
    assert_true(uri, kind)


@pytest.mark.parametrize("kind", FOLLOWING)
def test_with_reuse_segments_stay_until_they_are_caught_up_with(tmp_path: Path, kind: str) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, kind)
    delete(uri)
    before = {segment.uuid for segment in read_snapshot(table_ref(uri)).segments_named("ours")}

    receipt = compact(uri, "reuse")

    assert receipt.remap == "reuse"
    assert {segment.uuid for segment in read_snapshot(table_ref(uri)).segments_named("ours")} == before
    assert notes(uri) > 0
    assert_true(uri, kind)


@EVERY_KIND
def test_with_drop_segments_stay_and_cover_the_new_fragments_no_more(tmp_path: Path, kind: str) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, kind)
    delete(uri)
    segments = {segment.uuid for segment in read_snapshot(table_ref(uri)).segments_named("ours")}

    receipt = compact(uri, "drop")

    snapshot = read_snapshot(table_ref(uri))
    index = snapshot.index("ours")
    assert index is not None
    assert (receipt.remap, receipt.refreshed, notes(uri)) == ("drop", None, 0)
    assert receipt.fragments_after < receipt.fragments_before == 8
    assert {segment.uuid for segment in index.segments} == segments
    assert measure_coverage(snapshot, index).covered_rows == 0
    assert wrong_answers(uri, CASES[kind]) == []
    lw.open(uri, progress=False).refresh()
    assert_true(uri, kind)


@pytest.mark.parametrize("kind", ["composite", "range"])
def test_with_drop_the_other_layouts_lose_nothing_but_coverage(tmp_path: Path, kind: str) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    table = lw.open(uri, progress=False)
    options = {"kind": "btree", "layout": "range", "ranges": 3} if kind == "range" else {"kind": kind}
    table.create_index("number", name="ours", **options)
    delete(uri, "number < 8")

    compact(uri, "drop")

    assert_equal_to_a_full_scan(uri, "number BETWEEN 10 AND 20")
    assert wrong_answers(uri, CASES["btree"]) == []
    table.refresh()
    append(uri)
    compact(uri, "drop", rows=10_000)
    table.refresh()
    assert table.indexes()[-1].coverage.is_complete
    assert_equal_to_a_full_scan(uri, "number BETWEEN 10 AND 20")
    assert wrong_answers(uri, CASES["btree"]) == []


@pytest.mark.parametrize("remap", ["drop", "rewrite"])
def test_only_what_is_worth_it_is_compacted(tmp_path: Path, remap: str) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, "btree", segments=4)
    delete(uri, "id BETWEEN 300 AND 340")
    rules = CompactRules(remap=remap, rows_per_fragment=350, fragments_min=3)  # type: ignore[arg-type] # a choice

    plan = plan_compact(table_ref(uri), rules)

    assert (plan.tasks, plan.fragments) == (
        1,
        2,
    )  # two each are too few, but for the one with many deleted rows


@pytest.mark.parametrize("kind", ["zonemap", "inverted"])
def test_what_a_compaction_lost_that_died_is_made_up_for_by_the_next(tmp_path: Path, kind: str) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, kind)
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=350)  # as if it had ended here

    receipt = compact(uri)

    assert receipt.rounds == 0
    assert_true(uri, kind)


def test_the_setting_of_a_compaction_that_died_is_taken_back_by_the_next(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, "btree")

    with pytest.raises(RuntimeError, match="killed"):
        compact(uri, runner=BusyRunner([die], stage="compact_fragments"))
    assert lance.dataset(uri).config()["lance.compaction.defer_index_remap"] == "true"
    compact(uri)

    assert not {key for key in lance.dataset(uri).config() if "defer" in key}


@pytest.mark.parametrize("kind", REWRITABLE)
def test_catching_up_writes_segments_anew_and_ends_the_notes(tmp_path: Path, kind: str) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, kind)
    compact(uri, "reuse", rows=150)
    append(uri)
    delete(uri)
    compact(uri, "reuse")

    receipt = follow(uri)

    assert receipt.trimmed
    assert notes(uri) == 0
    assert plan_catch_up(table_ref(uri)).works == ()
    lw.open(uri, progress=False).refresh()
    assert_true(uri, kind)


@pytest.mark.parametrize("kind", ["inverted", "ivf_flat", "ivf_pq"])
def test_the_notes_stay_while_one_segment_still_needs_them(tmp_path: Path, kind: str) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, kind)
    compact(uri, "reuse")

    receipt = follow(uri)

    assert not receipt.trimmed
    assert {index.name: index.waiting for index in receipt.indexes} == {"ours": 2, "theirs": 0}
    assert_true(uri, kind)


@pytest.mark.parametrize("kind", ["btree", "label_list", "inverted", "zonemap"])
def test_old_values_do_not_come_back_through_catching_up(tmp_path: Path, kind: str) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, kind)
    rewrite_column(uri, CASES[kind].column, 2)
    rewrite_column(uri, CASES[kind].column, 3)
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=250, defer_index_remap=True)

    follow(uri)
    assert (
        wrong_answers(uri, CASES[kind]) == [] or kind == "label_list"
    )  # Lance does not notice it for a list
    lw.open(uri, progress=False).refresh()

    assert_true(uri, kind)
    follow(uri)
    assert_true(uri, kind)


def test_a_commit_that_lance_gives_up_on_is_an_error_of_ours(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table"), stable_row_ids=True).uri
    create(uri, "bitmap")
    table = table_ref(uri)
    parts = plan_compaction(table, {"target_rows_per_fragment": 350})
    results = [run_compaction(table, part.text) for part in parts]
    version = lance.dataset(uri).version

    with pytest.raises(CorruptIndexError):
        commit_compaction_alone(table, results)  # `choose_way` would not have it, on stable row ids

    assert lance.dataset(uri).version == version


def test_a_range_sorted_index_stays_one_and_loses_no_range(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, "btree", segments=None, layout="range", ranges=4)
    delete(uri, "number < 8")

    compact(uri)

    (segment,) = read_snapshot(table_ref(uri)).segments_named("ours")
    assert any(file.path.startswith("part_") for file in segment.files or ())
    assert_true(uri, "btree")


def test_a_deferred_compaction_that_comes_between_is_not_forgotten(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, "btree")
    compact(uri, "reuse", rows=150)
    follow_one = plan_catch_up(table_ref(uri))
    assert follow_one.works
    catch_up(table_ref(uri), LocalRunner(), MemorySink(), NO_WAIT, ["ours"])
    catch_up(table_ref(uri), LocalRunner(), MemorySink(), NO_WAIT, ["theirs"])
    append(uri)
    lw.open(uri, progress=False).refresh()
    compact(uri, "reuse", rows=160)
    snapshot = read_snapshot(table_ref(uri))
    compact(uri, "reuse", rows=350)

    # As if the look before the trim had been before the last compaction.
    commit_segments(
        table_ref(uri), snapshot, IndexChange(remove=snapshot.segments_named("__lance_frag_reuse"))
    )

    assert notes(uri) > 0
    assert_true(uri, "btree")
    assert trim_reuse(table_ref(uri), MemorySink(), NO_WAIT) is None
    follow(uri)
    assert_true(uri, "btree")


@pytest.mark.parametrize("kind", ["bitmap", "btree", "inverted", "ngram", "zonemap"])
def test_an_engine_that_compacts_plainly_after_reuse_does_no_harm(tmp_path: Path, kind: str) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, kind)
    compact(uri, "reuse", rows=150)

    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=350)

    assert_true(uri, kind)


@pytest.mark.parametrize("kind", ["btree", "ngram"])
def test_what_another_engine_deferred_is_caught_up_with_before_anything_moves_again(
    tmp_path: Path, kind: str
) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, kind)
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=150, defer_index_remap=True)
    lw.open(uri, progress=False).create_index("vector", kind="ivf_flat", name="v", num_partitions=2)

    compact(uri)

    assert notes(uri) == 0
    assert_true(uri, kind)


def test_a_compaction_leaves_the_setting_of_the_table_as_it_was(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, "btree")

    compact(uri)

    assert "lance.compaction.defer_index_remap" not in lance.dataset(uri).config()


def test_what_another_writer_changed_is_planned_again_and_the_rest_is_kept(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, "btree", segments=4)

    receipt = compact(
        uri, runner=BusyRunner([lambda: delete(uri, "id < 60")], stage="compact_fragments"), rows=200
    )

    assert receipt.rounds == 2
    assert receipt.lost == 0
    assert lance.dataset(uri).count_rows("id < 60") == 0
    assert_true(uri, "btree")


@pytest.mark.parametrize("act", [append, lambda uri: update_rows(uri, 150, 220)], ids=["append", "update"])
@pytest.mark.parametrize("remap", ["rewrite", "reuse"])
def test_rows_that_come_while_a_table_is_compacted_are_not_lost(
    tmp_path: Path, act: object, remap: str
) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, "bitmap")
    rows = sorted(lance.dataset(uri).to_table(columns=["id"])["id"].to_pylist())

    compact(uri, remap, BusyRunner([lambda: act(uri)], stage="compact_fragments"))  # type: ignore[operator] # a writer

    after = sorted(lance.dataset(uri).to_table(columns=["id"])["id"].to_pylist())
    assert set(rows) <= set(after)
    assert len(after) == len(set(after))
    assert wrong_answers(uri, CASES["bitmap"]) == []


def test_a_dry_run_says_what_would_be_done(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, "btree")

    plan = plan_compact(table_ref(uri), CompactRules(rows_per_fragment=350))

    assert (plan.remap, plan.fragments) == ("rewrite", 8)
    assert plan.version == lance.dataset(uri).version


def test_a_way_that_would_harm_an_index_is_refused(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, "fm")

    with pytest.raises(UnsupportedError, match="ours"):
        compact(uri, "reuse")
    with pytest.raises(UnsupportedError, match="stable row ids"):
        compact(busy_table(str(tmp_path / "other"), stable_row_ids=True).uri, "reuse")
    with pytest.raises(UnsupportedError, match="stable row ids"):
        compact(str(tmp_path / "other"), "drop")
    with pytest.raises(InvalidRequestError, match="forget"):
        CompactRules(remap="forget")  # type: ignore[arg-type] # as a caller may
