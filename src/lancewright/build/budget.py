"""Answers whether a run may begin another unit of work: within its time, its bytes and its tasks. Asked between units, never within one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a unit of work is estimated to take; ``size_bytes`` is what it reads and writes."""

    tasks: int = 0
    size_bytes: int = 0


def _never() -> bool:
    return False


class Budget:
    """What is left of a run. It counts what was taken, so each run has one of its own."""

    def __init__(
        self,
        *,
        seconds_max: float | None = None,
        bytes_max: int | None = None,
        tasks_max: int | None = None,
        is_stopped: Callable[[], bool] = _never,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """The clock starts now. ``is_stopped`` says that somebody wants the run to end."""
        self._clock = clock
        self._is_stopped = is_stopped
        self._ends_at = None if seconds_max is None else clock() + seconds_max
        self._bytes_left = bytes_max
        self._tasks_left = tasks_max

    @property
    def is_timed(self) -> bool:
        """True when the time may run out: then units are run one after the other, with a look at the clock in between."""
        return self._ends_at is not None

    @property
    def is_over(self) -> bool:
        """True when nothing more may begin, whatever it costs."""
        return self._is_stopped() or (self._ends_at is not None and self._clock() >= self._ends_at)

    def take(self, cost: Cost) -> bool:
        """Count a unit that is about to begin; False, and nothing is counted, when it may not."""
        if self.is_over or not _fits(cost.size_bytes, self._bytes_left):
            return False
        if not _fits(cost.tasks, self._tasks_left):
            return False
        if self._bytes_left is not None:
            self._bytes_left -= cost.size_bytes
        if self._tasks_left is not None:
            self._tasks_left -= cost.tasks
        return True


def _fits(amount: int, left: int | None) -> bool:
    return left is None or amount <= left
