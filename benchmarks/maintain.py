"""Keeps an index true in several ways, interleaved, on the same table; prints tables and JSON.

    make bench-maintain ARGUMENTS="--rows 10000000"
    make bench-maintain ARGUMENTS="--sections merge catch_up"

- refresh: one per cent of the rows is appended. Contenders: building the index, refreshing it, and two empty Spark jobs, which is what a
  refresh of nothing costs. The rows read are checked.
- merge: many B-tree segments become one. Contenders: pylance's ``merge_existing_index_segments`` and ``table.merge``, on two cores each.
- catch_up: segments that wait for a deferred compaction are written anew, few of them and many, of the same rows. Contenders: pylance,
  one after the other, and ``table.catch_up``.
- idle: a run of ``maintain`` that finds nothing due. Contender: opening the table with pylance.

Every run has a copy of the table of its own, and the answers are compared afterwards. Start-up of Spark is not counted. The
figures are medians; look at the ratios, the machine is shared.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa

import lancewright as lw
from lancewright.runtime.task import Job, Task
from lancewright.spark.runner import SparkRunner
from lancewright.spark.session import embedded_session
from lancewright.table.lance_compat import segment_to_lance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from lancewright.model.index import Segment

CORES = 2
FRAGMENTS = 64
BATCH_ROWS = 500_000
ASKED = ("key < 2000000000000000", "key BETWEEN 7 AND 90000000000000000", "key IS NULL")
Contender = Callable[[lw.Table], object]


class Bench:
    """One table, of which every contender gets a copy as it was."""

    def __init__(self, folder: Path, rows: int, repeats: int) -> None:
        """Start Spark and write the table."""
        # Before Lance is opened: starting a JVM forks.
        self.spark: SparkSession = embedded_session(f"local[{CORES}]", driver_memory="2g")
        self.folder = folder
        self.uri = str(folder / "table.lance")
        self.rows = rows
        self.repeats = repeats
        lance.write_dataset(_batches(rows), self.uri, schema=_SCHEMA, max_rows_per_file=-(-rows // FRAGMENTS))
        self.table = self.open(self.uri)
        self.run_empty_jobs()

    def open(self, uri: str) -> lw.Table:
        """A table on Spark."""
        return lw.open(uri, spark=self.spark, progress=False)

    def run_empty_jobs(self, _table: lw.Table | None = None) -> None:
        """Two jobs of one task each that do nothing."""
        for _ in range(2):
            SparkRunner(self.spark).map(
                Job(worker=_do_nothing, settings=None), [Task(id="nothing", payload=None, label="")], _ignore
            )

    def interleave(self, contenders: dict[str, Contender]) -> dict[str, list[float]]:
        """Run every contender in turn, each on a copy; the seconds of each run. The answers have to be right."""
        seconds: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(self.repeats):
            for name, contender in contenders.items():
                copy = self.folder / "copy.lance"
                # A restored table would not do: its history does not tell what its segments hold.
                shutil.copytree(self.uri, copy, copy_function=_link)
                table = self.open(str(copy))
                started = time.perf_counter()
                contender(table)
                seconds[name].append(time.perf_counter() - started)
                _check(name, str(copy))
                shutil.rmtree(copy)
        return seconds

    def make_segments(self, count: int) -> None:
        """Give the table an index of so many segments."""
        self.table.create_index(
            "key", kind="btree", name="bench", layout="fragment", segments=count, replace=True
        )
        assert len(_segments(self.table)) == count


def bench_refresh(bench: Bench) -> None:
    """A refresh of one per cent, a build, and two empty jobs."""
    bench.table.create_index("key", kind="btree", name="bench")
    lance.write_dataset(_batches(bench.rows // 100, seed=9), bench.uri, mode="append")
    read: list[int] = []

    def refresh(table: lw.Table) -> None:
        (index,) = table.refresh().indexes
        assert (index.rewritten, index.rebuilt) == (0, 0), index
        read.append(index.rows)

    contenders: dict[str, Contender] = {
        "build": lambda table: table.create_index("key", kind="btree", name="bench", replace=True),
        "refresh": refresh,
        "two empty jobs": bench.run_empty_jobs,
    }
    seconds = bench.interleave(contenders)
    assert set(read) == {bench.rows // 100}, f"it read {read} rows"
    build, refreshed, empty = (statistics.median(seconds[name]) for name in contenders)
    _print(
        f"Refresh after 1 % more rows: {read[0]:,} rows read of {bench.rows:,}",
        seconds,
        {"over_and_above_of_build": (refreshed - empty) / build, "of_build": refreshed / build},
    )


def bench_merge(bench: Bench) -> None:
    """Many segments into one."""
    bench.make_segments(FRAGMENTS)

    def merge_with_pylance(table: lw.Table) -> None:
        dataset = lance.dataset(table.name)
        merged = dataset.merge_existing_index_segments(_lance_segments(table))
        dataset.commit_existing_index_segments("bench", "key", [merged])

    def merge(table: lw.Table) -> None:
        table.merge("bench", segments=1)
        assert len(_segments(table)) == 1

    seconds = bench.interleave({"pylance": merge_with_pylance, "lancewright": merge})
    ratio = statistics.median(seconds["lancewright"]) / statistics.median(seconds["pylance"])
    _print(
        f"Merge of {FRAGMENTS} B-tree segments of {bench.rows:,} rows into one",
        seconds,
        {"lancewright_of_pylance": ratio},
    )


def bench_catch_up(bench: Bench) -> None:
    """Segments that wait, few and many."""
    # Compacted once for all of them, an index would have nothing left to wait for.
    fresh = bench.folder / "fresh.lance"
    shutil.copytree(bench.uri, fresh, copy_function=_link)
    for count in (4, 16, FRAGMENTS // 2):
        shutil.rmtree(bench.uri)
        shutil.copytree(fresh, bench.uri, copy_function=_link)
        bench.make_segments(count)
        lance.dataset(bench.uri).optimize.compact_files(
            target_rows_per_fragment=2 * bench.rows // FRAGMENTS, defer_index_remap=True
        )

        def catch_up_with_pylance(table: lw.Table) -> None:
            dataset = lance.dataset(table.name)
            new = [dataset.merge_existing_index_segments([old]) for old in _lance_segments(table)]
            dataset.commit_existing_index_segments("bench", "key", new)

        def catch_up(table: lw.Table, count: int = count) -> None:
            (index,) = table.catch_up().indexes
            assert (index.rewritten, index.waiting) == (count, 0), index

        seconds = bench.interleave({"pylance": catch_up_with_pylance, "lancewright": catch_up})
        ours = statistics.median(seconds["lancewright"])
        _print(
            f"Catching up with {count} segments of {bench.rows:,} rows",
            seconds,
            {
                "lancewright_of_pylance": ours / statistics.median(seconds["pylance"]),
                "s_per_segment": ours / count,
            },
        )


def bench_idle(bench: Bench) -> None:
    """A run that finds nothing."""
    bench.make_segments(4)
    policy = lw.Policy(rows_per_fragment=bench.rows // FRAGMENTS, merge=False)
    bench.table.maintain(policy)

    def maintain(table: lw.Table) -> None:
        assert table.maintain(policy).steps == ()

    seconds = bench.interleave(
        {"open with pylance": lambda table: lance.dataset(table.name), "idle maintain": maintain}
    )
    idle, opened = (statistics.median(seconds[name]) for name in ("idle maintain", "open with pylance"))
    _print("A run that finds nothing due", seconds, {"idle_of_open": idle / opened})


SECTIONS = {"refresh": bench_refresh, "merge": bench_merge, "catch_up": bench_catch_up, "idle": bench_idle}


def main() -> None:
    """Run the sections asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sections", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    arguments = parser.parse_args()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for section in arguments.sections:
        folder = Path(tempfile.mkdtemp(prefix="lancewright-bench-"))
        bench = Bench(folder, arguments.rows, arguments.repeats)
        try:
            SECTIONS[section](bench)
        finally:
            bench.spark.stop()
            shutil.rmtree(folder)


