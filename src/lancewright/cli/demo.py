"""The demo: write a table, build its indexes on an embedded Spark, ask the same questions with and without them."""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

import lancewright.api as lw
from lancewright.cli.demo_data import SCHEMA, make_batches
from lancewright.model.request import IndexRequest
from lancewright.observe.events import StageFinished, StageStarted
from lancewright.report import tables
from lancewright.spark.session import embedded_session
from lancewright.table.location import TableRef, table_ref
from lancewright.table.native_queries import NativeQuery, explain_query, run_query
from lancewright.table.writing import write_new_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from lancewright.observe.events import Event

_ROWS_PER_FRAGMENT = 125_000
_Result = TypeVar("_Result")
_REPEATS = 3

REQUESTS = (
    IndexRequest(column="order_id", kind="btree"),
    IndexRequest(column="customer", kind="btree"),
    IndexRequest(column="ordered_at", kind="zonemap"),
    IndexRequest(column="status", kind="bitmap"),
    IndexRequest(column="tags", kind="label_list"),
    IndexRequest(column="note", kind="inverted"),
    IndexRequest(column="embedding", kind="ivf_pq", parameters={"num_partitions": 64, "num_sub_vectors": 16}),
)
QUERIES: tuple[tuple[str, NativeQuery], ...] = (
    ("one order by its id", NativeQuery(columns=("order_id", "amount"), predicate="order_id = 2654435761")),
    ("orders of one customer", NativeQuery(columns=("order_id",), predicate="customer = 'customer-4711'")),
    (
        "one minute of orders",
        NativeQuery(
            columns=("order_id",),
            predicate="ordered_at >= TIMESTAMP '2025-10-09 09:00:00' AND ordered_at < TIMESTAMP '2025-10-09 09:01:00'",
        ),
    ),
    (
        "lost and a gift",
        NativeQuery(columns=("order_id",), predicate="status = 'lost' AND array_has(tags, 'gift')"),
    ),
    (
        "ten notes about 'kakalo'",
        NativeQuery(columns=("order_id",), text="kakalo", text_column="note", limit=10),
    ),
)


def run_demo(
    rows: Annotated[int, typer.Option("--rows", help="Rows of the table.", min=10_000)] = 2_000_000,
    path: Annotated[str | None, typer.Option("--path", help="Where to write the table, and keep it.")] = None,
    master: Annotated[str, typer.Option("--master", help="Spark's master.")] = "local[*]",
) -> None:
    """Write a table, build seven indexes on an embedded Spark, and query with and without them."""
    folder = Path(path) if path else Path(tempfile.mkdtemp(prefix="lancewright-demo-"))
    table = table_ref(str(folder / "orders.lance"))
    # Before any dataset is opened: starting a JVM forks, and Lance must not be open in a process that forks.
    spark = _start_spark(master)
    try:
        _write(table, rows)
        _build(table, spark)
        _compare(table)
        _explain(table)
    finally:
        spark.stop()
        if path is None:
            shutil.rmtree(folder, ignore_errors=True)
    if path is None:
        _say("The table is removed. To keep one and look at it: lancewright demo --path FOLDER")
    else:
        _say(f"The table is kept at {table.name}. List its indexes: lancewright indexes {table.name}")


def _write(table: TableRef, rows: int) -> None:
    _say(f"Writing {rows:,} orders to {table.name}")
    seconds, _ = _timed(lambda: write_new_table(table, SCHEMA, make_batches(rows), _ROWS_PER_FRAGMENT))
    _say(f"  {seconds:.1f} s, {rows / seconds:,.0f} rows/s\n")


def _start_spark(master: str) -> Any:  # Any: pyspark is named only in spark/
    _say(f"Starting an embedded Spark on {master}")
    seconds, spark = _timed(lambda: embedded_session(master))
    _say(f"  {seconds:.1f} s\n")
    return spark


class _StageTimes:
    """Says of every stage of a build how many tasks it had and how long it took."""

    def __init__(self) -> None:
        self._started: dict[str, float] = {}

    def record(self, event: Event) -> None:
        if isinstance(event, StageStarted):
            self._started[event.stage] = time.monotonic()
        elif isinstance(event, StageFinished):
            seconds = time.monotonic() - self._started[event.stage]
            _say(f"  {event.stage:<6}{event.tasks:>3} tasks  {seconds:5.1f} s")


def _build(table: TableRef, spark: Any) -> None:
    _say(f"Building {len(REQUESTS)} indexes in one call")
    opened = lw.open(table.uri, spark=spark, sink=_StageTimes())
    _say(tables.render_text(tables.describe_plan(opened.plan_indexes(REQUESTS))) + "\n")
    receipt = opened.create_indexes(REQUESTS)
    _say("\n" + tables.render_text(tables.describe_receipt(receipt)))
    _say("\n" + repr(opened.indexes()) + "\n")


def _compare(table: TableRef) -> None:
    _say(f"The same questions without and with indexes (this process, median of {_REPEATS})")
    questions = (*QUERIES, ("ten nearest embeddings", _nearest_to_first(table)))
    rows = tuple(_compare_one(table, title, query) for title, query in questions)
    headings = ("question", "rows", "scan", "index", "times faster", "same answer")
    _say(tables.render_text(tables.Grid(title="", headings=headings, rows=rows)) + "\n")


def _nearest_to_first(table: TableRef) -> NativeQuery:
    first = run_query(table, NativeQuery(columns=("embedding",), limit=1), use_index=False)
    vector = tuple(first["embedding"][0].as_py())
    return NativeQuery(
        columns=("order_id",), vector=vector, vector_column="embedding", limit=10, refine_factor=10
    )


def _compare_one(table: TableRef, title: str, query: NativeQuery) -> tuple[str, ...]:
    with_index, found = _median(lambda: run_query(table, query, use_index=True))
    ids = set(found["order_id"].to_pylist())
    if query.text is not None:
        # Without an index Lance cannot rank text: a scan can only find the rows that hold the word.
        contains = NativeQuery(
            columns=query.columns, predicate=f"contains({query.text_column}, '{query.text}')"
        )
        scan, expected = _median(lambda: run_query(table, contains, use_index=False))
        held = len(ids & set(expected["order_id"].to_pylist()))
        same = f"{held} of {len(ids)} hold the word" if held == len(ids) else "NO"
    else:
        scan, expected = _median(lambda: run_query(table, query, use_index=False))
        same = _agreement(ids, set(expected["order_id"].to_pylist()), approximate=query.vector is not None)
    milliseconds = (f"{scan * 1e3:,.1f} ms", f"{with_index * 1e3:,.1f} ms")
    return (title, f"{found.num_rows:,}", *milliseconds, f"{scan / with_index:,.1f}", same)


def _agreement(found: set[int], expected: set[int], *, approximate: bool) -> str:
    if approximate:
        return f"{len(found & expected)} of {len(expected)} (approximate)"
    return "yes" if found == expected else "NO"


def _explain(table: TableRef) -> None:
    title, query = QUERIES[3]
    explained = lw.open(table.uri).explain(query.predicate or "", columns=query.columns)
    _say(f"How '{title}' is answered\n\nas lancewright plans it:\n{explained.to_text()}\n")
    _say(f"as Lance plans it:\n{explain_query(table, query)}")


def _median(work: Callable[[], _Result]) -> tuple[float, _Result]:
    runs = [_timed(work) for _ in range(_REPEATS)]
    return statistics.median(seconds for seconds, _ in runs), runs[0][1]


def _timed(work: Callable[[], _Result]) -> tuple[float, _Result]:
    started = time.monotonic()
    result = work()
    return time.monotonic() - started, result


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
