"""The envelope of distributed work: a job is one top-level function and frozen settings; a task is one row.

The same ``run_task`` runs under every runner. It never lets an exception escape, because exception classes do not
survive Spark and one failed task would take the finished ones down with it.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lancewright.errors import ConflictError, InvalidRequestError, LancewrightError, UnsupportedError
from lancewright.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

_TRACE_LINES_MAX = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What every task of one stage shares. ``worker`` must be importable by name on an executor."""

    worker: Callable[[Any, Any], Any]  # Any: settings, payload and result belong to the job that pairs them
    settings: Any
    package_version: str = __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One unit of work; ``payload`` is small and frozen."""

    id: str
    payload: Any  # Any: see Job
    label: str
    fragments: tuple[int, ...] = ()
    rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome:
    """How one attempt of a task ended: a result, or a problem in words.

    ``refusal`` is the error of a task that would fail again just the same, whatever runs it.
    """

    task_id: str
    result: Any = None  # Any: see Job
    problem: str | None = None
    retriable: bool = True
    refusal: LancewrightError | None = None
    details: str = field(default="", repr=False)

    @property
    def ok(self) -> bool:
        """True when the task wrote its result."""
        return self.problem is None


def run_task(job: Job, task: Task) -> TaskOutcome:
    """Run one task where it stands and report how it ended."""
    if job.package_version != __version__:
        error = UnsupportedError(
            f"The worker has lancewright {__version__}, the driver {job.package_version}",
            "Install the same version on the driver and on every executor.",
        )
        return TaskOutcome(task_id=task.id, problem=str(error), retriable=False, refusal=error)
    try:
        return TaskOutcome(task_id=task.id, result=job.worker(job.settings, task.payload))
    # A panic in Lance's Rust code arrives as a BaseException that is no Exception; it must not end the worker either.
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001
        return _failed(task, error)


def _failed(task: Task, error: BaseException) -> TaskOutcome:
    problem = str(error) if isinstance(error, LancewrightError) else f"{type(error).__name__}: {error}"
    trace = traceback.format_exception(error)[-_TRACE_LINES_MAX:]
    # What the caller has to mend fails again just the same; everything else may be the weather.
    refusal = error if isinstance(error, InvalidRequestError | UnsupportedError | ConflictError) else None
    return TaskOutcome(
        task_id=task.id,
        problem=problem.strip() or type(error).__name__,
        retriable=refusal is None,
        refusal=refusal,
        details="".join(trace),
    )
