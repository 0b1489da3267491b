"""Asks a large table for rows in several ways, interleaved; prints a table and JSON.

    python -m benchmarks.query --rows 100000000
    python -m benchmarks.query --planning 10000

Contenders: pylance in one process; a Spark scan with indexes off; the fan-out, one task for each fragment that opens the
index itself; lancewright. Every query is asked anew, files are in the page cache for all. Times are medians; ``over an empty
job`` subtracts a Spark job that does nothing, measured beside each query. The fan-out is slow and runs ``--fan-out-repeats``
times, and never for the widest range, in which each of its tasks would read a third of the index: at 100 million rows in 100
fragments that took more than five minutes. Look at the ratios, the machine is shared.

Vectors and texts lie in tables of their own (``--vectors``, ``--texts``): 100 million vectors of 64 floats would be 26 GB. Their
full scan is an exact search of every row, and of a copy of the texts without an index.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa

import lancewright as lw
from benchmarks.query_search import text_contenders, vector_contenders
from lancewright.spark.session import embedded_session
from lancewright.spark.worker_process import freeze_imports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

BATCH_ROWS = 1_000_000
KEY_MAX = 2**62
WIDEST = "range 30 %"


def main() -> None:
    """Run every query with every contender ``--repeats`` times and print what it took."""
    arguments = _arguments()
    folder = Path(arguments.folder or tempfile.mkdtemp(prefix="lancewright-bench-"))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = embedded_session(driver_memory="2g")
    if arguments.planning:
        _bench_planning(spark, folder, arguments)
    else:
        _bench_queries(spark, folder, arguments)
    spark.stop()
    if arguments.folder is None:
        shutil.rmtree(folder)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--fragments", type=int, default=100)
    parser.add_argument(
        "--vectors", type=int, default=500_000, help="rows of the table of vectors; 0 leaves it out"
    )
    parser.add_argument(
        "--texts", type=int, default=1_000_000, help="rows of the table of texts; 0 leaves it out"
    )
    parser.add_argument(
        "--search-fragments", type=int, default=100, help="fragments of the tables of vectors and texts"
    )
    parser.add_argument("--fan-out-repeats", type=int, default=1)
    parser.add_argument("--planning", type=int, help="plan over so many small fragments instead")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--queries", nargs="+", help="only these")
    parser.add_argument("--folder", help="keep tables here and use them again")
    return parser.parse_args()


def _bench_queries(spark: SparkSession, folder: Path, arguments: argparse.Namespace) -> None:
    started = time.perf_counter()
    uri = _write_table(folder / f"keys-{arguments.rows}-{arguments.fragments}.lance", arguments)
    _say(started, f"{arguments.rows:,} keys are there")
    table = lw.open(uri, spark=spark, progress=False)
    _index(table)
    _say(started, "and their B-tree")
    cold = _effort(table, _queries(uri)["point"])
    questions = {
        name: {
            contender: partial(run, sql) for contender, run in _contenders(spark, table, uri, name).items()
        }
        for name, sql in _queries(uri).items()
    }
    if arguments.vectors:
        questions["vector top 10"] = vector_contenders(
            spark, folder, arguments.vectors, arguments.search_fragments
        )
        _say(started, f"{arguments.vectors:,} vectors and their index")
    if arguments.texts:
        questions["text top 10"] = text_contenders(spark, folder, arguments.texts, arguments.search_fragments)
        _say(started, f"{arguments.texts:,} texts and their index")
    asked = {name: runs for name, runs in questions.items() if name in (arguments.queries or questions)}
    results: dict[str, dict[str, list[float]]] = {name: {} for name in asked}
    empty: list[float] = []
    for name, runs in asked.items():
        for run in (lambda: _empty_job(spark), runs["lancewright"]):
            run()  # once for the workers and the page cache
        for repeat in range(arguments.repeats):
            counts = set()
            for contender, run in runs.items():
                if contender == "fan-out" and repeat >= arguments.fan_out_repeats:
                    continue
                seconds, rows = _timed(run)
                results[name].setdefault(contender, []).append(seconds)
                counts.add(rows)
            assert len(counts) == 1, f"{name}: contenders disagree: {counts}"
            empty.append(_timed(partial(_empty_job, spark))[0])
        _say(started, f"asked {name}")
    queries = {name: sql for name, sql in _queries(uri).items() if name in asked}
    efforts = {name: _effort(table, sql) for name, sql in queries.items()}
    _print(arguments, results, statistics.median(empty), efforts)
    _judge(results, empty, efforts, cold)


def _say(started: float, words: str) -> None:
    print(f"{time.perf_counter() - started:7.1f} s  {words}", flush=True)


def _judge(
    results: dict[str, dict[str, list[float]]],
    empty: list[float],
    efforts: dict[str, dict[str, int]],
    cold: dict[str, int],
) -> None:
    """Say of every promise about point lookups and ranges whether it was kept."""
    medians = {
        name: {contender: statistics.median(seconds) for contender, seconds in runs.items()}
        for name, runs in results.items()
    }
    nothing = statistics.median(empty)
    promises: list[tuple[str, float, float]] = []
    if "point" in medians:
        point, effort = medians["point"], efforts["point"]
        promises += [
            ("point: seconds over an empty job, at most 0.15", point["lancewright"] - nothing, 0.15),
            ("point: tasks, at most 1", effort["tasks"], 1),
            ("point: pages, at most 3", effort["pages"], 3),
            (
                "point: bytes of a full scan's, at most 1/1,000",
                effort["bytes"] / effort["full scan bytes"],
                0.001,
            ),
            ("point: the same for the first query ever", cold["bytes"] / cold["full scan bytes"], 0.001),
            ("point: time of a full scan's, at most 1/5", point["lancewright"] / point["full scan"], 0.2),
            ("point: time of the fan-out's, at most 1/5", point["lancewright"] / point["fan-out"], 0.2),
        ]
    if WIDEST in medians:
        wide = medians[WIDEST]
        promises.append(
            ("range 30 %: time of a full scan's, at most 1.1", wide["lancewright"] / wide["full scan"], 1.1)
        )
    promises += [
        (f"{name}: time of the fan-out's, at most 1/5", runs["lancewright"] / runs["fan-out"], 0.2)
        for name, runs in medians.items()
        if name.endswith("top 10")
    ]
    for words, measured, limit in promises:
        print(f"  {'kept  ' if measured <= limit else 'BROKEN'}  {words}: {measured:.4f}")


def _queries(uri: str) -> dict[str, str]:
    dataset = lance.dataset(uri)
    places = np.random.default_rng(3).choice(dataset.count_rows(), 1000, replace=False)
    keys = dataset.take(np.sort(places), columns=["key"])["key"].to_pylist()
    return {
        "point": f"key = {keys[17]}",
        "in 1,000": f"key IN ({', '.join(map(str, keys))})",
        "range 0.01 %": f"key < {KEY_MAX // 10_000}",
        "range 1 %": f"key < {KEY_MAX // 100}",
        WIDEST: f"key < {KEY_MAX * 3 // 10}",
        "count 1 %": f"key < {KEY_MAX // 100}",
    }


def _contenders(spark: SparkSession, table: lw.Table, uri: str, name: str) -> dict[str, Callable[[str], int]]:
    if name.startswith("count"):
        return {
            "pylance": lambda sql: lance.dataset(uri).count_rows(sql),
            "full scan": lambda sql: table.scan(sql, use_indexes=False).count(),
            "fan-out": lambda sql: _fan_out(spark, uri, sql, []),
            "lancewright": lambda sql: table.scan(sql).count(),
        }
    columns = ["key"]
    found: dict[str, Callable[[str], int]] = {
        "pylance": lambda sql: lance.dataset(uri).to_table(columns=columns, filter=sql).num_rows,
        "full scan": lambda sql: _rows(table.scan(sql, columns=columns, use_indexes=False).to_spark()),
        "fan-out": lambda sql: _fan_out(spark, uri, sql, columns),
        "lancewright": lambda sql: _rows(table.scan(sql, columns=columns).to_spark()),
    }
    return {who: run for who, run in found.items() if who != "fan-out" or name != WIDEST}


def _rows(frame: Any) -> int:  # Any: a Spark frame, classic or Connect
    """Have every row made, in Spark's own count of the batches, without moving them to the driver."""
    return sum(row[0] for row in frame.mapInArrow(_lengths, "rows long").collect())


