"""One call brings a table up to date, does no more than its policy wants and allows, and tells what became of every step."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lance
import pytest

import lancewright as lw
from lancewright.build.rounds import BuildOptions
from lancewright.cli.app import main
from lancewright.maintain.due import find_due
from lancewright.maintain.maintain import MaintainReceipt, maintain_table
from lancewright.observe.events import StageStarted
from lancewright.observe.sinks import MemorySink
from lancewright.table.location import table_ref
from support.busy_table import CASES, append, busy_table, delete, wrong_answers
from support.folders import list_files
from support.runners import BusyRunner, UnusedRunner

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ("btree", "bitmap", "inverted")
SMALL = lw.Policy(rows_per_fragment=350)
NO_WAIT = BuildOptions(sleep=lambda _seconds: None, poll_s=0.05)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table with indexes, and everything to be done: small fragments, deleted rows, appended ones, many segments."""
    uri = busy_table(str(tmp_path / "table")).uri
    table = lw.open(uri, progress=False)
    table.create_indexes(
        [
            lw.IndexRequest(
                column="other" if kind == "bitmap" else CASES[kind].column,
                kind=kind,
                name=kind,
                segments=4,
                parameters=CASES[kind].parameters,
            )
            for kind in KINDS
        ]
    )
    append(uri)
    delete(uri)
    return uri


def open_table(uri: str, **options: Any) -> lw.Table:
    return lw.open(uri, progress=False, **options)


def run(uri: str, policy: lw.Policy = SMALL, **options: Any) -> MaintainReceipt:
    runner = options.pop("runner", None) or BusyRunner([])
    return maintain_table(
        table_ref(uri), runner, options.pop("sink", MemorySink()), NO_WAIT, policy, **options
    )


def outcomes(receipt: MaintainReceipt) -> dict[str, str]:
    return {step.verb: step.outcome for step in receipt.steps}


def problems(uri: str) -> list[str]:
    return wrong_answers(uri, CASES["btree"]) + wrong_answers(uri, CASES["inverted"])


def until_idle(uri: str, policy: lw.Policy = SMALL) -> int:
    """How many runs it takes until one finds nothing to do."""
    for count in range(6):
        if not run(uri, policy).steps:
            return count
    raise AssertionError("it goes on for ever")


def test_a_run_does_everything_that_is_due_and_then_nothing_is(uri: str) -> None:
    receipt = run(uri)

    assert set(outcomes(receipt)) == {"health", "compact", "catch_up", "refresh", "merge", "cleanup"}
    assert not receipt.failed
    assert receipt.is_complete
    assert all(info.coverage.is_complete for info in open_table(uri).indexes())
    assert lance.dataset(uri).stats.dataset_stats()["num_fragments"] < 9
    assert problems(uri) == []
    assert until_idle(uri) <= 2
    assert problems(uri) == []


