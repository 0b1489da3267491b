"""Builds a B-tree over one column in several ways, interleaved, on the same table; prints a table and JSON.

    make bench-btree ARGUMENTS="--rows 100000000 --data int64"
    make bench-btree ARGUMENTS="--lookup"
    make bench-btree ARGUMENTS="--every-family"

Contenders: pylance in one process; lance-ray with a worker per core; the row-based range sort of Spark, which turns every
value into a row of the JVM; lancewright's two layouts on an embedded Spark. Each run is a process of its own, in which the
contender first builds the same index on a small table: starting Spark or Ray, and loading their classes, is not counted, for
anybody (``--cold`` leaves that build out). The figures are medians; look at the ratios, the machine is shared.

lance-ray pins other versions than Spark needs, so it runs in an environment of its own:
``python -m venv bench && bench/bin/pip install pylance==14.0.2 lance-ray``, then ``--ray-python bench/bin/python``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa

from benchmarks.processes import Usage, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

BATCH_ROWS = 1_000_000
# Two key ranges, so that every step of a large build is taken once.
WARM_ROWS = 5_000_000
FRAGMENTS = 100
DATA = ("int64", "int32", "timestamp", "zipf", "uuid", "short", "decimal")
LOOKUP_ROWS, LOOKUP_RANGES = 10_000_000_000, 1_000
LOOKUPS = 9


def main() -> None:
    """Run every contender ``--repeats`` times and print what it took."""
    arguments = _arguments()
    if arguments.run:
        print(json.dumps(_run_one(arguments.run, arguments.table, arguments.warm)))
        return
    if arguments.lookup:
        from benchmarks.lookup import bench_lookup

        bench_lookup(LOOKUP_ROWS, LOOKUP_RANGES, arguments.repeats)
        return
    folder = Path(arguments.folder or tempfile.mkdtemp(prefix="lancewright-bench-"))
    for data in DATA if arguments.every_family else [arguments.data]:
        _bench(arguments, folder, data)
    if arguments.folder is None:
        shutil.rmtree(folder)


def _bench(arguments: argparse.Namespace, folder: Path, data: str) -> None:
    table = _write_table(folder / f"{data}-{arguments.rows}.lance", data, arguments.rows)
    arguments.warm = None if arguments.cold else _write_table(folder / f"{data}-warm.lance", data, WARM_ROWS)
    contenders = arguments.contenders or _contenders(arguments)
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in contenders}
    for _ in range(arguments.repeats):
        for name in contenders:
            results[name].append(_run_apart(arguments, name, table))
    _print(arguments, data, {name: _summarise(runs) for name, runs in results.items()})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--data", choices=DATA, default="int64")
    parser.add_argument("--every-family", action="store_true", help="all kinds of data, one after the other")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", help="keep tables here and use them again")
    parser.add_argument(
        "--contenders", nargs="+", choices=list(_RUNS), help="all of them, if --ray-python is given"
    )
    parser.add_argument("--ray-python", help="an interpreter that has lance-ray")
    parser.add_argument("--lookup", action="store_true", help="merge the lookups of 10 billion rows instead")
    parser.add_argument("--cold", action="store_true", help="measure the first build of a process")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--table", help=argparse.SUPPRESS)
    parser.add_argument("--warm", help=argparse.SUPPRESS)
    return parser.parse_args()


def _contenders(arguments: argparse.Namespace) -> list[str]:
    return [name for name in _RUNS if name != "lance-ray" or arguments.ray_python]


def _run_apart(arguments: argparse.Namespace, contender: str, table: str) -> dict[str, Any]:
    python = arguments.ray_python if contender == "lance-ray" else sys.executable
    if python is None:
        raise SystemExit("lance-ray runs in an environment of its own: pass --ray-python")
    command = [python, "-m", "benchmarks.btree", "--run", contender, "--table", table]
    command += ["--warm", arguments.warm] if arguments.warm else []
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        cwd=Path(__file__).parents[1],
    )
    if done.returncode:
        raise SystemExit(f"{contender} failed:\n{done.stderr[-3000:]}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def _run_one(contender: str, table: str, warm: str | None) -> dict[str, Any]:
    usage = _RUNS[contender](contender, [warm, table] if warm else [table])
    dataset = lance.dataset(table)
    segments = len(dataset.describe_indices()[0].segments)
    pages = _pages_per_lookup(dataset)
    for built in filter(None, [warm, table]):
        _forget(built)
    return {
        "wall_s": usage.wall_s,
        "cpu_s": usage.cpu_s,
        "peak_mib": usage.python_peak_mib,
        "segments": segments,
        "pages_per_lookup": pages,
    }


def _forget(table: str) -> None:
    """Leave nothing that the next contender would find: nobody else works on this table."""
    lance.dataset(table).drop_index("bench")
    lance.dataset(table).cleanup_old_versions(delete_unverified=True, older_than=timedelta(0))


def _measure_last(tables: Sequence[str], build: Callable[[str], object]) -> Usage:
    for table in tables[:-1]:
        build(table)
    with measure() as usage:
        build(tables[-1])
    return usage


def _pages_per_lookup(dataset: lance.LanceDataset) -> float:
    """Pages read for one key that is there, with the lookup warm: the median over some keys."""
    count = dataset.count_rows()
    places = [1 + place * count // (LOOKUPS + 2) for place in range(LOOKUPS + 1)]
    keys = dataset.take(places, columns=["key"])["key"]
    pages = []
    for key in keys:
        seen: list[Any] = []
        where = pa.compute.equal(pa.compute.field("key"), key)
        dataset.scanner(
            columns=[], filter=where, with_row_id=True, scan_stats_callback=seen.append
        ).to_table()
        pages.append(seen[0].parts_loaded)
    return statistics.median(pages[1:])


def _pylance(_contender: str, tables: Sequence[str]) -> Usage:
    return _measure_last(
        tables, lambda table: lance.dataset(table).create_scalar_index("key", "BTREE", name="bench")
    )


def _ray(_contender: str, tables: Sequence[str]) -> Usage:
    import lance_ray
    import ray

    workers = os.cpu_count() or 1
    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
    ray.get([ray.remote(_import_lance).remote() for _ in range(workers)])
    usage = _measure_last(
        tables,
        lambda table: lance_ray.create_scalar_index(
            table, column="key", index_type="BTREE", name="bench", num_workers=workers
        ),
    )
    ray.shutdown()
    return usage


def _import_lance() -> str:
    return str(lance.__version__)


def _rows(_contender: str, tables: Sequence[str]) -> Usage:
    from benchmarks.row_sort import build_by_rows
    from lancewright.spark.session import embedded_session

    spark = embedded_session(driver_memory="4g")
    _start_workers(spark)
    usage = _measure_last(tables, lambda table: build_by_rows(spark, table, "key", "bench"))
    spark.stop()
    return usage


def _ours(contender: str, tables: Sequence[str]) -> Usage:
    import lancewright as lw
    from lancewright.spark.session import embedded_session

    spark = embedded_session(driver_memory="2g")
    _start_workers(spark)
    usage = _measure_last(
        tables,
        lambda table: lw.open(table, spark=spark, progress=False).create_index(
            "key", kind="btree", name="bench", layout=contender
        ),
    )
    spark.stop()
    return usage


def _start_workers(spark: SparkSession) -> None:
    """Have every Python worker started, with Lance imported, as Ray's are."""
    tasks = spark.range(64, numPartitions=os.cpu_count()).mapInArrow(_touch, "version string")
    tasks.repartition(os.cpu_count() or 1).count()


