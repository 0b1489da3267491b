"""What the progress bar promises."""

from __future__ import annotations

import io
import re
import sys
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from lancewright.observe.events import IndexDropped, StageFinished, StageStarted, TaskFinished
from lancewright.observe.progress import ProgressSink

if TYPE_CHECKING:
    from rich.table import Table

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


class Seconds:
    """A stopwatch that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def started(stage: str = "build", *, job: str = "j", tasks: int = 4, rows: int = 4_000) -> StageStarted:
    return StageStarted(job_id=job, stage=stage, tasks=tasks, rows=rows)


def done(task: str, stage: str = "build", *, job: str = "j", rows: int = 1_000) -> TaskFinished:
    return TaskFinished(
        job_id=job, stage=stage, task_id=task, index="by_name", fragments=(0,), rows=rows, seconds=1.0
    )


def finished(stage: str = "build", *, job: str = "j", tasks: int = 4) -> StageFinished:
    return StageFinished(job_id=job, stage=stage, tasks=tasks)


def terminal() -> Console:
    return Console(
        file=io.StringIO(),
        force_terminal=True,
        force_interactive=True,
        force_jupyter=False,
        width=100,
        color_system=None,
    )


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def drawn_lines(console: Console) -> list[str]:
    """Every progress line ever drawn, without the escape sequences before it."""
    plain = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]|\r", "", written(console))
    return [line for line in plain.splitlines() if "tasks" in line]


def last_lines(console: Console, count: int) -> list[str]:
    return drawn_lines(console)[-count:]


def last_line(console: Console) -> str:
    return drawn_lines(console)[-1]


def drawing_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if type(thread).__module__ == "rich.live"]


def assert_no_thread_draws() -> None:
    """The thread is told to end and not waited for: give it a moment."""
    deadline = time.monotonic() + 5.0
    while drawing_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert drawing_threads() == []


class TestOnATerminal:
    def test_it_shows_tasks_rows_rate_and_time(self) -> None:
        console, seconds = terminal(), Seconds()

        with ProgressSink(console, stopwatch=seconds) as sink:
            sink.record(started())
            seconds.now = 10.0
            sink.record(done("a"))
            sink.record(done("b"))
            sink.record(finished())

        assert "build" in last_line(console)
        assert "4/4 tasks" in last_line(console)
        assert "2.0k/4.0k rows" in last_line(console)
        assert "200 rows/s" in last_line(console)
        assert "done in 0:10" in last_line(console)

    def test_it_draws_while_the_stage_runs(self) -> None:
        console, seconds = terminal(), Seconds()

        with ProgressSink(console, stopwatch=seconds) as sink:
            sink.record(started())
            seconds.now = 10.0
            sink.record(done("a"))
            wait_for_text(console, "1/4 tasks")

        assert "0:30 left" in written(console)

    def test_a_task_reported_twice_counts_once(self) -> None:
        console = terminal()

        with ProgressSink(console, stopwatch=Seconds()) as sink:
            sink.record(started())
            sink.record(done("a"))
            sink.record(done("a"))

        assert "1/4 tasks" in last_line(console)
        assert "1.0k/4.0k rows" in last_line(console)

    def test_the_same_task_id_in_another_stage_counts_there(self) -> None:
        console = terminal()

        with ProgressSink(console, stopwatch=Seconds()) as sink:
            sink.record(started("train"))
            sink.record(started("build"))
            sink.record(done("a", "train"))
            sink.record(done("a", "build"))

        assert [line.split()[0] for line in last_lines(console, 2)] == ["train", "build"]
        assert ["1/4 tasks" in line for line in last_lines(console, 2)] == [True, True]

    def test_each_stage_leaves_its_line(self) -> None:
        console = terminal()

        with ProgressSink(console, stopwatch=Seconds()) as sink:
            for stage in ("train", "build", "merge"):
                sink.record(started(stage))
                sink.record(finished(stage))

        final = [line for line in drawn_lines(console) if "done in" in line]
        assert [line.split()[0] for line in final] == ["train", "build", "merge"]

    def test_a_stage_started_again_counts_from_zero(self) -> None:
        console = terminal()

        with ProgressSink(console, stopwatch=Seconds()) as sink:
            sink.record(started())
            sink.record(done("a"))
            sink.record(finished())
            sink.record(started(tasks=2))
            sink.record(done("a"))

        assert "1/2 tasks" in last_line(console)

    def test_two_jobs_do_not_share_a_line(self) -> None:
        console = terminal()

        with ProgressSink(console, stopwatch=Seconds()) as sink:
            sink.record(started(job="one"))
            sink.record(started(job="two", tasks=9))
            sink.record(done("a", job="two"))

        assert "1/9 tasks" in last_line(console)

    def test_events_of_no_running_stage_change_nothing(self) -> None:
        console = terminal()

        with ProgressSink(console, stopwatch=Seconds()) as sink:
            sink.record(done("a"))
            sink.record(finished())
            sink.record(IndexDropped(job_id="j", index="by_name", version=2))

        assert written(console) == ""

    def test_a_task_reported_after_its_stage_ended_changes_nothing(self) -> None:
        console = terminal()

        with ProgressSink(console, stopwatch=Seconds()) as sink:
            sink.record(started())
            sink.record(finished())
            before = written(console)
            sink.record(done("late"))
            sink.record(finished())

        assert written(console) == before

    def test_the_cursor_is_shown_again_and_no_thread_is_left_when_a_stage_ends(self) -> None:
        console = terminal()

        sink = ProgressSink(console, stopwatch=Seconds())
        sink.record(started())
        sink.record(finished())

        assert_terminal_is_in_order(console)

    def test_a_failed_build_leaves_the_terminal_in_order(self) -> None:
        console = terminal()

        with pytest.raises(RuntimeError, match="lost"):
            run_a_failing_stage(ProgressSink(console, stopwatch=Seconds()))

        assert_terminal_is_in_order(console)
        assert "1/4 tasks" in last_line(console)
        assert "stopped after 0:00" in last_line(console)

    def test_it_can_be_closed_twice_and_used_again(self) -> None:
        console = terminal()

        sink = ProgressSink(console, stopwatch=Seconds())
        sink.record(started())
        sink.close()
        sink.close()
        sink.record(started(tasks=7))
        sink.record(finished(tasks=7))

        assert "7/7 tasks" in last_line(console)
        assert_terminal_is_in_order(console)

    def test_several_threads_may_report_at_once(self) -> None:
        console = terminal()

        with ProgressSink(console, stopwatch=Seconds()) as sink:
            sink.record(started(tasks=400))
            threads = [
                threading.Thread(target=report_tasks, args=(sink, first, first + 200))
                for first in (0, 50, 100, 150, 200)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        assert "400/400 tasks" in last_line(console)

    def test_a_closed_terminal_does_not_keep_it_from_ending(self) -> None:
        console = terminal()

        sink = ProgressSink(console, stopwatch=Seconds())
        sink.record(started())
        console.file.close()
        with pytest.raises(ValueError, match="closed file"):
            sink.close()
        sink.close()

        assert_no_thread_draws()


class TestOnStandardError:
    @pytest.fixture(autouse=True)
    def no_hints_from_outside(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "NO_COLOR"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("TERM", "xterm")

    @pytest.mark.parametrize("hint", ["FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"])
    def test_nothing_is_written_to_a_file_or_pipe(
        self, hint: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv(hint, "1")

        run_a_stage(ProgressSink())

        assert capfd.readouterr() == ("", "")
        assert drawing_threads() == []

    def test_nothing_is_written_when_only_standard_output_is_a_terminal(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        out, err = replace_streams(monkeypatch, out=FakeTerminal(), err=io.StringIO())

        run_a_stage(ProgressSink())

        assert (out.getvalue(), err.getvalue()) == ("", "")

    def test_nothing_is_written_to_a_terminal_that_cannot_move_its_cursor(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, err = replace_streams(monkeypatch, out=io.StringIO(), err=FakeTerminal())
        monkeypatch.setenv("TERM", "dumb")

        run_a_stage(ProgressSink())

        assert err.getvalue() == ""

    @pytest.mark.parametrize("stream", [None, "closed"])
    def test_a_process_without_standard_error_builds_in_silence(
        self, stream: str | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        closed = io.StringIO()
        closed.close()
        monkeypatch.setattr(sys, "stderr", None if stream is None else closed)

        run_a_stage(ProgressSink())

    def test_a_terminal_gets_the_bar_and_standard_output_stays_untouched(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        out, err = replace_streams(monkeypatch, out=io.StringIO(), err=FakeTerminal())

        run_a_stage(ProgressSink())

        assert "4/4 tasks" in err.getvalue()
        assert out.getvalue() == ""

    def test_what_is_printed_into_a_pipe_meanwhile_still_goes_there(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        out, err = replace_streams(monkeypatch, out=io.StringIO(), err=FakeTerminal())

        with ProgressSink() as sink:
            sink.record(started())
            print("receipt")  # noqa: T201 - the point of the test

        assert out.getvalue() == "receipt\n"
        assert "receipt" not in err.getvalue()
        assert sys.stdout is out
        assert sys.stderr is err


class TestInANotebook:
    @pytest.fixture
    def shown(self, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
        """What each output of the cell showed, one after the other."""
        outputs: list[list[str]] = []

        def display(table: Table, *, display_id: bool) -> SimpleNamespace:
            assert display_id
            output = [as_text(table)]
            outputs.append(output)
            return SimpleNamespace(update=lambda newer: output.append(as_text(newer)))

        monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
        return outputs

    def test_one_output_is_replaced_as_the_stage_advances(self, shown: list[list[str]]) -> None:
        seconds = Seconds()

        with ProgressSink(Console(force_jupyter=True), stopwatch=seconds) as sink:
            sink.record(started())
            seconds.now = 10.0
            sink.record(done("a"))
            sink.record(finished())

        assert len(shown) == 1
        assert "0/4 tasks" in shown[0][0]
        assert "1/4 tasks" in shown[0][1]
        assert "done in 0:10" in shown[0][-1]

    def test_ten_thousand_quick_tasks_are_a_handful_of_updates(self, shown: list[list[str]]) -> None:
        seconds = Seconds()

        with ProgressSink(Console(force_jupyter=True), stopwatch=seconds) as sink:
            sink.record(started(tasks=10_000))
            for task in range(10_000):
                seconds.now += 0.0001
                sink.record(done(str(task)))

        assert len(shown[0]) <= 4
        assert "10,000/10,000 tasks" in shown[0][-1]

    def test_no_thread_draws(self, shown: list[list[str]]) -> None:
        with ProgressSink(Console(force_jupyter=True), stopwatch=Seconds()) as sink:
            sink.record(started())

            assert drawing_threads() == []
            assert shown

    def test_a_failed_build_says_that_it_stopped(self, shown: list[list[str]]) -> None:
        with pytest.raises(RuntimeError, match="lost"):
            run_a_failing_stage(ProgressSink(Console(force_jupyter=True), stopwatch=Seconds()))

        assert "stopped after 0:00" in shown[0][-1]


def replace_streams(
    monkeypatch: pytest.MonkeyPatch, *, out: io.StringIO, err: io.StringIO
) -> tuple[io.StringIO, io.StringIO]:
    """Called in the test, not a fixture: pytest puts its own streams back between the two."""
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    return out, err


def report_tasks(sink: ProgressSink, first: int, end: int) -> None:
    for number in range(first, end):
        sink.record(done(str(number)))


def run_a_stage(sink: ProgressSink) -> None:
    with sink:
        sink.record(started())
        sink.record(done("a"))
        sink.record(finished())


def run_a_failing_stage(sink: ProgressSink) -> None:
    with sink:
        sink.record(started())
        sink.record(done("a"))
        raise RuntimeError("lost")


def assert_terminal_is_in_order(console: Console) -> None:
    text = written(console)
    assert text.count(HIDE_CURSOR) == text.count(SHOW_CURSOR) > 0
    assert text.rindex(SHOW_CURSOR) > text.rindex(HIDE_CURSOR)
    assert_no_thread_draws()


def wait_for_text(console: Console, text: str) -> None:
    deadline = time.monotonic() + 5.0
    while text not in written(console) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert text in written(console)


def as_text(table: Table) -> str:
    console = Console(width=100, color_system=None, force_jupyter=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get()
