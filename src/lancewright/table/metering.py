"""Counts what searching a dataset takes: rows looked at, parts of indexes, requests and bytes. Decides nothing."""

from __future__ import annotations

import threading
import time
from dataclasses import astuple, dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEffort:
    """What searching took.

    ``rows`` were looked at, by an index or one after the other; ``pages`` are the parts of an index that were loaded: partitions of
    vectors, lists of a word's texts.
    """

    rows: int = 0
    pages: int = 0
    read_requests: int = 0
    read_bytes: int = 0
    seconds: float = 0.0

    def __add__(self, other: SearchEffort) -> SearchEffort:
        """Both together."""
        rows, pages, requests, size, seconds = map(sum, zip(astuple(self), astuple(other), strict=True))
        return SearchEffort(
            rows=rows, pages=pages, read_requests=requests, read_bytes=size, seconds=float(seconds)
        )


class _Reads(threading.local):
    """What this thread read of the files of segments so far: a segment that is open serves many threads."""

    requests: int = 0
    size: int = 0


_SEGMENT_READS = _Reads()


class _Readable(Protocol):
    @property
    def identity(self) -> str: ...

    def upload(self, name: str, path: str) -> None: ...

    def read_range(self, name: str, start: int, length: int) -> bytes: ...


class MeteredPlace:
    """The files of a segment of our own kinds, whose reads count for what the thread is metering."""

    def __init__(self, place: _Readable) -> None:
        """Read from this place."""
        self._place = place

    @property
    def identity(self) -> str:
        """As the place has it."""
        return self._place.identity

    def upload(self, name: str, path: str) -> None:
        """Put a local file there."""
        self._place.upload(name, path)

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """Read bytes, and count them."""
        content = self._place.read_range(name, start, length)
        _SEGMENT_READS.requests += 1
        _SEGMENT_READS.size += len(content)
        return content


class MeteredDataset:
    """A dataset whose scans are counted from now on, with what this thread reads of segments; in all else it is the dataset."""

    def __init__(self, dataset: Any) -> None:  # Any: pylance's dataset is untyped
        """Forget what was read so far."""
        self._dataset = dataset
        self._scans: list[Any] = []  # Any: pylance's statistics of a scan
        self._started = time.perf_counter()
        self._reads = (_SEGMENT_READS.requests, _SEGMENT_READS.size)
        dataset.io_stats_incremental()

    def scanner(self, **options: Any) -> Any:  # Any: pylance's scanner and its options
        """A scanner that tells what it did."""
        return self._dataset.scanner(scan_stats_callback=self._scans.append, **options)

    def __getattr__(self, name: str) -> Any:  # Any: whatever the dataset has
        """Whatever else the dataset can do."""
        return getattr(self._dataset, name)

    def effort(self) -> SearchEffort:
        """What was done since the beginning; to be asked once."""
        io = self._dataset.io_stats_incremental()
        return SearchEffort(
            rows=sum(scan.index_comparisons + scan.all_counts.get("rows_scanned", 0) for scan in self._scans),
            pages=sum(scan.parts_loaded for scan in self._scans),
            read_requests=io.read_iops + _SEGMENT_READS.requests - self._reads[0],
            read_bytes=io.read_bytes + _SEGMENT_READS.size - self._reads[1],
            seconds=time.perf_counter() - self._started,
        )