def _touch(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"version": [_import_lance()]})


_RUNS = {"pylance": _pylance, "lance-ray": _ray, "rows": _rows, "fragment": _ours, "range": _ours}


def _write_table(path: Path, data: str, rows: int) -> str:
    if not path.exists():
        batches = (_batch(data, number) for number in range(-(-rows // BATCH_ROWS)))
        schema = _batch(data, 0).schema
        lance.write_dataset(
            batches, str(path), schema=schema, max_rows_per_file=max(BATCH_ROWS, rows // FRAGMENTS)
        )
    return str(path)


def _batch(data: str, number: int) -> pa.RecordBatch:
    random = np.random.default_rng(number)
    wide = random.integers(0, 2**62, BATCH_ROWS)
    values = {
        "int64": lambda: pa.array(wide),
        "int32": lambda: pa.array((wide >> 31).astype("i4")),
        "timestamp": lambda: pa.array(1_700_000_000_000_000 + wide % 10**15).cast(pa.timestamp("us")),
        "zipf": lambda: pa.array(random.zipf(1.3, BATCH_ROWS) % 2**31),
        "uuid": lambda: pa.array(
            [f"{value:016x}-0000-4000-8000-{value % 10**9:011d}" for value in wide.tolist()]
        ),
        "short": lambda: pa.array([f"{value:x}"[: 10 + value % 11] for value in (wide * 7).tolist()]),
        "decimal": lambda: pa.array(wide).cast(pa.decimal128(38, 0)),
    }[data]()
    return pa.record_batch([values], names=["key"])


def _summarise(runs: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "wall_s": round(statistics.median(run["wall_s"] for run in runs), 2),
        "cpu_s": round(statistics.median(run["cpu_s"] for run in runs), 2),
        "peak_mib": round(max(run["peak_mib"] for run in runs)),
        "segments": runs[-1]["segments"],
        "pages_per_lookup": runs[-1]["pages_per_lookup"],
        "runs_s": [round(run["wall_s"], 2) for run in runs],
    }


def _print(arguments: argparse.Namespace, data: str, results: dict[str, dict[str, Any]]) -> None:
    base = results.get("pylance", next(iter(results.values())))
    start = "first build of a process" if arguments.cold else "after a small build in the same process"
    print(f"B-tree over {arguments.rows:,} rows of {data}, {start}, median of {arguments.repeats}")
    print(
        f"{'contender':<12}{'wall s':>9}{'CPU s':>9}{'peak MiB':>10}{'segments':>10}{'pages/key':>11}"
        f"{'ns/row':>8}{'times pylance':>15}"
    )
    for name, result in results.items():
        per_row = result["wall_s"] / arguments.rows * 1e9
        print(
            f"{name:<12}{result['wall_s']:>9.2f}{result['cpu_s']:>9.2f}{result['peak_mib']:>10}"
            f"{result['segments']:>10}{result['pages_per_lookup']:>11.0f}{per_row:>8.0f}"
            f"{base['wall_s'] / result['wall_s']:>15.2f}"
        )
    print(json.dumps({"rows": arguments.rows, "data": data, "results": results}), flush=True)


if __name__ == "__main__":
    main()
