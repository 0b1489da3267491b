"""Runs a resolved scan through a runner: its rows on the driver, or how many they are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from lancewright.query.worker import ScanJob, count_task, fetch_task, measure_task
from lancewright.runtime.runner import ignore_outcome, run_tasks
from lancewright.runtime.task import Job, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lancewright.query.resolve import ResolvedScan
    from lancewright.query.tasks import ScanTask
    from lancewright.runtime.runner import Runner
    from lancewright.table.row_reader import ReadEffort

# With a limit, tasks run in waves, each so many times as large as the one before.
_WAVE_GROWTH = 4
Result = TypeVar("Result")


def run_scan(scan: ResolvedScan, runner: Runner) -> pa.Table:
    """The rows, in the order of the tasks."""
    schema = scan.schema()
    tables: list[pa.Table] = []
    limit = scan.job.limit
    for wave in _waves(scan.tasks, runner.parallelism, limited=limit is not None):
        left = None if limit is None else limit - sum(table.num_rows for table in tables)
        if left is not None and left <= 0:
            break
        job = replace(scan.job, limit=left)
        streams = _run(wave, job, runner, fetch_task)
        tables += [pa.ipc.open_stream(stream).read_all() for stream in streams if stream]
    # Lance names metadata of a schema differently from scan to scan; the columns are the same.
    whole = pa.concat_tables([table.cast(schema) for table in tables]) if tables else schema.empty_table()
    return whole if limit is None else whole.slice(0, limit)


def count_scan(scan: ResolvedScan, runner: Runner) -> int:
    """How many rows there are; those that an index named for sure are not read."""
    # A task with neither a row set nor a filter has all the rows its fragments have.
    known = [task for task in scan.tasks if task.filter is None]
    asked = [task for task in scan.tasks if task.filter is not None]
    job = replace(scan.job, columns=(), with_row_id=False, with_row_address=False, limit=None)
    counted = sum(_run(asked, job, runner, count_task)) if asked else 0
    total = sum(task.row_count for task in known) + counted
    return total if scan.job.limit is None else min(total, scan.job.limit)


def measure_scan(scan: ResolvedScan, runner: Runner) -> tuple[ReadEffort, ...]:
    """What reading its rows takes, for each task; the rows are not kept."""
    return tuple(_run(scan.tasks, scan.job, runner, measure_task)) if scan.tasks else ()


def _waves(tasks: Sequence[ScanTask], parallelism: int, *, limited: bool) -> Iterator[Sequence[ScanTask]]:
    start, size = 0, max(1, parallelism) if limited else len(tasks)
    while start < len(tasks):
        yield tasks[start : start + size]
        start, size = start + size, size * _WAVE_GROWTH


def _run(
    scan_tasks: Sequence[ScanTask],
    job: ScanJob,
    runner: Runner,
    worker: Callable[[ScanJob, ScanTask], Result],
) -> list[Result]:
    tasks = [
        Task(id=str(number), payload=task, label="scan", fragments=task.fragments, rows=task.row_count)
        for number, task in enumerate(scan_tasks)
    ]
    outcomes = run_tasks(runner, Job(worker=worker, settings=job), tasks, ignore_outcome)
    return [outcomes[task.id].result for task in tasks]
