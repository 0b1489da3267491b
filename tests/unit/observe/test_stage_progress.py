"""What the arithmetic of a progress line promises."""

from __future__ import annotations

import pytest
from rich.console import Console

from lancewright.observe.stage_progress import StageProgress, duration, render_stages, short_number


def stage(*, tasks: int = 4, rows: int = 4_000) -> StageProgress:
    return StageProgress(stage="build", tasks=tasks, rows=rows, started_s=100.0)


def drawn(line: StageProgress, *, now_s: float, width: int = 100) -> str:
    console = Console(width=width, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(render_stages([line], now_s=now_s))
    return capture.get()


def test_before_the_first_task_it_tells_how_long_it_has_been_running() -> None:
    assert "0/4 tasks" in drawn(stage(), now_s=107.0)
    assert "0:07 so far" in drawn(stage(), now_s=107.0)
    assert "rows/s" not in drawn(stage(), now_s=107.0)


def test_rate_counts_rows_up_to_the_last_finished_task() -> None:
    line = stage().advanced(rows=1_000, now_s=110.0)

    assert line.rows_per_second == pytest.approx(100.0)


def test_time_left_follows_rows_because_tasks_differ_in_size() -> None:
    line = stage().advanced(rows=3_000, now_s=130.0)

    assert line.seconds_left(130.0) == pytest.approx(10.0)


def test_time_left_follows_tasks_where_rows_are_not_known() -> None:
    line = stage(rows=0).advanced(rows=0, now_s=110.0)

    assert line.seconds_left(110.0) == pytest.approx(30.0)


def test_time_left_runs_down_between_tasks_and_never_below_zero() -> None:
    line = stage().advanced(rows=2_000, now_s=110.0)

    assert line.seconds_left(114.0) == pytest.approx(6.0)
    assert line.seconds_left(500.0) == 0.0


def test_more_rows_than_planned_leave_no_time() -> None:
    line = stage().advanced(rows=9_000, now_s=110.0)

    assert line.seconds_left(110.0) == 0.0


def test_a_task_that_takes_no_time_has_no_rate() -> None:
    line = stage().advanced(rows=1_000, now_s=100.0)

    assert line.rows_per_second is None
    assert line.seconds_left(100.0) == 0.0


def test_a_finished_stage_is_full_and_tells_how_long_it_took() -> None:
    line = stage().advanced(rows=4_000, now_s=110.0).finished(now_s=175.0)

    text = drawn(line, now_s=900.0)

    assert "4/4 tasks" in text
    assert "4.0k/4.0k rows" in text
    assert "400 rows/s" in text
    assert "done in 1:15" in text


def test_a_stopped_stage_says_so() -> None:
    line = stage().advanced(rows=1_000, now_s=110.0).stopped(now_s=112.0)

    assert "1/4 tasks" in drawn(line, now_s=900.0)
    assert "stopped after 0:12" in drawn(line, now_s=900.0)


def test_a_stage_that_does_not_count_rows_says_nothing_about_them() -> None:
    line = stage(tasks=1, rows=0).advanced(rows=0, now_s=110.0)

    assert "row" not in drawn(line, now_s=110.0)


def test_a_stage_without_tasks_is_complete() -> None:
    assert "done in 0:00" in drawn(stage(tasks=0, rows=0).finished(now_s=100.0), now_s=100.0)


def test_on_a_narrow_terminal_the_bar_gives_way_and_the_numbers_stay() -> None:
    line = stage(tasks=1_400, rows=1_000_000_000).advanced(rows=123_456_789, now_s=103.0)

    text = drawn(line, now_s=110.0, width=80)

    assert text.count("\n") == 1
    assert "1/1,400 tasks" in text
    assert "123.5M/1.0B rows" in text
    assert "41.2M rows/s" in text
    assert "0:14 left" in text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (999.7, "1.0k"),
        (1_000, "1.0k"),
        (999_940, "999.9k"),
        (999_960, "1.0M"),
        (2_500_000_000, "2.5B"),
        (7e12, "7.0T"),
    ],
)
def test_short_numbers(number: float, text: str) -> None:
    assert short_number(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (59.6, "1:00"), (75, "1:15"), (3_600, "1:00:00"), (360_000, "100:00:00")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