def _lengths(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]})


def _fan_out(spark: SparkSession, uri: str, sql: str, columns: list[str]) -> int:
    """One task for each fragment, each of which asks the index for itself."""
    fragments = [fragment.fragment_id for fragment in lance.dataset(uri).get_fragments()]
    frame = spark.createDataFrame([(fragment,) for fragment in fragments], "fragment int")
    frame = frame.repartitionById(len(fragments), "fragment")
    read = partial(_read_fragment, uri, sql, columns)
    return sum(row[0] for row in frame.mapInArrow(read, "rows long").collect())


def _read_fragment(
    uri: str, sql: str, columns: list[str], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    freeze_imports()
    for batch in batches:
        for fragment in batch.column("fragment").to_pylist():
            dataset = lance.dataset(uri)
            scanner = dataset.scanner(
                columns=columns, filter=sql, fragments=[dataset.get_fragment(fragment)], with_row_address=True
            )
            rows = sum(part.num_rows for part in scanner.to_batches())
            yield pa.RecordBatch.from_pydict({"rows": [rows]})


def _empty_job(spark: SparkSession) -> int:
    frame = spark.createDataFrame([(1, b"")], "number int, task binary").mapInArrow(_lengths, "rows long")
    return int(frame.collect()[0][0])


def _timed(run: Callable[[], int]) -> tuple[float, int]:
    started = time.perf_counter()
    rows = run()
    return time.perf_counter() - started, rows


def _effort(table: lw.Table, sql: str) -> dict[str, int]:
    ours = table.explain(sql, columns=["key"], analyze=True).measured
    full = table.scan(sql, columns=["key"], use_indexes=False).explain(analyze=True).measured
    assert ours is not None
    assert full is not None
    return {
        "tasks": ours.tasks,
        "pages": ours.pages,
        "bytes": ours.root_bytes + ours.index_bytes + ours.read_bytes,
        "full scan bytes": full.read_bytes,
    }


def _index(table: lw.Table) -> None:
    table.create_index("key", kind="btree", name="key_index", if_not_exists=True)


def _write_table(path: Path, arguments: argparse.Namespace) -> str:
    if not path.exists():
        batches = (_batch(number) for number in range(-(-arguments.rows // BATCH_ROWS)))
        lance.write_dataset(
            batches,
            str(path),
            schema=_batch(0).schema,
            max_rows_per_file=arguments.rows // arguments.fragments,
        )
    return str(path)


def _batch(number: int) -> pa.RecordBatch:
    keys = np.random.default_rng(number).integers(0, KEY_MAX, BATCH_ROWS)
    return pa.record_batch([pa.array(keys), pa.array(keys >> 20)], names=["key", "other"])


def _bench_planning(spark: SparkSession, folder: Path, arguments: argparse.Namespace) -> None:
    """How long it takes until the tasks of a point lookup are known, over many small fragments."""
    from lancewright.query.resolve import ScanRequest, plan_scan, resolve_scan
    from lancewright.table.location import table_ref

    path = folder / f"small-{arguments.planning}.lance"
    if not path.exists():
        keys = np.random.default_rng(1).permutation(arguments.planning * 10)
        lance.write_dataset(pa.table({"key": keys, "other": keys}), str(path), max_rows_per_file=10)
    _index(lw.open(str(path), spark=spark, progress=False))
    settings = ScanRequest(where="key = 4711", columns=("key",))
    runs: dict[str, list[float]] = {"plan": [], "ask and cut": []}
    for _ in range(max(3, arguments.repeats)):
        started = time.perf_counter()
        planned = plan_scan(table_ref(str(path)), settings, 2)
        middle = time.perf_counter()
        scan = resolve_scan(planned)
        runs["plan"].append(middle - started)
        runs["ask and cut"].append(time.perf_counter() - middle)
    result = {name: round(statistics.median(seconds), 3) for name, seconds in runs.items()}
    print(f"Planning a point lookup over {arguments.planning:,} fragments: {result}, {len(scan.tasks)} tasks")
    print(json.dumps({"fragments": arguments.planning, "seconds": result, "tasks": len(scan.tasks)}))


def _print(
    arguments: argparse.Namespace,
    results: dict[str, dict[str, list[float]]],
    empty: float,
    efforts: dict[str, dict[str, int]],
) -> None:
    medians = {
        name: {contender: statistics.median(seconds) for contender, seconds in runs.items()}
        for name, runs in results.items()
    }
    print(
        f"{arguments.rows:,} rows in {arguments.fragments} fragments, median of {arguments.repeats}; "
        f"an empty Spark job takes {empty:.3f} s"
    )
    print(
        f"{'query':<14}{'pylance s':>11}{'full scan s':>13}{'fan-out s':>11}{'lancewright s':>15}"
        f"{'times scan':>12}{'times fan-out':>15}{'tasks':>7}{'pages':>7}{'bytes of scan':>15}"
    )
    for name, median in medians.items():
        effort = efforts.get(name)
        ours, fan_out = median["lancewright"], median.get("fan-out", math.nan)
        print(
            f"{name:<14}{median['pylance']:>11.3f}{median['full scan']:>13.3f}{fan_out:>11.3f}{ours:>15.3f}"
            f"{median['full scan'] / ours:>12.2f}{fan_out / ours:>15.2f}"
            + (
                f"{effort['tasks']:>7}{effort['pages']:>7}{effort['bytes'] / max(1, effort['full scan bytes']):>15.6f}"
                if effort
                else ""
            )
        )
    print(
        json.dumps(
            {
                "rows": arguments.rows,
                "fragments": arguments.fragments,
                "empty_job_s": round(empty, 3),
                "median_s": {
                    name: {contender: round(seconds, 3) for contender, seconds in median.items()}
                    for name, median in medians.items()
                },
                "efforts": efforts,
            }
        )
    )


if __name__ == "__main__":
    main()
