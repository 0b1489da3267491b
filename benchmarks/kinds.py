"""Asks indexes of our own kinds for rows, beside a full Spark scan and what else there is; prints tables and JSON.

    python -m benchmarks.kinds --rows 20000000
    python -m benchmarks.kinds --sections spatial

Every query is asked anew, files are in the page cache for all, times are medians. ``over an empty job`` subtracts a Spark job of the
same shape that does nothing, measured beside: one task for Python, whose rows a second step counts. The sections are in ``kinds_sorted`` and ``kinds_spatial``. DuckDB answers beside where it has an index for the
query (``kinds_duckdb``), in its own file and with as many threads as there are cores; it starts no job, so compare its seconds with ours.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lancewright as lw
from benchmarks import kinds_sorted, kinds_spatial
from benchmarks.query import _rows, _say, _timed
from lancewright.spark.session import embedded_session
from lancewright.spark.task_frame import make_task_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from benchmarks.kinds_spatial import Section

SECTIONS: dict[str, Callable[[Path, int, int], Section]] = {
    "composite": kinds_sorted.composite_section,
    "key": kinds_sorted.key_section,
    "spatial": kinds_spatial.spatial_section,
    "interval": kinds_spatial.interval_section,
}
TIMES_MIN = 5.0
BYTES_SHARE_MAX = 1 / 500


def main() -> None:
    """Run every section ``--repeats`` times and print what it took, and which promises were kept."""
    arguments = _arguments()
    folder = Path(arguments.folder or tempfile.mkdtemp(prefix="lancewright-bench-"))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = embedded_session(driver_memory="2g")
    for name in arguments.sections:
        _bench(spark, name, SECTIONS[name](folder, arguments.rows, arguments.fragments), arguments)
    spark.stop()
    if arguments.folder is None:
        shutil.rmtree(folder)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--fragments", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sections", nargs="+", default=list(SECTIONS), choices=list(SECTIONS))
    parser.add_argument("--folder", help="keep tables here and use them again")
    return parser.parse_args()


def _bench(spark: SparkSession, name: str, section: Section, arguments: argparse.Namespace) -> None:
    started = time.perf_counter()
    table = lw.open(section.uri, spark=spark, progress=False)
    built = []
    spark_cores = os.cpu_count() or 1
    there = {index.name for index in table.snapshot().indexes}
    for index, (kind, columns) in section.indexes.items():
        if index in there:
            continue
        seconds, _ = _timed(partial(_create, table, index, kind, columns))
        rate = arguments.rows / seconds / spark_cores
        built.append({"index": index, "seconds": seconds, "rows per second and core": rate})
    _say(started, f"{name}: {arguments.rows:,} rows, indexes {json.dumps(built)}")
    _timed(partial(_empty_job, spark))
    results = {query: _ask(spark, table, section, query, arguments.repeats) for query in section.queries}
    print(
        f"{'query':<26}{'rows':>8}{'full scan s':>13}{'lancewright s':>15}{'empty s':>9}{'times':>8}"
        f"{'bytes of scan':>15}  beside"
    )
    for query, found in results.items():
        print(
            f"{query:<26}{found['rows']:>8}{found['full scan']:>13.3f}{found['lancewright']:>15.3f}"
            f"{found['empty']:>9.3f}{found['times']:>8.1f}{found['bytes of scan']:>15.6f}  {found['beside']}"
        )
        if not query.startswith("wide"):
            _judge(query, found, reads_much=query in section.reads_much)
    if section.rows_per_second_and_core is not None:
        for one in built:
            rate = one["rows per second and core"]
            _tell(
                rate >= section.rows_per_second_and_core,
                f"{one['index']}: {rate:,.0f} rows a second and core",
            )
    print(json.dumps({"section": name, "rows": arguments.rows, "built": built, "queries": results}))


def _create(table: lw.Table, index: str, kind: str, columns: Any) -> int:  # Any: a name or several
    table.create_index(columns, kind=kind, name=index)
    return 0


def _ask(spark: SparkSession, table: lw.Table, section: Section, query: str, repeats: int) -> dict[str, Any]:
    sql = section.queries[query]
    contenders: dict[str, Callable[[], int]] = {
        "full scan": lambda: _rows(table.scan(sql, columns=["id"], use_indexes=False).to_spark()),
        "lancewright": lambda: _rows(table.scan(sql, columns=["id"]).to_spark()),
        "empty": lambda: _empty_job(spark),
    }
    contenders["lancewright"]()
    times: dict[str, list[float]] = {}
    counts = set()
    for _ in range(repeats):
        for contender, run in contenders.items():
            seconds, rows = _timed(run)
            times.setdefault(contender, []).append(seconds)
            if contender != "empty":
                counts.add(rows)
    asked = {other: run(query) for other, run in section.beside.items()}
    beside = {other: answer for other, answer in asked.items() if answer is not None}
    counts |= {rows for _, rows in beside.values()}
    assert len(counts) == 1, f"{query}: contenders disagree: {counts}"
    medians = {contender: statistics.median(seconds) for contender, seconds in times.items()}
    ours = table.explain(sql, columns=["id"], analyze=True).measured
    full = table.scan(sql, columns=["id"], use_indexes=False).explain(analyze=True).measured
    assert ours is not None
    assert full is not None
    over = max(1e-3, medians["lancewright"] - medians["empty"])
    return {
        **medians,
        "rows": counts.pop(),
        "times": (medians["full scan"] - medians["empty"]) / over,
        "bytes of scan": (ours.root_bytes + ours.index_bytes + ours.read_bytes) / max(1, full.read_bytes),
        "beside": {other: seconds for other, (seconds, _) in beside.items()},
    }


def _judge(query: str, found: dict[str, Any], *, reads_much: bool) -> None:
    _tell(found["times"] >= TIMES_MIN, f"{query}: {TIMES_MIN:.0f} times as fast over an empty job")
    if not reads_much:
        _tell(found["bytes of scan"] <= BYTES_SHARE_MAX, f"{query}: 1/500 of the bytes")


def _empty_job(spark: SparkSession) -> int:
    return _rows(make_task_frame(spark, [None]).mapInArrow(_pass_on, "number int, task binary"))


def _pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _tell(kept: object, promise: str) -> None:
    print(f"  {'kept  ' if kept else 'BROKEN'}  {promise}")


if __name__ == "__main__":
    main()
