"""Counts what searching a dataset takes: rows looked at, parts of indexes, requests and bytes. Decides nothing."""

from __future__ import annotations

import time
from dataclasses import astuple, dataclass
from typing import Any


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


class MeteredDataset:
    """A dataset whose scans are counted from now on; in all else it is the dataset."""

    def __init__(self, dataset: Any) -> None:  # Any: pylance's dataset is untyped
        """Forget what was read so far."""
        self._dataset = dataset
        self._scans: list[Any] = []  # Any: pylance's statistics of a scan
        self._started = time.perf_counter()
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
            read_requests=io.read_iops,
            read_bytes=io.read_bytes,
            seconds=time.perf_counter() - self._started,
        )
