"""A build that broke off is taken up again by the next equal call, which builds only what is missing."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pytest

import lancewright as lw
from lancewright.build.lease import Lease
from lancewright.observe.events import ModelTrained, SegmentReused, TaskFinished
from lancewright.observe.sinks import MemorySink
from support.build_program import outcome, start
from support.busy_table import (
    CASES,
    append,
    busy_table,
    compact,
    fragment_ids,
    rewrite_column,
    wrong_answers,
)
from support.runners import BusyRunner
from support.traces import listing, scratch
from support.waiting import finished_segments, kill, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lancewright.runtime.task import Job, Task, TaskOutcome

FRAGMENTS = 8


def build(uri: str, kind: str, runner: Any = None, **options: Any) -> MemorySink:
    case, sink = CASES[kind], MemorySink()
    table = lw.open(uri, runner=runner, sink=sink, progress=False)
    table.create_index(
        case.column, kind=kind, name="ours", **{"segments": FRAGMENTS, **case.parameters, **options}
    )
    return sink


def built(sink: MemorySink) -> list[int]:
    tasks = [event for event in sink.events if isinstance(event, TaskFinished) and event.stage == "build"]
    return sorted(fragment for task in tasks for fragment in task.fragments)


def reused(sink: MemorySink) -> list[int]:
    events = [event for event in sink.events if isinstance(event, SegmentReused)]
    return sorted(fragment for event in events for fragment in event.fragments)


def fail(uri: str, kind: str = "btree", failing: tuple[int, ...] = (3, 6), **options: Any) -> None:
    """Make a build that finishes every fragment but these."""
    with pytest.raises(lw.TasksFailedError):
        build(uri, kind, BusyRunner(failing=failing), **options)


def records(uri: str) -> list[Path]:
    return sorted(Path(uri).glob("_lancewright/builds/*/segments/*.json"))


def wrong(uri: str, kind: str) -> list[str]:
    return wrong_answers(uri, CASES[kind])


@pytest.mark.parametrize("kind", ["ngram", "inverted"])
@pytest.mark.parametrize("segments", [FRAGMENTS, None], ids=["eight segments", "merged"])
def test_after_a_killed_driver_the_next_call_builds_only_what_is_missing(
    tmp_path: Path, kind: str, segments: int | None
) -> None:
    uri = busy_table(str(tmp_path / "table"), rows_per_fragment=6_000).uri
    before = lance.dataset(uri).version
    driver = start(
        uri=uri, column="text", kind=kind, name="ours", segments=segments, **CASES[kind].parameters
    )
    wait_for(lambda: bool(finished_segments(uri)), driver)
    kill(driver)
    finished = finished_segments(uri)
    assert lance.dataset(uri).version == before
    assert {index.name for index in lw.open(uri, progress=False).indexes()} == {"theirs"}
    assert lance.dataset(uri).count_rows("id < 100") == 94

    sink = build(uri, kind, segments=segments)

    assert {event.segment for event in sink.events if isinstance(event, SegmentReused)} <= finished
    assert reused(sink)
    assert built(sink)
    assert sorted(reused(sink) + built(sink)) == list(range(FRAGMENTS))
    assert wrong(uri, kind) == []
    assert not Path(uri, "_lancewright").exists()
    # What a task was writing when it was killed has no record; Lance's own cleanup takes it for an orphan.
    left = {Path(path).name for path in scratch(uri)}
    assert len(left) <= 2 * 2
    assert not left & finished


@pytest.mark.parametrize("kind", ["btree", "bitmap", "label_list", "inverted", "zonemap", "ivf_pq"])
@pytest.mark.parametrize("segments", [FRAGMENTS, None], ids=["eight segments", "merged"])
def test_after_failed_tasks_the_next_call_resumes_at_once_and_leaves_no_trace(
    tmp_path: Path, kind: str, segments: int | None
) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    fail(uri, kind, segments=segments)

    sink = build(uri, kind, segments=segments)

    # Without a wish for segments a task has two neighbours.
    assert built(sink) == ([3, 6] if segments else [2, 3, 6, 7])
    assert sorted(reused(sink) + built(sink)) == list(range(FRAGMENTS))
    assert wrong(uri, kind) == []
    assert scratch(uri) == []


def test_finished_work_outlives_a_worker_that_does_not_fit(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri

    class OneBadMachine(BusyRunner):
        def map(self, job: Job, tasks: Sequence[Task], on_outcome: Callable[[TaskOutcome], None]) -> None:
            super().map(job, tasks[:-2], on_outcome)
            raise lw.UnsupportedError("Spark's Python workers cannot import lancewright", "Install it.")

    with pytest.raises(lw.UnsupportedError):
        build(uri, "btree", OneBadMachine())
    sink = build(uri, "btree")

    assert reused(sink) == [0, 1, 2, 3, 4, 5]
    assert built(sink) == [6, 7]
    assert wrong(uri, "btree") == []
    assert scratch(uri) == []


def test_a_finished_build_leaves_nothing_but_its_index(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    before = listing(uri)

    build(uri, "btree", segments=1)

    (segment,) = lw.open(uri, progress=False).snapshot().segments_named("ours")
    added = [path for path in listing(uri) if path not in before]
    folder = f"_indices/{segment.uuid}"
    data = [path for path in added if not path.startswith(("_versions/", "_transactions/"))]
    assert data == [folder, *(f"{folder}/{file.path}" for file in sorted(segment.files or (), key=str))]
    assert len(added) - len(data) == 2


def test_a_trained_model_is_not_trained_again(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table"), rows_per_fragment=300).uri
    options = {
        "num_sub_vectors": 8,
        "num_bits": 4,
        "ivf_centroids": None,
        "num_partitions": 2,
        "sample_rate": 16,
    }
    fail(uri, "ivf_pq", **options)

    sink = build(uri, "ivf_pq", **options)

    assert not [event for event in sink.events if isinstance(event, ModelTrained)]
    assert built(sink) == [3, 6]
    assert scratch(uri) == []


def test_without_resume_everything_is_built_again_and_the_old_work_is_removed(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    table = lw.open(uri, progress=False)
    fail(uri)
    old = finished_segments(uri)

    sink = MemorySink()
    lw.open(uri, sink=sink, progress=False).create_indexes(
        [lw.IndexRequest(column="number", kind="btree", name="ours", segments=FRAGMENTS)], resume=False
    )

    assert reused(sink) == []
    assert built(sink) == list(range(FRAGMENTS))
    assert not old & {segment.uuid for segment in table.snapshot().segments}
    assert scratch(uri) == []


@pytest.mark.parametrize("damage", [b"", b'{"format":1,"task_id":"bu', b"\x00\xff", b"[]", b'{"format":1}'])
def test_a_damaged_record_counts_for_nothing_and_its_segment_is_removed(
    tmp_path: Path, damage: bytes
) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    fail(uri)
    spoilt = records(uri)[0]
    (fragment,) = json.loads(spoilt.read_text())["segment"]["fragments"]
    spoilt.write_bytes(damage)

    sink = build(uri, "btree")

    assert built(sink) == sorted([3, 6, fragment])
    assert wrong(uri, "btree") == []
    assert scratch(uri) == []


def test_a_finished_segment_that_a_cleanup_took_for_an_orphan_is_built_again(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    fail(uri)
    content = json.loads(records(uri)[0].read_text())["segment"]
    Path(uri, "_indices", content["uuid"], content["files"][0][0]).unlink()

    sink = build(uri, "btree")

    assert built(sink) == sorted([3, 6, *content["fragments"]])
    assert wrong(uri, "btree") == []
    assert scratch(uri) == []


def test_another_call_does_not_take_the_work_up(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    fail(uri)

    sink = build(uri, "btree", zone_size=128)

    assert reused(sink) == []
    assert wrong(uri, "btree") == []


def test_of_two_broken_off_builds_one_is_taken_up_and_both_are_cleared_away(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    fail(uri, failing=(0, 1, 2, 3, 4, 5))
    (folder,) = Path(uri, "_lancewright", "builds").iterdir()
    folder.rename(folder.with_name("kept"))
    fail(uri, failing=(3, 6))
    (later,) = [path for path in folder.parent.iterdir() if path.name != "kept"]
    folder.with_name("kept").rename(later.with_name(later.name[:-1] + "x"))

    sink = build(uri, "btree")

    assert built(sink) == [3, 6]
    assert wrong(uri, "btree") == []
    assert scratch(uri) == []


def test_what_changed_since_is_built_again_and_what_was_added_is_built_too(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    fail(uri)
    rewrite_column(uri, "number", 0)
    compact(uri, [4, 5])
    append(uri)

    sink = build(uri, "btree")

    compacted, appended = sorted(fragment_ids(uri) - set(range(FRAGMENTS)))
    assert reused(sink) == [1, 2, 7]
    assert built(sink) == [0, 3, 6, compacted, appended]
    assert wrong(uri, "btree") == []
    assert scratch(uri) == []


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("kind", ["btree", "bitmap", "inverted", "ivf_pq"])
def test_rows_that_a_restore_brought_back_are_not_missed(tmp_path: Path, kind: str, stable: bool) -> None:
    uri = busy_table(str(tmp_path / "table"), stable_row_ids=stable).uri
    fail(uri, kind)
    lance.dataset(uri, version=1).restore()

    build(uri, kind)

    assert wrong(uri, kind) == []
    assert scratch(uri) == []


# Who works on it ---------------------------------------------------------------------------------------------------


def test_a_build_that_another_process_works_on_is_not_taken_over(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table"), rows_per_fragment=6_000).uri
    driver = start(uri=uri, column="text", kind="ngram", name="ours", segments=FRAGMENTS)
    wait_for(lambda: bool(finished_segments(uri)), driver)
    driver.send_signal(signal.SIGSTOP)

    sink = build(uri, "ngram")
    driver.send_signal(signal.SIGCONT)
    end = outcome(driver)

    assert reused(sink) == []
    assert built(sink) == list(range(FRAGMENTS))
    assert (end["error"], "created an index named 'ours'" in end["problem"]) == ("ConflictError", True)
    assert wrong(uri, "ngram") == []
    assert scratch(uri) == []


@pytest.mark.parametrize(("age_s", "taken"), [(1, False), (10_000, True)])
def test_a_build_of_another_machine_is_taken_over_when_it_was_not_heard_of_for_long(
    tmp_path: Path, age_s: float, taken: bool
) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    fail(uri)
    (folder,) = Path(uri, "_lancewright", "builds").iterdir()
    lease = Lease(
        owner="other", machine="elsewhere", process_id=1, process_started="1", seen_at=time.time() - age_s
    )
    (folder / "lease.json").write_text(json.dumps({"format": 1, **asdict(lease)}))

    sink = build(uri, "btree")

    assert bool(reused(sink)) is taken
    assert folder.exists() is not taken
    assert wrong(uri, "btree") == []


def test_a_driver_killed_after_its_commit_is_cleared_away_by_the_next_equal_call(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    driver = start(
        uri=uri,
        column="number",
        kind="btree",
        name="ours",
        segments=4,
        replace=True,
        dies_at="IndexCommitted",
    )
    driver.communicate()
    version = lance.dataset(uri).version
    assert len(lw.open(uri, progress=False).snapshot().segments_named("ours")) == 4
    assert Path(uri, "_lancewright").exists()

    sink = build(uri, "btree", segments=4, replace=True)

    assert reused(sink) == []
    assert wrong(uri, "btree") == []
    assert lance.dataset(uri, version=version).count_rows("number = 5") > 0
    assert scratch(uri) == []
