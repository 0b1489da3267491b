"""Answers how far a stage is, how fast it goes and when it will end, and how that looks as one line. Pure.

It does not know the time and does not draw: ``progress`` does both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.progress_bar import ProgressBar
from rich.table import Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

_BAR_WIDTH = 30
_THOUSAND = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StageProgress:
    """How far one stage is. Times are stopwatch seconds."""

    stage: str
    tasks: int
    rows: int
    started_s: float
    tasks_done: int = 0
    rows_done: int = 0
    advanced_s: float | None = None
    ended_s: float | None = None

    @property
    def is_complete(self) -> bool:
        """True when every task is done."""
        return self.tasks_done >= self.tasks

    @property
    def rows_per_second(self) -> float | None:
        """Rows per second up to the last finished task, so that it does not sag while the next one runs."""
        if self.advanced_s is None or self.advanced_s <= self.started_s:
            return None
        return self.rows_done / (self.advanced_s - self.started_s)

    def advanced(self, *, rows: int, now_s: float) -> StageProgress:
        """One more task is done."""
        done = min(self.tasks_done + 1, self.tasks)
        return replace(self, tasks_done=done, rows_done=self.rows_done + rows, advanced_s=now_s)

    def finished(self, *, now_s: float) -> StageProgress:
        """Every task is done, also those whose own event got lost."""
        return replace(self, tasks_done=self.tasks, ended_s=now_s)

    def stopped(self, *, now_s: float) -> StageProgress:
        """Nothing more will come."""
        return replace(self, ended_s=now_s)

    def seconds_passed(self, now_s: float) -> float:
        """Seconds since the start, up to the end once there is one."""
        return max((now_s if self.ended_s is None else self.ended_s) - self.started_s, 0.0)

    def seconds_left(self, now_s: float) -> float | None:
        """Seconds to the end at the pace so far: by rows where they are known, because tasks differ."""
        if self.advanced_s is None:
            return None
        by_rows = self.rows and self.rows_done
        done, planned = (self.rows_done, self.rows) if by_rows else (self.tasks_done, self.tasks)
        pace_s = (self.advanced_s - self.started_s) / done
        return max(self.advanced_s + pace_s * (planned - done) - now_s, 0.0)


def render_stages(stages: Iterable[StageProgress], *, now_s: float) -> Table:
    """One line per stage: name, bar, tasks, rows, rows per second, time left."""
    bar = Column()  # the only column that gives way on a narrow terminal
    table = Table.grid(
        Column(no_wrap=True),
        bar,
        *(Column(no_wrap=True, justify="right") for _ in range(4)),
        padding=(0, 2, 0, 0),
    )
    for stage in stages:
        table.add_row(
            stage.stage,
            ProgressBar(
                total=max(stage.tasks, 1), completed=stage.tasks_done if stage.tasks else 1, width=_BAR_WIDTH
            ),
            f"{stage.tasks_done:,}/{stage.tasks:,} tasks",
            _rows_text(stage),
            _rate_text(stage),
            _time_text(stage, now_s),
        )
    return table


def _rows_text(stage: StageProgress) -> str:
    if not stage.rows and not stage.rows_done:
        return ""
    planned = f"/{short_number(stage.rows)}" if stage.rows else ""
    return f"{short_number(stage.rows_done)}{planned} rows"


def _rate_text(stage: StageProgress) -> str:
    rate = stage.rows_per_second
    return f"{short_number(rate)} rows/s" if rate else ""


def _time_text(stage: StageProgress, now_s: float) -> str:
    passed = duration(stage.seconds_passed(now_s))
    if stage.ended_s is not None:
        return f"done in {passed}" if stage.is_complete else f"stopped after {passed}"
    left = stage.seconds_left(now_s)
    return f"{passed} so far" if left is None else f"{duration(left)} left"


def short_number(number: float) -> str:
    """A count in at most six characters.

    >>> short_number(12), short_number(1_234_567), short_number(999_960)
    ('12', '1.2M', '1.0M')
    """
    if number < _THOUSAND - 0.5:
        return f"{number:.0f}"
    for unit in ("k", "M", "B"):
        number /= _THOUSAND
        if number < _THOUSAND - 0.05:
            return f"{number:.1f}{unit}"
    return f"{number / _THOUSAND:.1f}T"


def duration(seconds: float) -> str:
    """Minutes and seconds, with hours when there are any.

    >>> duration(75), duration(3675)
    ('1:15', '1:01:15')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