def _segments(table: lw.Table) -> tuple[Segment, ...]:
    return table.snapshot().segments_named("bench")


def _lance_segments(table: lw.Table) -> list[Any]:  # Any: pylance ships no types for it
    return [segment_to_lance(segment) for segment in _segments(table)]


def _link(source: str, target: str) -> None:
    """Lance never writes to a file twice, but for its hint of the latest version."""
    (shutil.copy2 if "_versions" in source else os.link)(source, target)


def _check(name: str, uri: str) -> None:
    dataset = lance.dataset(uri)
    for where in ASKED:
        found, scanned = (
            dataset.scanner(filter=where, columns=["key"], use_scalar_index=asks).count_rows()
            for asks in (True, False)
        )
        assert found == scanned, f"{name}: {where}: {found} instead of {scanned}"


_SCHEMA = pa.schema([("key", pa.int64())])


def _batches(rows: int, seed: int = 0) -> pa.RecordBatchReader:
    def make() -> Iterator[pa.RecordBatch]:
        for start in range(0, rows, BATCH_ROWS):
            random = np.random.default_rng(seed * 1_000_003 + start)
            values = random.integers(0, 2**62, min(BATCH_ROWS, rows - start))
            yield pa.record_batch([pa.array(values)], schema=_SCHEMA)

    return pa.RecordBatchReader.from_batches(_SCHEMA, make())


def _do_nothing(_settings: object, _payload: object) -> None:
    """What an empty task does."""


def _ignore(_outcome: object) -> None:
    """Nobody asks."""


def _print(title: str, seconds: dict[str, list[float]], ratios: dict[str, float]) -> None:
    print(title)
    print(f"{'contender':<18}{'median s':>10}{'runs':>30}")
    for name, runs in seconds.items():
        shown = ", ".join(f"{run:.3f}" for run in runs)
        print(f"{name:<18}{statistics.median(runs):>10.3f}{shown:>30}")
    print("  ".join(f"{name} {value:.3f}" for name, value in ratios.items()))
    results = {name: [round(run, 4) for run in runs] for name, runs in seconds.items()}
    print(json.dumps({"title": title, "seconds": results, "ratios": ratios}), flush=True)


if __name__ == "__main__":
    # Under its own name, so that executors find the empty worker.
    importlib.import_module("benchmarks.maintain").main()
