"""Answers what time it is and how many seconds have passed, through functions that a test can replace.

It does not wait, schedule or format.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

Clock: TypeAlias = Callable[[], datetime]
"""Tells the time of day, with its zone."""

Stopwatch: TypeAlias = Callable[[], float]
"""Tells seconds that never run backwards; only differences mean something."""


def system_clock() -> datetime:
    """The time of day in UTC."""
    return datetime.now(UTC)


def system_stopwatch() -> float:
    """Seconds since some fixed moment, unmoved by changes of the time of day."""
    return time.monotonic()
