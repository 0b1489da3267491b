"""A refresh builds what is not covered, and afterwards every index answers like a scan, whatever happened before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pytest

import lancewright as lw
from lancewright.build.rounds import BuildOptions
from lancewright.errors import NotFoundError
from lancewright.maintain.refresh import plan_refresh, refresh_indexes
from lancewright.model.coverage import measure_coverage
from lancewright.observe.events import StageStarted, TaskFinished
from lancewright.observe.sinks import MemorySink
from lancewright.runtime.local_runner import LocalRunner
from lancewright.table.location import table_ref
from lancewright.table.snapshot_reader import read_snapshot
from support.busy_table import (
    CASES,
    Case,
    append,
    busy_table,
    delete,
    merge_column,
    rewrite_column,
    update_rows,
    wrong_answers,
    wrong_index_answers,
)
from support.runners import BusyRunner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lancewright.maintain.refresh import RefreshReceipt

NO_WAIT = BuildOptions(sleep=lambda _seconds: None, poll_s=0.05)
EVERY_KIND = pytest.mark.parametrize("kind", sorted(CASES))
BOTH_MODES = pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])


def create(uri: str, case: Case, segments: int | None = None) -> None:
    many = None if case.kind == "ivf_sq" else segments
    lw.open(uri, progress=False).create_index(
        case.column, kind=case.kind, name="ours", segments=many, **case.parameters
    )


def refresh(uri: str, runner: LocalRunner | None = None) -> RefreshReceipt:
    receipt = refresh_indexes(table_ref(uri), runner or LocalRunner(), MemorySink(), NO_WAIT, ["ours"])
    assert receipt.indexes[0].problem is None
    return receipt


def assert_true(uri: str, case: Case) -> None:
    snapshot = read_snapshot(table_ref(uri))
    index = snapshot.index("ours")
    assert index is not None
    coverage = measure_coverage(snapshot, index)
    assert coverage.gaps == ()
    assert wrong_answers(uri, case) == []
    assert wrong_index_answers(uri, case, list(coverage.covered)) == []
    assert plan_refresh(table_ref(uri), ["ours"]).indexes[0].is_current


def compact_plainly(uri: str, *, deferred: bool = False) -> None:
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=350, defer_index_remap=deferred)


HAPPENINGS: dict[str, Callable[[str, Case], object]] = {
    "append": lambda uri, _case: append(uri),
    "delete and append": lambda uri, _case: (delete(uri), append(uri)),
    "update": lambda uri, _case: update_rows(uri, 150, 220),
    "rewrite in place": lambda uri, case: rewrite_column(uri, case.column, 2),
    "merge in place": lambda uri, case: merge_column(uri, case.column, 320, 410),
    "rewrite and compact": lambda uri, case: (
        rewrite_column(uri, case.column, 2),
        rewrite_column(uri, case.column, 3),
        compact_plainly(uri),
    ),
    "update and compact": lambda uri, _case: (update_rows(uri, 150, 620), compact_plainly(uri)),
    "update, refresh, update": lambda uri, _case: (
        update_rows(uri, 150, 220),
        refresh(uri),
        update_rows(uri, 200, 450),
    ),
    "a fragment is gone": lambda uri, _case: (delete(uri, "id BETWEEN 200 AND 399"), append(uri)),
    "no version left": lambda uri, case: (
        rewrite_column(uri, case.column, 1),
        append(uri),
        lance.dataset(uri).cleanup_old_versions(retain_versions=1),
    ),
}
DEFERRED: dict[str, Callable[[str, Case], object]] = {
    "defer": lambda uri, _case: (append(uri), compact_plainly(uri, deferred=True)),
    "rewrite and defer": lambda uri, case: (
        rewrite_column(uri, case.column, 2),
        rewrite_column(uri, case.column, 3),
        compact_plainly(uri, deferred=True),
    ),
    "defer and rewrite": lambda uri, case: (
        compact_plainly(uri, deferred=True),
        merge_column(uri, case.column, 320, 410),
        delete(uri),
    ),
}


# What a refresh decides depends on how a kind keeps old values; one kind of each sort goes through everything.
TELLING = ("bitmap", "btree", "inverted", "ivf_pq", "label_list", "zonemap")
MAIN = ("rewrite in place", "update and compact")


@pytest.mark.parametrize(
    ("kind", "happening"),
    [(kind, one) for kind in sorted(CASES) for one in (HAPPENINGS if kind in TELLING else MAIN)],
)
@BOTH_MODES
def test_after_a_refresh_an_index_is_whole_and_right(
    tmp_path: Path, kind: str, stable: bool, happening: str
) -> None:
    uri = busy_table(str(tmp_path / "table"), stable_row_ids=stable).uri
    create(uri, CASES[kind], segments=2)
    HAPPENINGS[happening](uri, CASES[kind])

    refresh(uri)

    assert_true(uri, CASES[kind])


@EVERY_KIND
@pytest.mark.parametrize("happening", DEFERRED)
def test_after_a_refresh_an_index_is_right_through_deferred_compactions(
    tmp_path: Path, kind: str, happening: str
) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, CASES[kind], segments=2)
    DEFERRED[happening](uri, CASES[kind])

    refresh(uri)

    assert_true(uri, CASES[kind])


# --- what it costs, and other writers ---


def test_a_refresh_reads_only_what_no_segment_covers(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, CASES["btree"], segments=2)
    before = {segment.uuid for segment in read_snapshot(table_ref(uri)).segments_named("ours")}
    append(uri)

    sink = MemorySink()
    refresh_indexes(table_ref(uri), LocalRunner(), sink, NO_WAIT, ["ours"])

    (task,) = [event for event in sink.events if isinstance(event, TaskFinished)]
    assert (task.stage, task.rows, task.fragments) == ("build", 60, (8,))
    after = {segment.uuid for segment in read_snapshot(table_ref(uri)).segments_named("ours")}
    assert before < after
    assert len(after) == 3


def test_several_indexes_share_one_job_and_one_commit(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    table = lw.open(uri, progress=False)
    for kind in ("btree", "label_list", "ivf_pq"):
        case = CASES[kind]
        table.create_index(case.column, kind=kind, name=kind, **case.parameters)
    append(uri)
    version = table.snapshot().version

    sink = MemorySink()
    receipt = refresh_indexes(table_ref(uri), LocalRunner(), sink, NO_WAIT)

    assert receipt.version == version + 1
    assert [event.stage for event in sink.events if isinstance(event, StageStarted)] == ["build"]
    assert all(info.coverage.is_complete for info in table.indexes())


def test_a_refresh_of_a_current_index_commits_nothing(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, CASES["btree"])
    version = read_snapshot(table_ref(uri)).version

    receipt = refresh(uri)

    assert (receipt.version, receipt.rounds) == (version, 0)
    assert receipt.indexes[0].is_current


@pytest.mark.parametrize("kind", ["ivf_flat", "ivf_hnsw_flat"])
def test_a_refresh_inherits_the_model_and_so_merges_with_what_was_there(tmp_path: Path, kind: str) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, CASES[kind])
    append(uri)
    refresh(uri)

    receipt = lw.open(uri, progress=False).merge("ours", segments=1)

    assert (receipt.indexes[0].segments_before, receipt.indexes[0].segments_after) == (2, 1)
    assert_true(uri, CASES[kind])


def test_an_index_that_was_made_empty_is_filled(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    lw.open(uri, progress=False).create_index(
        "number", kind="zonemap", name="ours", train=False, rows_per_zone=16
    )

    refresh(uri)

    assert_true(uri, CASES["zonemap"])


def test_rows_appended_while_a_refresh_runs_are_left_for_the_next(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, CASES["btree"])
    append(uri)

    refresh(uri, BusyRunner([lambda: append(uri, 20_000)]))

    assert wrong_answers(uri, CASES["btree"]) == []
    assert [gap.rows for gap in lw.open(uri, progress=False).indexes()[-1].coverage.gaps] == [60]
    refresh(uri)
    assert_true(uri, CASES["btree"])


@BOTH_MODES
@pytest.mark.parametrize("kind", ["btree", "bitmap", "inverted", "ivf_flat"])
@pytest.mark.parametrize("act", ["compaction", "update", "rewrite"])
def test_what_other_writers_do_while_a_refresh_runs_costs_only_another_round(
    tmp_path: Path, kind: str, stable: bool, act: str
) -> None:
    uri = busy_table(str(tmp_path / "table"), stable_row_ids=stable).uri
    case = CASES[kind]
    create(uri, case, segments=2)
    append(uri)
    append(uri, 20_000)
    acts: dict[str, Callable[[], object]] = {
        "compaction": lambda: compact_plainly(uri),
        "update": lambda: update_rows(uri, 150, 220),
        "rewrite": lambda: rewrite_column(uri, case.column, 8),
    }

    refresh(uri, BusyRunner([acts[act]]))

    assert wrong_answers(uri, case) == []
    refresh(uri)
    assert_true(uri, case)


def test_an_index_dropped_while_it_is_refreshed_stays_dropped(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, CASES["btree"])
    append(uri)

    refresh(uri, BusyRunner([lambda: lance.dataset(uri).drop_index("ours")]))

    assert read_snapshot(table_ref(uri)).index("ours") is None
    assert lw.open(uri, progress=False).indexes()[0].name == "theirs"


def test_an_index_built_anew_while_it_is_refreshed_is_left_alone(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, CASES["inverted"])
    append(uri)

    def replace() -> None:
        lw.open(uri, progress=False).create_index(
            "text", kind="inverted", name="ours", replace=True, stem=True
        )

    refresh(uri, BusyRunner([replace]))

    (segment,) = read_snapshot(table_ref(uri)).segments_named("ours")
    assert set(segment.covered) == set(range(9))


def test_two_refreshes_at_once_do_the_work_twice_and_no_harm(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, CASES["bitmap"])
    append(uri)

    refresh(uri, BusyRunner([lambda: refresh(uri)]))

    assert len(read_snapshot(table_ref(uri)).segments_named("ours")) == 2
    assert_true(uri, CASES["bitmap"])


def test_a_name_that_is_no_index_is_refused(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri

    with pytest.raises(NotFoundError, match="theirs"):
        lw.open(uri, progress=False).refresh("hours")
