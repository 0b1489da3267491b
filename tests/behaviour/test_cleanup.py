"""A cleanup removes what nobody needs, says so beforehand, and never what a version or a running build needs."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pytest

import lancewright as lw
from lancewright.build.lease import LEASE_S
from lancewright.cli.app import main
from support.build_program import outcome, start
from support.busy_table import CASES, append, busy_rows, busy_table, delete, rewrite_column, wrong_answers
from support.folders import strays
from support.runners import BusyRunner
from support.waiting import finished_segments, kill, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = timedelta(0)
LONG = timedelta(days=30)
ASKED = ("number < 9", "number = 12", "NOT (number < 20)", "number IS NULL")


def table_of(uri: str, **options: Any) -> lw.Table:
    return lw.open(uri, progress=False, **options)


def clean(uri: str, **options: Any) -> lw.upkeep.CleanupReport:
    return table_of(uri).cleanup(**{"older_than": NOW, "orphan_age": NOW, **options})


def sizes(uri: str) -> dict[str, int]:
    return {
        path.relative_to(uri).as_posix(): path.stat().st_size
        for path in Path(uri).rglob("*")
        if path.is_file()
    }


def make_older(uri: str, days: float, below: str = "") -> None:
    then = time.time() - 86_400 * days
    for path in Path(uri, below).rglob("*"):
        os.utime(path, (then, then))


def fail(uri: str, name: str = "ours") -> None:
    """Leave a build behind that finished some segments and failed."""
    with pytest.raises(lw.TasksFailedError):
        table_of(uri, runner=BusyRunner(failing=[2])).create_index(
            "number", kind="btree", name=name, segments=8, layout="fragment"
        )


def orphan(uri: str) -> str:
    """A finished segment that nobody commits."""
    dataset = lance.dataset(uri)
    fragment = dataset.get_fragments()[0].fragment_id
    return str(dataset.create_index_uncommitted("other", "BITMAP", fragment_ids=[fragment]).uuid)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = busy_table(str(tmp_path / "table")).uri
    table_of(uri).create_index("number", kind="btree", name="number", layout="fragment", segments=4)
    return uri


def test_the_plan_lists_every_file_and_byte_that_the_cleanup_then_removes(uri: str) -> None:
    fail(uri)
    delete(uri)
    table_of(uri).compact(rows_per_fragment=400)
    orphan(uri)
    unfinished = Path(
        uri, "data", ".tmpWkeeBs"
    )  # what Lance writes to, on a local disk, until the file is whole
    unfinished.write_text("half")
    before = sizes(uri)

    plan = table_of(uri).plan_cleanup(older_than=NOW, orphan_age=NOW)
    assert sizes(uri) == before
    receipt = clean(uri)

    gone = {path: size for path, size in before.items() if path not in sizes(uri)}
    assert {file.path: file.size_bytes for file in plan.files} == gone
    assert receipt.files == plan.files
    assert receipt.versions == plan.versions
    assert receipt.size_bytes == plan.size_bytes == sum(gone.values())
    assert {"data", "segment", "manifest", "transaction", "journal", "unfinished"} <= {
        file.kind for file in plan.files
    }
    assert strays(uri) == []
    assert not Path(uri, "_lancewright").exists()
    assert clean(uri).files == ()


def test_versions_that_another_cleanup_takes_meanwhile_are_a_conflict(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vanish(_table: object) -> None:
        raise lw.NotFoundError("a manifest is gone", "Look again.")

    monkeypatch.setattr("lancewright.maintain.cleanup.list_versions", vanish)

    with pytest.raises(lw.ConflictError, match="Another cleanup"):
        clean(uri)
    table = table_of(uri)
    shutil.rmtree(uri)
    with pytest.raises(lw.NotFoundError):
        table.cleanup()


def test_nothing_young_goes_and_dead_builds_can_be_resumed_until_they_are_old(uri: str) -> None:
    fail(uri)
    orphan(uri)
    before = sizes(uri)

    assert clean(uri, orphan_age=LONG, older_than=LONG).files == ()
    assert sizes(uri) == before
    make_older(uri, days=8)
    receipt = table_of(uri).cleanup(older_than=LONG)

    assert {file.kind for file in receipt.files} == {"journal", "segment"}
    assert receipt.versions == ()
    assert not Path(uri, "_lancewright").exists()
    known = {segment.uuid for segment in table_of(uri).snapshot().segments}
    assert {path.name for path in Path(uri, "_indices").glob("*")} - known == set()


def test_a_dead_build_that_is_not_old_keeps_its_segments_though_they_are(uri: str) -> None:
    fail(uri)
    make_older(uri, days=8, below="_indices")
    finished = finished_segments(uri)

    receipt = table_of(uri).cleanup()

    assert receipt.files == ()
    assert any("the same call may go on with it" in note for note in receipt.notes)
    assert finished_segments(uri) == finished
    table_of(uri).create_index("number", kind="btree", name="ours", segments=8, layout="fragment")
    assert {segment.uuid for segment in table_of(uri).snapshot().segments_named("ours")} >= finished


def test_what_is_not_known_is_left_alone(uri: str) -> None:
    for name in ("notes.txt", "data/notes.txt", "_indices/notes.lance", "_lancewright/notes.json"):
        Path(uri, name).parent.mkdir(exist_ok=True)
        Path(uri, name).write_text("mine")

    assert not {"notes.txt", "notes.lance", "notes.json"} & {
        Path(file.path).name for file in clean(uri).files
    }


def test_a_running_build_of_another_process_is_not_touched_and_neither_is_what_it_reads(
    tmp_path: Path,
) -> None:
    uri = busy_table(str(tmp_path / "table"), rows_per_fragment=6_000).uri
    driver = start(uri=uri, column="text", kind="ngram", name="ours", segments=8)
    wait_for(lambda: bool(finished_segments(uri)), driver)
    os.killpg(driver.pid, signal.SIGSTOP)
    try:
        # The version it reads is no longer the latest, and only a cleanup knows that it is needed.
        read = lance.dataset(uri).version
        delete(uri)
        lance.dataset(uri).drop_index("theirs")
        stray = orphan(uri)
        before = sizes(uri)

        receipt = clean(uri)

        lost = {path for path in before if path not in sizes(uri)}
        assert not [path for path in lost if path.startswith(("_indices", "_lancewright", "data"))]
        assert read in [version["version"] for version in lance.dataset(uri).versions()]
        assert any("is running" in note for note in receipt.notes)
    finally:
        os.killpg(driver.pid, signal.SIGCONT)
    assert outcome(driver)["error"] is None
    assert wrong_answers(uri, CASES["ngram"]) == []

    # The segment that might have been part of the build goes once there is none.
    assert stray in {Path(file.path).parent.name for file in clean(uri).files}
    assert strays(uri) == []
    assert wrong_answers(uri, CASES["ngram"]) == []


def test_a_build_on_another_machine_lives_as_long_as_its_lease(uri: str) -> None:
    fail(uri)
    (folder,) = Path(uri, "_lancewright/builds").glob("*")
    lease = {
        "format": 1,
        "owner": "elsewhere",
        "machine": "another",
        "process_id": 1,
        "process_started": "1",
        "seen_at": time.time(),
    }
    (folder / "lease.json").write_text(json.dumps(lease))
    make_older(uri, days=8)
    kept = {path for path in sizes(uri) if path.startswith(("_lancewright", "_indices"))}

    clean(uri)
    assert kept <= set(sizes(uri))
    (folder / "lease.json").write_text(json.dumps({**lease, "seen_at": time.time() - LEASE_S - 1}))
    clean(uri)

    assert not Path(uri, "_lancewright").exists()
    assert strays(uri) == []


def test_a_killed_driver_whose_call_is_never_repeated_leaves_nothing(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table"), rows_per_fragment=3_000).uri
    driver = start(uri=uri, column="text", kind="inverted", name="ours", segments=8)
    wait_for(lambda: bool(finished_segments(uri)), driver)
    kill(driver)
    assert strays(uri)

    clean(uri)

    assert strays(uri) == []
    assert [index.name for index in table_of(uri).indexes()] == ["theirs"]


@pytest.mark.parametrize("place", ["whole", "relative"])
def test_what_a_branch_uses_stays_however_the_table_was_named_when_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    uri = str(tmp_path / "table")
    busy_table(uri)
    table_of(uri).create_index("number", kind="btree", name="number", layout="fragment", segments=4)
    branch = lance.dataset(uri if place == "whole" else "table").create_branch("side/way")
    lance.write_dataset(busy_rows(range(9_000, 9_060), 1), branch, mode="append")
    table_of(uri).drop_index("number")
    lance.dataset(uri).delete("id < 450")
    lance.dataset(uri).optimize.compact_files()
    append(uri)

    assert clean(uri).versions
    table_of(f"{uri}/tree/side/way").cleanup(older_than=NOW, orphan_age=NOW)
    table_of(uri, branch="side/way").cleanup(older_than=NOW, orphan_age=NOW)
    clean(uri)

    assert_answers(lance.dataset(f"{uri}/tree/side/way"), "number")
    assert_answers(lance.dataset(uri))


def test_a_shallow_clone_never_deletes_from_the_table_it_comes_from(tmp_path: Path, uri: str) -> None:
    lance.dataset(uri).tags.create("cloned", lance.dataset(uri).version)
    clone = str(tmp_path / "clone")
    lance.dataset(uri).shallow_clone(clone, "cloned")
    append(clone)
    table_of(clone).refresh()
    before = sizes(uri)

    clean(clone)
    assert sizes(uri) == before
    table_of(uri).drop_index("number")
    clean(uri)

    assert_answers(lance.dataset(clone), "number")


@pytest.mark.parametrize("seed", range(6))
def test_after_any_history_every_version_that_is_left_answers_with_its_indexes(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    uri = str(tmp_path / "table")
    busy_table(uri, stable_row_ids=bool(seed % 2), fragments=4, rows_per_fragment=40)
    table_of(uri).create_index("number", kind="btree", name="number", segments=2)
    branches: list[str] = []
    steps: tuple[Callable[[], Any], ...] = (
        lambda: append(uri, chance.randrange(1_000, 100_000) * 100),
        lambda: delete(uri, f"id % 31 = {chance.randrange(31)}"),
        lambda: rewrite_column(uri, "number", lance.dataset(uri).get_fragments()[0].fragment_id),
        lambda: table_of(uri).refresh(),
        lambda: table_of(uri).merge(segments=1),
        lambda: table_of(uri).compact(rows_per_fragment=100),
        lambda: lance.dataset(uri).tags.create(
            f"t{len(branches)}-{chance.random()}", some_version(uri, chance)
        ),
        lambda: lance.dataset(uri, version=some_version(uri, chance)).restore(),
        lambda: branches.append(branch_off(uri, len(branches), some_version(uri, chance))),
        lambda: orphan(uri),
        lambda: clean(uri, older_than=chance.choice([NOW, LONG])),
    )
    for step in [chance.choice(steps) for _ in range(14)]:
        step()
    tags = {int(tag["version"]) for tag in lance.dataset(uri).tags.list().values()}
    latest = lance.dataset(uri).version

    clean(uri)

    left = {version["version"] for version in lance.dataset(uri).versions()}
    assert tags | {latest} <= left
    for version in left:
        assert_answers(lance.dataset(uri, version=version))
    for name in branches:
        assert_answers(lance.dataset(f"{uri}/tree/{name}"))
        table_of(uri, branch=name).cleanup(older_than=NOW, orphan_age=NOW)
        assert_answers(lance.dataset(f"{uri}/tree/{name}"))
    assert clean(uri).files == ()


def test_builds_and_cleanups_at_once_do_not_harm_each_other(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table"), rows_per_fragment=2_000).uri
    events = tmp_path / "events"
    drivers = [
        start(uri=uri, column=column, kind=kind, name=kind, segments=8, events=str(events / kind))
        for column, kind in (("text", "ngram"), ("labels", "label_list"))
        if events.mkdir(exist_ok=True) is None
    ]
    cleaned = 0
    while any(driver.poll() is None for driver in drivers):
        clean(uri)
        cleaned += 1
    assert cleaned > 1

    assert [outcome(driver)["error"] for driver in drivers] == [None, None]
    for kind in ("ngram", "label_list"):
        assert wrong_answers(uri, CASES[kind]) == []
    clean(uri)
    assert strays(uri) == []


def test_two_cleanups_at_once_remove_everything_once(uri: str) -> None:
    fail(uri)
    for start_id in range(20_000, 21_000, 100):
        append(uri, start_id)
    program = "import sys; from lancewright.cli.app import main; main(sys.argv[1:])"
    arguments = ["cleanup", uri, "--older-than", "0s", "--orphan-age", "0s"]
    at_once = [
        subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.DEVNULL)
        for _ in range(2)
    ]

    assert [one.wait(timeout=120) for one in at_once] == [0, 0]
    clean(uri)
    assert strays(uri) == []
    assert_answers(lance.dataset(uri), "number")


def test_an_age_that_is_none_is_refused(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(lw.InvalidRequestError, match="older_than"):
        table_of(uri).cleanup(older_than=timedelta(days=-1))
    with pytest.raises(lw.InvalidRequestError, match="orphan_age"):
        table_of(uri).plan_cleanup(orphan_age=7)  # type: ignore[arg-type] # what a caller may pass
    with pytest.raises(SystemExit) as exit_:
        main(["cleanup", uri, "--older-than", "soon"])
    assert exit_.value.code == 2
    assert "'soon' is no age" in capsys.readouterr().err


def test_the_command_says_what_it_would_do_and_does_it(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    append(uri)
    orphan(uri)
    ages = ["--older-than", "0s", "--orphan-age", "0m", "--json"]

    main_ok(["cleanup", uri, "--dry-run", *ages])
    planned = json.loads(capsys.readouterr().out)
    main_ok(["cleanup", uri, *ages])
    done = json.loads(capsys.readouterr().out)

    assert planned["files"] == done["files"]
    assert planned["size_bytes"] == sum(file["size_bytes"] for file in planned["files"]) > 0
    assert strays(uri) == []
    main_ok(["cleanup", uri])
    assert "0 files" in capsys.readouterr().out


def main_ok(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert not exit_.value.code


def some_version(uri: str, chance: random.Random) -> int:
    return int(chance.choice(lance.dataset(uri).versions())["version"])


def branch_off(uri: str, number: int, version: int) -> str:
    name = f"side{number}"
    lance.dataset(uri, version=version).create_branch(name)
    return name


def assert_answers(dataset: lance.LanceDataset, *asked_through: str) -> None:
    """Like a scan, through the index where there is one, and with all of its files there."""
    for predicate in ASKED:
        scanned = dataset.to_table(columns=["id"], filter=predicate, use_scalar_index=False)
        answered = dataset.to_table(columns=["id"], filter=predicate)
        assert sorted(answered["id"].to_pylist()) == sorted(scanned["id"].to_pylist()), predicate
    for name in asked_through:
        assert f"@{name}(" in dataset.scanner(filter=ASKED[1]).explain_plan()
