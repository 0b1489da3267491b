"""Runs tasks in this process, for tests and small tables. It never grows features of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from lancewright.errors import LancewrightError, TasksFailedError
from lancewright.runtime.blob_files import BlobFiles
from lancewright.runtime.exchange import run_gather
from lancewright.runtime.task import run_task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from lancewright.runtime.exchange import ExchangeJob
    from lancewright.runtime.task import Job, Task, TaskOutcome


class LocalRunner:
    """Runs tasks on a few threads: Lance releases the interpreter lock while it works."""

    def __init__(self, threads: int = 2) -> None:
        """Keep the number of threads; start none yet."""
        self._threads = max(1, threads)

    @property
    def parallelism(self) -> int:
        """How many tasks run at the same time."""
        return self._threads

    def map(self, job: Job, tasks: Sequence[Task], on_outcome: Callable[[TaskOutcome], None]) -> None:
        """Run every task once; outcomes are reported from the calling thread."""
        with ThreadPoolExecutor(max_workers=self._threads) as pool:
            for future in as_completed([pool.submit(run_task, job, task) for task in tasks]):
                on_outcome(future.result())

    def exchange(
        self, job: ExchangeJob, tasks: Sequence[Task], on_outcome: Callable[[TaskOutcome], None]
    ) -> None:
        """Cut every task, keep the blobs in files of this machine, then gather partition by partition."""
        with TemporaryDirectory(prefix="lancewright-exchange-") as folder:
            files = BlobFiles(Path(folder))
            with ThreadPoolExecutor(max_workers=self._threads) as pool:
                _raise_failed([pool.submit(_cut_into, files, job, task) for task in tasks], tasks)
                gathers = [
                    pool.submit(run_gather, job, partition, files.read(partition))
                    for partition in files.partitions()
                ]
                for gather in as_completed(gathers):
                    on_outcome(gather.result())


def _cut_into(files: BlobFiles, job: ExchangeJob, task: Task) -> None:
    for partition, blob in job.cut(job.settings, task.payload):
        files.append(partition, blob)


def _raise_failed(cuts: Sequence[Future[None]], tasks: Sequence[Task]) -> None:
    """Wait for every cut and raise the first error, as the Spark runner does: one of ours, whatever went wrong."""
    for cut, task in zip(cuts, tasks, strict=True):
        error = cut.exception()
        if error is None:
            continue
        if isinstance(error, LancewrightError | KeyboardInterrupt | SystemExit):
            raise error
        raise TasksFailedError(
            f"Cutting fragments {list(task.fragments)[:10]} failed: {type(error).__name__}: {error}",
            "Mend the cause and run the same call again.",
            task.fragments,
        ) from error
