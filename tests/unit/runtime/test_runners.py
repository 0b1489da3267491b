"""Running a stage of tasks to its end: what is tried again, what is kept, and what the caller hears."""

from __future__ import annotations

import os
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewright.errors import InvalidRequestError, TasksFailedError, UnsupportedError
from lancewright.runtime.local_runner import LocalRunner
from lancewright.runtime.runner import ATTEMPTS_MAX, run_tasks
from lancewright.runtime.task import Job, Task, TaskOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OK, FAIL, REFUSE, SILENT = "ok", "fail", "refuse", "silent"
SCRIPTS = st.lists(
    st.lists(st.sampled_from([OK, FAIL, REFUSE, SILENT]), min_size=ATTEMPTS_MAX, max_size=ATTEMPTS_MAX),
    max_size=6,
)


def nothing(settings: object, payload: object) -> None:
    return None


JOB = Job(worker=nothing, settings=None)


@dataclass
class ScriptedRunner:
    """Ends each attempt of a task as its script says, and tells some outcomes more than once."""

    scripts: dict[str, Sequence[str]]
    repeats: int = 1
    rounds: list[list[str]] = field(default_factory=list)
    attempts: Counter[str] = field(default_factory=Counter)
    parallelism: int = 1

    def map(self, _job: Job, tasks: Sequence[Task], on_outcome: Callable[[TaskOutcome], None]) -> None:
        self.rounds.append([task.id for task in tasks])
        for task in tasks:
            ending = self.scripts[task.id][self.attempts[task.id]]
            self.attempts[task.id] += 1
            for _ in range(self.repeats if ending != SILENT else 0):
                on_outcome(_outcome(task.id, ending))


def _outcome(task_id: str, ending: str) -> TaskOutcome:
    if ending == OK:
        return TaskOutcome(task_id=task_id, result=f"result of {task_id}")
    if ending == FAIL:
        return TaskOutcome(task_id=task_id, problem="the executor was lost", details="a trace")
    refusal = InvalidRequestError("the column is gone", "Name another.")
    return TaskOutcome(task_id=task_id, problem=str(refusal), retriable=False, refusal=refusal)


def _tasks(count: int) -> list[Task]:
    return [Task(id=f"t{n}", payload=n, label="ix", fragments=(2 * n, 2 * n + 1)) for n in range(count)]


def _expected_attempts(script: Sequence[str]) -> int:
    """Until it is done or refused, but not more often than allowed."""
    for number, ending in enumerate(script, start=1):
        if ending in {OK, REFUSE}:
            return number
    return len(script)


@given(SCRIPTS, st.integers(1, 3))
def test_only_what_failed_and_may_succeed_is_tried_again_and_what_is_done_is_kept(
    scripts: list[list[str]], repeats: int
) -> None:
    tasks = _tasks(len(scripts))
    runner = ScriptedRunner({task.id: script for task, script in zip(tasks, scripts, strict=True)}, repeats)
    heard: list[tuple[str, bool, int]] = []
    # A refusal ends a task for good, even when a silent attempt came before.
    done = {
        task.id
        for task, script in zip(tasks, scripts, strict=True)
        if script[_expected_attempts(script) - 1] == OK
    }

    def hear(task: Task, outcome: TaskOutcome, attempt: int) -> None:
        heard.append((task.id, outcome.ok, attempt))

    try:
        outcomes = run_tasks(runner, JOB, tasks, hear)
    except (TasksFailedError, InvalidRequestError):
        assert len(done) < len(tasks)
    else:
        assert outcomes == {task.id: _outcome(task.id, OK) for task in tasks}
        assert len(done) == len(tasks)
    assert runner.attempts == Counter(
        {task.id: _expected_attempts(script) for task, script in zip(tasks, scripts, strict=True)}
    )
    assert [entry[0] for entry in heard if entry[1]] == sorted(
        done, key=lambda id_: (runner.attempts[id_], id_)
    )  # each told once, in the round it was done


def test_a_task_that_is_done_is_never_run_again() -> None:
    runner = ScriptedRunner({"t0": [OK], "t1": [FAIL, FAIL, OK], "t2": [FAIL, OK]})

    run_tasks(runner, JOB, _tasks(3), lambda *_: None)

    assert runner.rounds == [["t0", "t1", "t2"], ["t1", "t2"], ["t1"]]


def test_an_outcome_that_never_arrived_is_waited_for_again() -> None:
    runner = ScriptedRunner({"t0": [SILENT, OK]})

    outcomes = run_tasks(runner, JOB, _tasks(1), lambda *_: None)

    assert outcomes["t0"].ok


def test_the_caller_hears_of_every_attempt_with_its_number() -> None:
    heard: list[tuple[str, bool, int]] = []
    runner = ScriptedRunner({"t0": [FAIL, FAIL, OK]})

    run_tasks(
        runner, JOB, _tasks(1), lambda task, outcome, attempt: heard.append((task.id, outcome.ok, attempt))
    )

    assert heard == [("t0", False, 1), ("t0", False, 2), ("t0", True, 3)]


def test_an_outcome_told_twice_counts_once_and_a_late_failure_does_not_undo_a_success() -> None:
    heard: list[bool] = []

    class Twice(ScriptedRunner):
        def map(self, _job: Job, tasks: Sequence[Task], on_outcome: Callable[[TaskOutcome], None]) -> None:
            self.rounds.append([task.id for task in tasks])
            for ending in (OK, OK, FAIL, REFUSE):
                on_outcome(_outcome("t0", ending))

    runner = Twice({})

    outcomes = run_tasks(runner, JOB, _tasks(1), lambda _task, outcome, _attempt: heard.append(outcome.ok))

    assert outcomes["t0"].ok
    assert heard == [True]
    assert len(runner.rounds) == 1


