"""Runs one stage of a build through the runner and tells of every task as it ends."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancewright.build.spec import TrainWork, Written
from lancewright.build.watch import POLL_S, JournalWatch
from lancewright.observe.events import ModelTrained, StageFinished, StageStarted, TaskFailed, TaskFinished
from lancewright.runtime.runner import ATTEMPTS_MAX, run_tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lancewright.build.journal import Journal
    from lancewright.build.spec import IndexSpec
    from lancewright.observe.sinks import Sink
    from lancewright.runtime.runner import Runner
    from lancewright.runtime.task import Job, Task, TaskOutcome
    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildContext:
    """What every stage needs: where the table is, who runs tasks, where facts and finished work are kept."""

    table: TableRef
    runner: Runner
    sink: Sink
    journal: Journal
    attempts_max: int = ATTEMPTS_MAX
    poll_s: float = POLL_S


def run_stage(context: BuildContext, stage: str, job: Job, tasks: Sequence[Task]) -> list[Written]:
    """Run every task to its end, trying again what failed; return what was written."""
    if not tasks:
        return []
    job_id = context.journal.build_id
    rows = sum(task.rows for task in tasks)
    context.sink.record(StageStarted(job_id=job_id, stage=stage, tasks=len(tasks), rows=rows))
    report = _StageReport(context, stage, job, tasks)
    with JournalWatch(context.journal, report.written, context.poll_s):
        outcomes = run_tasks(context.runner, job, tasks, report.outcome, context.attempts_max)
    context.sink.record(StageFinished(job_id=job_id, stage=stage, tasks=len(tasks)))
    return [outcome.result for outcome in outcomes.values() if isinstance(outcome.result, Written)]


class _StageReport:
    """Turns outcomes and journal records into events; a task seen both ways is told once."""

    def __init__(self, context: BuildContext, stage: str, job: Job, tasks: Sequence[Task]) -> None:
        self._context = context
        self._stage = stage
        self._job = job
        self._tasks = {task.id: task for task in tasks}
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def written(self, written: Written) -> None:
        """A record appeared in the journal."""
        task = self._tasks.get(written.task_id)
        if task is not None:
            self._tell_finished(task, written.seconds)

    def outcome(self, task: Task, outcome: TaskOutcome, attempt: int) -> None:
        """The runner handed an outcome over."""
        if not outcome.ok:
            self._tell_failed(task, outcome, attempt)
            return
        result = outcome.result
        self._tell_finished(task, result.seconds if isinstance(result, Written) else 0.0)
        if isinstance(task.payload, TrainWork):
            self._tell_trained(self._job.settings.specs[task.payload.spec_number], result)

    def _tell_finished(self, task: Task, seconds: float) -> None:
        with self._lock:
            if task.id in self._told:
                return
            self._told.add(task.id)
            self._context.sink.record(
                TaskFinished(
                    job_id=self._context.journal.build_id,
                    stage=self._stage,
                    task_id=task.id,
                    index=task.label,
                    fragments=task.fragments,
                    rows=task.rows,
                    seconds=seconds,
                )
            )

    def _tell_failed(self, task: Task, outcome: TaskOutcome, attempt: int) -> None:
        self._context.sink.record(
            TaskFailed(
                job_id=self._context.journal.build_id,
                stage=self._stage,
                task_id=task.id,
                index=task.label,
                fragments=task.fragments,
                attempt=attempt,
                attempts_max=self._context.attempts_max,
                problem=outcome.problem or "",
            )
        )

    def _tell_trained(self, spec: IndexSpec, size_bytes: int) -> None:
        self._context.sink.record(
            ModelTrained(
                job_id=self._context.journal.build_id,
                index=spec.name,
                kind=spec.kind,
                size_bytes=size_bytes,
                given=spec.given_model_path is not None,
            )
        )
