"""What travels to every executor is small: a function's name and frozen settings, never fragments or models."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import cloudpickle
import lance
import numpy as np
import pytest

import lancewright as lw
from lancewright.runtime.local_runner import LocalRunner
from lancewright.spark.exchange import run_cuts
from lancewright.spark.runner import worker_function
from support.tables import DIMENSION, rows, write_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lancewright.runtime.exchange import ExchangeJob
    from lancewright.runtime.task import Job, Task, TaskOutcome

JOB_BYTES_MAX = 4096
TASK_BYTES_MAX = 4096


@dataclass
class MeasuringRunner(LocalRunner):
    """Runs tasks in this process and keeps what Spark would have sent for them."""

    parallelism: int = 2  # type: ignore[misc] # a field in place of the property
    jobs: list[bytes] = field(default_factory=list)
    tasks: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(threads=2)

    def map(self, job: Job, tasks: Sequence[Task], on_outcome: Callable[[TaskOutcome], None]) -> None:
        self.jobs.append(cloudpickle.dumps(worker_function(job)))
        self.tasks.extend(pickle.dumps(task) for task in tasks)
        super().map(job, tasks, on_outcome)

    def exchange(
        self, job: ExchangeJob, tasks: Sequence[Task], on_outcome: Callable[[TaskOutcome], None]
    ) -> None:
        self.jobs.append(cloudpickle.dumps(partial(run_cuts, job)))
        self.tasks.extend(pickle.dumps(task) for task in tasks)
        super().exchange(job, tasks, on_outcome)


def _measure(uri: str, requests: Sequence[lw.IndexRequest], **options: object) -> MeasuringRunner:
    runner = MeasuringRunner()
    lw.open(uri, runner=runner, progress=False, **options).create_indexes(requests)
    return runner


@pytest.mark.parametrize("kind", ["btree", "inverted"])
def test_a_job_is_small_whatever_the_number_of_fragments(tmp_path: Path, kind: str) -> None:
    """A table of 200 fragments sends the job of a table of 2; only the folder's name differs."""
    column = {"btree": "number", "inverted": "text"}[kind]
    sizes = {}
    for fragments in (2, 200):
        uri = str(tmp_path / f"{fragments:03}.lance")
        write_table(uri, fragments=fragments, rows_per_fragment=10)
        sizes[fragments] = _measure(uri, [lw.IndexRequest(column=column, kind=kind)]).jobs

    assert max(len(job) for jobs in sizes.values() for job in jobs) < JOB_BYTES_MAX
    assert abs(len(sizes[2][0]) - len(sizes[200][0])) < 32


@pytest.mark.parametrize("given", [False, True], ids=["trained", "given"])
def test_a_model_travels_in_a_file_and_not_in_the_job(tmp_path: Path, given: bool) -> None:
    """32 KB of centroids change neither job nor tasks."""
    uri = str(tmp_path / "table.lance")
    write_table(uri, rows_per_fragment=200)
    centroids = np.random.default_rng(0).normal(size=(512, DIMENSION)).astype("f4")
    parameters = {"ivf_centroids": centroids} if given else {"num_partitions": 512, "sample_rate": 2}

    runner = _measure(uri, [lw.IndexRequest(column="vector", kind="ivf_flat", parameters=parameters)])

    assert len(runner.jobs) == 3  # train, build, merge
    assert max(len(job) for job in runner.jobs) < JOB_BYTES_MAX
    assert max(len(task) for task in runner.tasks) < TASK_BYTES_MAX


@pytest.mark.parametrize("kind", ["btree", "bitmap"])
def test_a_job_grows_by_its_indexes_and_its_credentials_and_by_nothing_else(
    tmp_path: Path, kind: str
) -> None:
    """Some hundred bytes for one more index, and the length of the options themselves."""
    uri = str(tmp_path / "table.lance")
    write_table(uri, rows_per_fragment=20)
    one = [lw.IndexRequest(column="number", kind=kind, replace=True)]
    two = [*one, lw.IndexRequest(column="category", kind=kind, replace=True)]
    options = {"aws_session_token": "t" * 1000}

    alone = len(_measure(uri, one).jobs[0])
    both = len(_measure(uri, two).jobs[0])
    with_options = len(_measure(uri, one, storage_options=options).jobs[0])

    assert both - alone < 1000
    assert 1000 <= with_options - alone < 1100


def test_a_build_task_is_small_even_over_many_fragments(tmp_path: Path) -> None:
    """A task lists its fragments by number, twice, and nothing else about them."""
    uri = str(tmp_path / "table.lance")
    lance.write_dataset(rows(1_000), uri, max_rows_per_file=2)

    runner = _measure(uri, [lw.IndexRequest(column="number", kind="btree")])

    assert max(len(task) for task in runner.tasks) < TASK_BYTES_MAX
