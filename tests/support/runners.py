"""Runners for tests: the real local one with something happening in between, and one that must not be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewright.errors import TasksFailedError
from lancewright.runtime.local_runner import LocalRunner
from lancewright.runtime.task import TaskOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lancewright.runtime.exchange import ExchangeJob
    from lancewright.runtime.task import Job, Task

BUILD = "build_index_segment"
MERGE = "merge_index_segments"


class BusyRunner(LocalRunner):
    """Runs tasks for real. After each stage of build tasks another writer does what comes next in the list.

    Build tasks over a ``failing`` fragment are not run: they end as on a machine that breaks.
    """

    def __init__(
        self, acts: Iterable[Callable[[], object]] = (), *, failing: Iterable[int] = (), stage: str = BUILD
    ) -> None:
        super().__init__(threads=2)
        self._acts = list(acts)
        self._failing = set(failing)
        self._stage = stage

    def map(self, job: Job, tasks: Sequence[Task], on_outcome: Callable[[TaskOutcome], None]) -> None:
        """Run the tasks, then let the other writer commit."""
        busy = job.worker.__name__ == self._stage
        broken = [task for task in tasks if busy and not self._failing.isdisjoint(task.fragments)]
        super().map(job, [task for task in tasks if task not in broken], on_outcome)
        for task in broken:
            on_outcome(TaskOutcome(task_id=task.id, problem="the machine broke"))
        if busy and not broken and self._acts:
            self._acts.pop(0)()

    def exchange(
        self, job: ExchangeJob, tasks: Sequence[Task], on_outcome: Callable[[TaskOutcome], None]
    ) -> None:
        """A sort builds segments too, in one go: one broken task breaks all of it."""
        busy = self._stage == BUILD
        broken = [task for task in tasks if busy and not self._failing.isdisjoint(task.fragments)]
        if broken:
            raise TasksFailedError("the machine broke", "Mend it.", broken[0].fragments)
        super().exchange(job, tasks, on_outcome)
        if busy and self._acts:
            self._acts.pop(0)()


class UnusedRunner:
    """Stands for a Spark cluster that must not be bothered with a request that is wrong."""

    @property
    def parallelism(self) -> int:
        """Asking costs a Spark job."""
        raise AssertionError("the runner was asked for its parallelism")

    def map(self, *_asked: object) -> None:
        """Never runs anything."""
        raise AssertionError("the runner was asked to run tasks")
