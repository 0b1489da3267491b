"""Runs a nearest-neighbour join on Spark: the queries stay a frame, and neither they nor the answer pass through the driver.

Two shuffles of binary cells: batches of vectors to the parts of the table, then what each part found to the merge. A task stays
with one part, so that it opens that part's segments once for all the batches it is given.
"""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewright.query.search.join import JoinCell, cut_queries, measure_cells, merge_cells, search_cell
from lancewright.spark.arrow_types import spark_arrow_schema, to_spark_form, to_spark_schema
from lancewright.spark.worker_process import freeze_imports
from lancewright.table.opening import open_dataset
from lancewright.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from lancewright.query.search.join import JoinJob

# lane: the partition that searches; goal: the partition that merges.
_CELL_SCHEMA = "lane int, goal int, batch binary, part int, content binary"
_ARROW_CELL_SCHEMA = pa.schema(
    [
        ("lane", pa.int32()),
        ("goal", pa.int32()),
        ("batch", pa.binary()),
        ("part", pa.int32()),
        ("content", pa.binary()),
    ]
)
_ANSWER_ROWS_MAX = 8_192


def join_frame(queries: DataFrame, job: JoinJob, answer: pa.Schema, parallelism: int) -> DataFrame:
    """The whole join as one lazy frame. ``answer`` is the schema of what it returns, in Arrow's types."""
    target = spark_arrow_schema(answer)
    whole = _found_cells(queries, job, parallelism)
    return whole.mapInArrow(partial(run_merges, job, target), to_spark_schema(target))


def measure_join(queries: DataFrame, job: JoinJob, parallelism: int) -> list[str]:
    """Run the whole join, keep no row, and say of each batch of queries what it took, as JSON."""
    whole = _found_cells(queries, job, parallelism)
    return [row[0] for row in whole.mapInArrow(partial(run_measures, job), "told string").collect()]


def _found_cells(queries: DataFrame, job: JoinJob, parallelism: int) -> DataFrame:
    parts = max(1, len(job.parts))
    lanes = max(1, parallelism // parts)
    cells = queries.mapInArrow(partial(run_cuts, job, lanes, parallelism), _CELL_SCHEMA)
    found = cells.repartitionById(parts * lanes, "lane").mapInArrow(partial(run_searches, job), _CELL_SCHEMA)
    # Sorted by Spark, which spills: the cells of one batch come one after the other, and no others have to be held.
    return found.repartitionById(parallelism, "goal").sortWithinPartitions("batch")


def run_cuts(
    job: JoinJob, lanes: int, goals: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run on an executor: the cells of each batch of queries."""
    from pyspark import TaskContext

    _check_version(job)
    freeze_imports()
    context = TaskContext.get()
    task = context.partitionId() if context is not None else 0
    for number, batch in enumerate(batches):
        for cell in cut_queries(job, batch, (task, number)):
            chance = int.from_bytes(cell.batch[:4], "little")
            lane = max(cell.part, 0) * lanes + chance % lanes
            yield _cell_row(cell, lane, chance % goals)


def run_searches(job: JoinJob, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run on an executor: what one part of the table has near each batch of vectors."""
    freeze_imports()
    dataset = open_dataset(job.settings.table)
    for lane, goal, cell in _cells(batches):
        yield _cell_row(search_cell(dataset, job, cell), lane, goal)


def run_merges(
    job: JoinJob, target: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run on an executor: the answer of each batch, whose cells come one after the other."""
    freeze_imports()
    dataset = open_dataset(job.settings.table)
    cells = (cell for _, _, cell in _cells(batches))
    for _, together in groupby(cells, key=lambda cell: cell.batch):
        answer = to_spark_form(merge_cells(dataset, job, list(together)))
        yield from answer.cast(target).to_batches(max_chunksize=_ANSWER_ROWS_MAX)


def run_measures(job: JoinJob, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run on an executor: what the answer of each batch took."""
    freeze_imports()
    dataset = open_dataset(job.settings.table)
    cells = (cell for _, _, cell in _cells(batches))
    for _, together in groupby(cells, key=lambda cell: cell.batch):
        yield pa.RecordBatch.from_pydict({"told": [measure_cells(dataset, job, list(together))]})


def _check_version(job: JoinJob) -> None:
    if job.package_version != __version__:
        raise RuntimeError(
            f"The worker has lancewright {__version__}, the driver {job.package_version}. Install the same on both."
        )


def _cells(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, int, JoinCell]]:
    for batch in batches:
        lanes, goals, names, parts = (batch.column(place).to_pylist() for place in range(4))
        for lane, goal, name, part, content in zip(
            lanes, goals, names, parts, batch.column("content"), strict=True
        ):
            yield lane, goal, JoinCell(batch=name, part=part, content=content.as_buffer())


def _cell_row(cell: JoinCell, lane: int, goal: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "lane": [lane],
            "goal": [goal],
            "batch": [cell.batch],
            "part": [cell.part],
            "content": [cell.content.to_pybytes()],
        },
        schema=_ARROW_CELL_SCHEMA,
    )