def test_an_idle_run_reads_one_manifest_writes_nothing_and_asks_no_runner(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    until_idle(uri)
    files = list_files(uri)
    sink = MemorySink()
    opened: list[object] = []
    really = lance.dataset

    def count(*arguments: Any, **options: Any) -> lance.LanceDataset:
        opened.append(arguments)
        return really(*arguments, **options)

    monkeypatch.setattr("lancewright.table.opening.lance.dataset", count)

    receipt = run(uri, runner=UnusedRunner(), sink=sink)

    assert (receipt.steps, receipt.was_thorough) == ((), False)
    assert receipt.is_complete
    assert len(opened) == 1
    assert sink.events == ()
    assert list_files(uri) == files


def test_what_the_manifest_does_not_show_is_looked_for_every_so_often(uri: str) -> None:
    until_idle(uri)
    orphan = lance.dataset(uri).create_index_uncommitted("other", "BITMAP", fragment_ids=[0 + 9])

    assert not run(uri).steps
    receipt = run(uri, replace(SMALL, thorough_every=timedelta(0), orphan_age=timedelta(0)))

    assert outcomes(receipt)["cleanup"] == "done"
    assert any(str(orphan.uuid) in file.path for file in receipt.steps[-1].receipt.files)


def test_a_dry_run_tells_every_step_and_writes_nothing(uri: str) -> None:
    files = list_files(uri)

    plan = open_table(uri, runner=UnusedRunner()).maintain(replace(SMALL, bytes_max=1), dry_run=True)

    assert list_files(uri) == files
    due = {step.verb: step for step in plan.steps if step.is_due}
    assert set(due) >= {"compact", "refresh", "merge"}
    assert due["refresh"].rows == 4 * 60
    assert all(due[verb].beyond_budget for verb in ("compact", "refresh", "merge"))
    assert "beyond the budget" in repr(plan)


@pytest.mark.parametrize("limit", [{"tasks_max": 1}, {"bytes_max": 40_000}, {"seconds_max": 0.0}])
def test_a_budget_is_kept_and_later_runs_do_the_rest(uri: str, limit: dict[str, Any]) -> None:
    sink = MemorySink()

    receipt = run(uri, replace(SMALL, **limit), sink=sink)

    assert not receipt.is_complete
    assert any(step.outcome == "put_off" for step in receipt.steps)
    tasks = sum(event.tasks for event in sink.of(StageStarted))
    assert tasks <= {"tasks_max": 1, "bytes_max": 6, "seconds_max": 0}[next(iter(limit))]
    assert problems(uri) == []
    assert until_idle(uri) <= 3
    assert all(info.coverage.is_complete for info in open_table(uri).indexes())


def test_the_time_is_looked_at_between_units_and_none_is_cut_short(uri: str) -> None:
    stages: list[str] = []
    times = iter([0.0, *[0.1] * 4])

    class Clocked(MemorySink):
        def record(self, event: Any) -> None:
            super().record(event)
            if isinstance(event, StageStarted):
                stages.append(event.stage)

    receipt = run(
        uri,
        replace(SMALL, seconds_max=3_600),
        sink=Clocked(),
        is_stopped=lambda: next(times, None) is None,
    )

    assert len(stages) > 0
    assert not receipt.failed
    assert any(step.outcome == "put_off" for step in receipt.steps)
    assert problems(uri) == []


def test_a_timed_run_with_time_enough_does_everything(uri: str) -> None:
    receipt = run(uri, replace(SMALL, seconds_max=3_600))

    assert receipt.is_complete
    assert all(info.coverage.is_complete for info in open_table(uri).indexes())
    assert problems(uri) == []
    assert until_idle(uri) <= 2


def test_a_step_that_fails_is_told_and_the_others_run(uri: str) -> None:
    open_table(uri).create_index("text", kind="fm", name="fm")
    open_table(uri).create_index(
        "number", kind="btree", name="ranged", layout="range", ranges=3, keep_ranges=True
    )
    append(uri, 20_000)

    receipt = run(uri)

    (failed,) = receipt.failed
    assert (failed.verb, failed.error, failed.exit_code) == ("compact", "UnsupportedError", 5)
    assert outcomes(receipt)["refresh"] == "done"
    assert not receipt.is_complete


def test_tasks_that_fail_keep_no_other_step_from_running(uri: str) -> None:
    receipt = run(uri, runner=BusyRunner(failing=[8]))

    assert [step.error for step in receipt.failed] == ["TasksFailedError"]
    assert outcomes(receipt)["compact"] == "done"
    assert "cleanup" in outcomes(receipt)
    assert problems(uri) == []


def test_a_conflict_is_tried_again_and_then_told(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def refuse(*_arguments: object) -> None:
        calls.append(1)
        raise lw.ConflictError("Another writer came first", "Try again.")

    monkeypatch.setattr("lancewright.maintain.maintain.refresh_indexes", refuse)

    receipt = run(uri)

    (failed,) = receipt.failed
    assert (failed.verb, failed.attempts, len(calls)) == ("refresh", 3, 3)
    assert failed.exit_code == 4
    assert outcomes(receipt)["merge"] in {"done", "nothing"}


def test_a_name_that_is_dropped_while_a_run_is_under_way_stays_dropped(uri: str) -> None:
    runner = BusyRunner([lambda: lance.dataset(uri).drop_index("btree")])

    receipt = run(uri, runner=runner)

    assert not receipt.failed
    assert {info.name for info in open_table(uri).indexes()} == {"bitmap", "inverted", "theirs"}


def test_a_policy_is_stored_in_the_table_and_used(uri: str) -> None:
    table = open_table(uri)
    assert table.policy() == lw.Policy()

    table.set_policy(replace(SMALL, compact=False, cleanup=False))
    version = table.snapshot().version
    table.set_policy(replace(SMALL, compact=False, cleanup=False))

    assert table.snapshot().version == version
    assert lance.dataset(uri).config()["lancewright.policy"].startswith('{"version": 1')
    assert set(outcomes(table.maintain())) == {"health", "catch_up", "refresh", "merge"}
    table.set_policy(None)
    assert table.policy() == lw.Policy()


@pytest.mark.parametrize(
    ("stored", "error", "says"),
    [
        ('{"version": 1, "colour": "red"}', lw.InvalidRequestError, "colour"),
        ('{"version": 2}', lw.UnsupportedError, "version 2"),
        ('{"version": 1, "older_than": 5}', lw.InvalidRequestError, "older_than"),
        ('{"version": 1, "compact": "yes"}', lw.InvalidRequestError, "compact"),
        ('{"compact": true}', lw.InvalidRequestError, "version None"),
        ("[]", lw.InvalidRequestError, "no JSON object"),
        ("{", lw.InvalidRequestError, "no JSON"),
    ],
)
def test_a_stored_policy_that_says_more_than_is_known_is_told(
    uri: str, stored: str, error: type[lw.LancewrightError], says: str
) -> None:
    lance.dataset(uri).update_config({"lancewright.policy": stored})

    with pytest.raises(error, match=says):
        open_table(uri).maintain()


@pytest.mark.parametrize(
    "fields",
    [
        {"deleted_share": 1.5},
        {"fragments_min": 1},
        {"seconds_max": -1},
        {"tasks_max": True},
        {"older_than": timedelta(-1)},
        {"remap": "forget"},
        {"rows_per_fragment": 0},
    ],
)
def test_a_policy_that_means_nothing_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(lw.InvalidRequestError, match=next(iter(fields))):
        lw.Policy(**fields)


def test_the_manifest_shows_every_compaction_that_lance_would_plan(uri: str) -> None:
    for policy in (SMALL, lw.Policy(), replace(SMALL, fragments_min=2)):
        while run(uri, policy).steps:
            pass
        snapshot = open_table(uri).snapshot()

        assert "compact" not in find_due(snapshot, policy)
        assert open_table(uri).maintain(policy, dry_run=True).steps == ()


# The command line ---------------------------------------------------------------------------------------------------


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    told = capsys.readouterr()
    return int(ended.value.code or 0), told.out, told.err


def test_the_commands_run_and_tell_by_their_exit_code(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ("--set", "rows_per_fragment=350")

    planned = command(capsys, "maintain", uri, "--dry-run", "--json", *rows)
    short = command(capsys, "maintain", uri, "--local", "--max-tasks", "0", "--json", *rows)
    whole = command(capsys, "maintain", uri, "--local", "--json", *rows)
    command(capsys, "maintain", uri, "--local", *rows)
    idle = command(capsys, "maintain", uri, "--local", *rows)

    assert (planned[0], short[0], whole[0], idle[0]) == (10, 10, 0, 0)
    assert json.loads(planned[1])["policy"]["rows_per_fragment"] == 350
    assert not json.loads(short[1])["is_complete"]
    assert json.loads(whole[1])["is_complete"]
    assert "nothing was due" in idle[1]


def test_the_command_ends_with_the_code_of_the_step_that_failed(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    open_table(uri).create_index("text", kind="fm", name="fm")

    code, told, _ = command(
        capsys, "maintain", uri, "--local", "--json", "--set", "remap=reuse", "--set", "rows_per_fragment=350"
    )

    assert code == 5
    assert [step["error"] for step in json.loads(told)["steps"] if step["outcome"] == "failed"] == [
        "UnsupportedError"
    ]


def test_a_policy_is_shown_changed_and_reset_by_its_command(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = command(capsys, "policy", uri, "--set", "older_than=30d", "--set", "seconds_max=600", "--json")
    wrong = command(capsys, "policy", uri, "--set", "colour=red")
    shown = command(capsys, "policy", uri)
    reset = command(capsys, "policy", uri, "--reset", "--set", "merge=false", "--json")

    assert (changed[0], wrong[0], shown[0], reset[0]) == (0, 2, 0, 0)
    assert json.loads(changed[1])["older_than_s"] == 30 * 86_400
    assert "colour" in wrong[2]
    assert "2592000" in shown[1]
    document = json.loads(reset[1])
    assert (document["merge"], document["older_than_s"], document["seconds_max"]) == (False, 7 * 86_400, None)


def test_an_idle_command_starts_no_spark(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    until_idle(uri)

    code, told, errors = command(
        capsys, "maintain", uri, "--master", "no-such-master", "--set", "rows_per_fragment=350"
    )

    assert (code, errors) == (0, "")
    assert "nothing was due" in told


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_watch_repeats_its_run_and_ends_well_with_a_signal(uri: str, number: int) -> None:
    arguments = ["maintain", uri, "--local", "--watch", "0.2", "--json", "--set", "rows_per_fragment=350"]
    program = "import sys; from lancewright.cli import main; main(sys.argv[1:])"
    watch = subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True)
    assert watch.stdout is not None

    first = json.loads(watch.stdout.readline())
    append(uri, 50_000)
    while not any(step["outcome"] == "done" for step in json.loads(watch.stdout.readline())["steps"]):
        pass
    watch.send_signal(number)

    assert watch.wait(timeout=60) == 0
    assert {step["verb"] for step in first["steps"]} >= {"compact", "refresh", "cleanup"}
    watch.stdout.close()
    deadline = 5
    while deadline and open_table(uri).plan_refresh().works:
        open_table(uri).maintain(SMALL)
        deadline -= 1
    assert all(info.coverage.is_complete for info in open_table(uri).indexes())


@pytest.mark.parametrize(
    "arguments", [("--watch", "0"), ("--watch", "5", "--dry-run"), ("--set", "older_than=soon")]
)
def test_a_command_that_makes_no_sense_is_refused(
    uri: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert command(capsys, "maintain", uri, "--local", *arguments)[0] == 2
