"""The envelope of a shuffle: map tasks cut blobs by partition, gather tasks receive all blobs of one partition.

Blobs are opaque and large; the runner carries them. A failing cut fails the whole exchange, because the other partitions
cannot know what they miss; a failing gather is an outcome like any task's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lancewright.runtime.task import Job, Task, TaskOutcome, run_task
from lancewright.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeJob:
    """Two top-level functions and what they share.

    ``cut(settings, payload)`` yields (partition, blob); ``gather(settings, partition, blobs)`` returns a result.
    """

    cut: Callable[
        [Any, Any], Iterator[tuple[int, bytes]]
    ]  # Any: settings and payload belong to the job's author
    gather: Callable[[Any, int, Iterable[pa.Buffer]], Any]
    settings: Any
    partitions: int
    package_version: str = __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathering:
    """What a gather task works on, as a task of the ordinary envelope."""

    partition: int
    blobs: Iterable[pa.Buffer]
    job: ExchangeJob


def run_gather(job: ExchangeJob, partition: int, blobs: Iterable[pa.Buffer]) -> TaskOutcome:
    """Gather one partition where it stands."""
    inner = Job(worker=_gather, settings=job.settings, package_version=job.package_version)
    payload = Gathering(partition=partition, blobs=blobs, job=job)
    return run_task(inner, Task(id=f"gather-{partition}", payload=payload, label="gather"))


def _gather(settings: Any, gathering: Gathering) -> Any:  # Any: see ExchangeJob
    return gathering.job.gather(settings, gathering.partition, gathering.blobs)
