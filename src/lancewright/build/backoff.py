"""Answers how long to wait before trying again after another writer came first. Sleeps not itself."""

from __future__ import annotations

import random

_FIRST_S = 0.1
_LONGEST_S = 10.0


def backoff_s(conflicts: int) -> float:
    """Seconds to wait after so many conflicts; jitter keeps two writers that collided from colliding again."""
    longest = min(_LONGEST_S, _FIRST_S * 2.0**conflicts)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
