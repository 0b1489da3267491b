"""What a runner is, and how a stage of tasks is run to its end through one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lancewright.errors import LancewrightError, TasksFailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lancewright.runtime.exchange import ExchangeJob
    from lancewright.runtime.task import Job, Task, TaskOutcome

ATTEMPTS_MAX = 3
_FRAGMENTS_SHOWN_MAX = 20


class Runner(Protocol):
    """Runs the tasks of a job somewhere. One method does the work."""

    @property
    def parallelism(self) -> int:
        """How many tasks run at the same time."""
        ...

    def map(self, job: Job, tasks: Sequence[Task], on_outcome: Callable[[TaskOutcome], None]) -> None:
        """Run every task once and report each outcome, in any order; raise only if the job as a whole cannot run."""
        ...

    def exchange(
        self, job: ExchangeJob, tasks: Sequence[Task], on_outcome: Callable[[TaskOutcome], None]
    ) -> None:
        """Run every cut, carry the blobs, run one gather per partition and report each one's outcome.

        A partition nobody sent anything to may stay silent. Raises when the exchange as a whole cannot run.
        """
        ...


def run_tasks(
    runner: Runner,
    job: Job,
    tasks: Sequence[Task],
    on_outcome: Callable[[Task, TaskOutcome, int], None],
    attempts_max: int = ATTEMPTS_MAX,
) -> dict[str, TaskOutcome]:
    """Run tasks until all are done, trying failed ones again; raise TasksFailedError naming what is left.

    When every task that is left was refused for the same kind of reason, that error is raised as it is.

    ``on_outcome`` hears of every attempt with its number. Finished tasks are never run again.
    """
    by_id = {task.id: task for task in tasks}
    done: dict[str, TaskOutcome] = {}
    failed: dict[str, TaskOutcome] = {}
    for attempt in range(1, attempts_max + 1):
        left = [task for task in tasks if task.id not in done and _may_run(failed.get(task.id))]
        if not left:
            break

        def keep(outcome: TaskOutcome, attempt: int = attempt) -> None:
            if outcome.task_id in done:
                return
            (done if outcome.ok else failed)[outcome.task_id] = outcome
            on_outcome(by_id[outcome.task_id], outcome, attempt)

        runner.map(job, left, keep)
    missing = [task for task in tasks if task.id not in done]
    if missing:
        raise _tasks_failed(missing, failed, len(tasks))
    return done


def ignore_outcome(task: Task, outcome: TaskOutcome, attempt: int) -> None:
    """For callers that tell of a stage as a whole, or for whom its tasks are no progress worth an event."""


def _may_run(last: TaskOutcome | None) -> bool:
    return last is None or last.retriable


def _tasks_failed(missing: Sequence[Task], failed: dict[str, TaskOutcome], total: int) -> LancewrightError:
    error = _common_refusal(missing, failed) or _many_problems(missing, failed, total)
    details = next((failed[task.id].details for task in missing if task.id in failed), "")
    if details:
        error.add_note(details)
    return error


def _common_refusal(missing: Sequence[Task], failed: dict[str, TaskOutcome]) -> LancewrightError | None:
    refusals = [failed[task.id].refusal if task.id in failed else None for task in missing]
    return refusals[0] if len({type(refusal) for refusal in refusals}) == 1 else None


def _many_problems(missing: Sequence[Task], failed: dict[str, TaskOutcome], total: int) -> TasksFailedError:
    fragments = tuple(sorted({fragment for task in missing for fragment in task.fragments}))
    first = next((failed[task.id] for task in missing if task.id in failed), None)
    problem = first.problem if first is not None and first.problem else "no outcome arrived"
    shown = ", ".join(str(fragment) for fragment in fragments[:_FRAGMENTS_SHOWN_MAX])
    more = (
        f" and {len(fragments) - _FRAGMENTS_SHOWN_MAX} more" if len(fragments) > _FRAGMENTS_SHOWN_MAX else ""
    )
    return TasksFailedError(
        f"{len(missing)} of {total} tasks failed, on fragments {shown or 'none'}{more}: {problem}",
        "Mend the cause and run the same call again: finished tasks are kept and not repeated.",
        fragments,
    )
