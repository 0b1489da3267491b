"""The envelope of a task: whatever a worker does, an outcome comes back, and it survives the journey."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import cloudpickle
import pytest

from lancewright.errors import (
    ConflictError,
    CorruptIndexError,
    InvalidRequestError,
    LancewrightError,
    NotFoundError,
    TasksFailedError,
    UnsupportedError,
)
from lancewright.runtime.task import Job, Task, TaskOutcome, run_task
from lancewright.version import __version__

TASK = Task(id="t1", payload=21, label="ix", fragments=(1, 2), rows=20)


class Panic(BaseException):
    """Stands for PyO3's PanicException, which is no Exception."""


class UnspeakableError(Exception):
    """An error that has nothing to say."""


def double(settings: int, payload: int) -> int:
    return settings * payload


def fail(settings: BaseException, payload: int) -> None:
    raise settings


def fail_deeply(depth: int, payload: int) -> None:
    if depth == 0:
        raise ValueError("at the bottom")
    fail_deeply(depth - 1, payload)


def test_a_task_that_ends_well_carries_its_result() -> None:
    outcome = run_task(Job(worker=double, settings=2), TASK)

    assert outcome == TaskOutcome(task_id="t1", result=42)
    assert outcome.ok


@pytest.mark.parametrize(
    "error",
    [
        OSError("the disk is full"),
        MemoryError("the disk is full"),
        CorruptIndexError("the disk is full", "Rebuild."),
        NotFoundError("the disk is full", "Look."),
        TasksFailedError("the disk is full", "Again.", (1,)),
    ],
)
def test_what_may_be_the_weather_is_tried_again(error: BaseException) -> None:
    outcome = run_task(Job(worker=fail, settings=error), TASK)

    assert not outcome.ok
    assert outcome.retriable
    assert outcome.refusal is None
    assert "the disk is full" in (outcome.problem or "")


@pytest.mark.parametrize("class_", [InvalidRequestError, UnsupportedError, ConflictError])
def test_what_fails_again_just_the_same_is_not_tried_again(class_: type[LancewrightError]) -> None:
    outcome = run_task(Job(worker=fail, settings=class_("No such thing", "Do otherwise.")), TASK)

    assert not outcome.retriable
    assert isinstance(outcome.refusal, class_)
    assert outcome.problem == "No such thing. Do otherwise."


def test_a_panic_of_lance_is_an_outcome_and_not_the_end_of_the_worker() -> None:
    outcome = run_task(Job(worker=fail, settings=Panic("Range start can not be after range end")), TASK)

    assert outcome.problem == "Panic: Range start can not be after range end"
    assert outcome.retriable


@pytest.mark.parametrize("class_", [KeyboardInterrupt, SystemExit])
def test_who_wants_to_stop_the_process_is_let_through(class_: type[BaseException]) -> None:
    with pytest.raises(class_):
        run_task(Job(worker=fail, settings=class_()), TASK)


def test_an_error_without_words_still_says_what_it_was() -> None:
    outcome = run_task(Job(worker=fail, settings=UnspeakableError()), TASK)

    assert "UnspeakableError" in (outcome.problem or "")


def test_the_trace_of_a_failure_is_kept_and_bounded() -> None:
    outcome = run_task(Job(worker=fail_deeply, settings=200), TASK)

    assert "at the bottom" in outcome.details
    assert outcome.details.count("\n") < 60
    assert outcome.details not in repr(outcome)


def test_a_worker_of_another_version_does_nothing_and_says_both_versions() -> None:
    outcome = run_task(Job(worker=fail, settings=AssertionError("it ran"), package_version="9.9.9"), TASK)

    assert not outcome.ok
    assert not outcome.retriable
    assert isinstance(outcome.refusal, UnsupportedError)
    assert "9.9.9" in (outcome.problem or "")
    assert __version__ in (outcome.problem or "")
    assert "it ran" not in (outcome.problem or "")


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps], ids=["pickle", "cloudpickle"])
def test_a_job_of_a_top_level_function_travels_small_and_runs_on_the_other_side(dumps: Any) -> None:
    job = Job(worker=double, settings=2)

    shipped = dumps(partial(run_task, job))

    assert len(shipped) < 1000
    assert pickle.loads(shipped)(TASK).result == 42  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    "error",
    [OSError("boom"), Panic("boom"), InvalidRequestError("boom", "Mend."), UnspeakableError(), None],
    ids=lambda error: type(error).__name__,
)
def test_every_outcome_travels_back(error: BaseException | None) -> None:
    job = Job(worker=double, settings=2) if error is None else Job(worker=fail, settings=error)
    outcome = run_task(job, TASK)

    back = pickle.loads(pickle.dumps(outcome))  # noqa: S301 - our own bytes

    assert (back.task_id, back.result, back.problem) == (outcome.task_id, outcome.result, outcome.problem)
    assert (back.retriable, back.details) == (outcome.retriable, outcome.details)
    assert str(back.refusal) == str(outcome.refusal)