def test_tasks_that_keep_failing_name_their_fragments_and_the_cause() -> None:
    runner = ScriptedRunner({"t0": [OK], "t1": [FAIL] * 3, "t2": [FAIL] * 3})

    with pytest.raises(TasksFailedError, match="2 of 3 tasks failed, on fragments 2, 3, 4, 5") as caught:
        run_tasks(runner, JOB, _tasks(3), lambda *_: None)

    assert caught.value.fragments == (2, 3, 4, 5)
    assert "the executor was lost" in caught.value.problem
    assert "finished tasks are kept" in caught.value.remedy
    assert caught.value.__notes__ == ["a trace"]


def test_many_fragments_are_counted_and_not_all_listed() -> None:
    tasks = [Task(id="t0", payload=None, label="ix", fragments=tuple(range(1000)))]

    with pytest.raises(TasksFailedError, match="and 980 more") as caught:
        run_tasks(ScriptedRunner({"t0": [FAIL] * 3}), JOB, tasks, lambda *_: None)

    assert len(caught.value.fragments) == 1000
    assert len(caught.value.problem) < 300


def test_a_task_of_no_fragment_that_never_answers_is_reported_too() -> None:
    with pytest.raises(TasksFailedError, match="on fragments none: no outcome arrived"):
        run_tasks(
            ScriptedRunner({"train": [SILENT] * 3}),
            JOB,
            [Task(id="train", payload=None, label="ix")],
            lambda *_: None,
        )


def test_tasks_that_were_all_refused_raise_that_refusal() -> None:
    runner = ScriptedRunner({"t0": [REFUSE], "t1": [REFUSE], "t2": [OK]})

    with pytest.raises(InvalidRequestError, match="the column is gone"):
        run_tasks(runner, JOB, _tasks(3), lambda *_: None)

    assert len(runner.rounds) == 1


def test_a_refusal_among_other_failures_does_not_speak_for_all() -> None:
    runner = ScriptedRunner({"t0": [REFUSE], "t1": [FAIL] * 3})

    with pytest.raises(TasksFailedError, match="2 of 2 tasks failed"):
        run_tasks(runner, JOB, _tasks(2), lambda *_: None)


@pytest.mark.parametrize("attempts_max", [1, 2, 5])
def test_the_number_of_attempts_is_the_callers_choice(attempts_max: int) -> None:
    runner = ScriptedRunner({"t0": [FAIL] * 9})

    with pytest.raises(TasksFailedError):
        run_tasks(runner, JOB, _tasks(1), lambda *_: None, attempts_max)

    assert runner.attempts["t0"] == attempts_max


def test_no_tasks_need_no_runner() -> None:
    runner = ScriptedRunner({})

    assert run_tasks(runner, JOB, [], lambda *_: None) == {}
    assert runner.rounds == []


def test_a_job_that_cannot_run_at_all_is_not_tried_again() -> None:
    class Broken(ScriptedRunner):
        def map(self, _job: Job, _tasks: Sequence[Task], _on_outcome: Callable[[TaskOutcome], None]) -> None:
            self.rounds.append([])
            raise UnsupportedError("the session is closed", "Open another.")

    runner = Broken({})

    with pytest.raises(UnsupportedError):
        run_tasks(runner, JOB, _tasks(1), lambda *_: None)

    assert len(runner.rounds) == 1


# --- the local runner ---


def where(settings: dict[str, Any], payload: int) -> tuple[int, int]:
    settings["running"] += 1
    settings["most"] = max(settings["most"], settings["running"])
    settings["barrier"].wait(timeout=20)
    settings["running"] -= 1
    return os.getpid(), threading.get_ident()


def fail_on_odd(settings: dict[int, int], payload: int) -> int:
    settings[payload] = settings.get(payload, 0) + 1
    if payload % 2 and settings[payload] < 3:
        raise OSError("not yet")
    return payload


def test_the_local_runner_works_in_this_process_on_several_threads_at_once() -> None:
    settings = {"running": 0, "most": 0, "barrier": threading.Barrier(3)}
    results: list[tuple[int, int]] = []
    heard: list[int] = []

    def hear(outcome: TaskOutcome) -> None:
        heard.append(threading.get_ident())
        results.append(outcome.result)

    LocalRunner(threads=3).map(Job(worker=where, settings=settings), _tasks(6), hear)

    assert {process for process, _ in results} == {os.getpid()}
    assert threading.get_ident() not in {thread for _, thread in results}
    assert heard == [threading.get_ident()] * 6  # the caller hears in its own thread
    assert settings["most"] == 3


def test_the_local_runner_runs_each_task_once_per_attempt_and_keeps_the_results() -> None:
    counts: dict[int, int] = {}
    runner = LocalRunner(threads=4)

    outcomes = run_tasks(runner, Job(worker=fail_on_odd, settings=counts), _tasks(8), lambda *_: None)

    assert {outcome.result for outcome in outcomes.values()} == set(range(8))
    assert counts == {number: 3 if number % 2 else 1 for number in range(8)}


@pytest.mark.parametrize(("threads", "parallelism"), [(-1, 1), (0, 1), (1, 1), (7, 7)])
def test_the_local_runner_has_at_least_one_thread(threads: int, parallelism: int) -> None:
    assert LocalRunner(threads).parallelism == parallelism


def test_the_local_runner_starts_no_thread_before_it_has_work() -> None:
    before = threading.active_count()

    LocalRunner(threads=50)
    LocalRunner(threads=50).map(JOB, [], lambda _outcome: None)

    assert threading.active_count() == before
