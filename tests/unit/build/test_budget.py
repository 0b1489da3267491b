"""A budget lets a unit begin only when all of it fits, and counts only what it let begin."""

from __future__ import annotations

import pytest

from lancewright.build.budget import Budget, Cost


def test_without_limits_everything_may_begin() -> None:
    budget = Budget()

    assert budget.take(Cost(tasks=10**9, size_bytes=10**18))
    assert not budget.is_timed
    assert not budget.is_over


@pytest.mark.parametrize("name", ["tasks_max", "bytes_max"])
def test_what_does_not_fit_is_refused_and_not_counted(name: str) -> None:
    field = {"tasks_max": "tasks", "bytes_max": "size_bytes"}[name]
    budget = Budget(**{name: 10})

    taken = [budget.take(Cost(**{field: amount})) for amount in (6, 5, 4, 1, 0)]

    assert taken == [True, False, True, False, True]


def test_a_refusal_for_one_limit_uses_nothing_of_the_other() -> None:
    budget = Budget(tasks_max=5, bytes_max=100)

    assert not budget.take(Cost(tasks=1, size_bytes=101))
    assert not budget.take(Cost(tasks=6, size_bytes=1))
    assert budget.take(Cost(tasks=5, size_bytes=100))


def test_nothing_begins_when_the_time_is_up() -> None:
    now = [100.0]
    budget = Budget(seconds_max=10, clock=lambda: now[0])

    before = budget.take(Cost())
    now[0] = 110.0

    assert budget.is_timed
    assert (before, budget.take(Cost()), budget.is_over) == (True, False, True)


def test_nothing_begins_when_somebody_wants_the_run_to_end() -> None:
    stopped = [False]
    budget = Budget(is_stopped=lambda: stopped[0])

    assert budget.take(Cost())
    stopped[0] = True

    assert not budget.take(Cost())
    assert budget.is_over
