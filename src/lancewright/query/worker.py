"""Reads the rows of one scan task, on an executor. Decides nothing but what to do when Lance's own index fails it."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewright.errors import CorruptIndexError, LancewrightError
from lancewright.query.covered_worker import measure_covered, read_covered
from lancewright.query.unreadable import read_around
from lancewright.table.row_reader import ReadEffort, RowRequest, count_rows, measure_rows, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lancewright.query.tasks import ScanTask
    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanJob:
    """What every task of a scan shares: the table at one version, and what is wanted of its rows."""

    table: TableRef
    stable_row_ids: bool
    columns: tuple[str, ...]
    with_row_id: bool = False
    with_row_address: bool = False
    limit: int | None = None
    batch_rows: int | None = None
    strict: bool = False


def read_task(job: ScanJob, task: ScanTask) -> Iterator[pa.RecordBatch]:
    """The rows of a task, batch by batch; memory is a few batches."""
    covered = _read_covered(job, task)
    if covered is not None:
        yield from covered.to_batches(max_chunksize=job.batch_rows)
        return
    request = _request(job, task)
    if not request.native_indexes:
        yield from _read(job, task, request)
        return
    started = False
    try:
        for batch in read_rows(job.table, request, stable_row_ids=job.stable_row_ids):
            started = True
            yield batch
    except LancewrightError as error:
        # A broken index costs a scan, not the query; rows that were handed on cannot be taken back.
        if started:
            raise
        _refuse_if_strict(job, error)
        yield from _read(job, task, replace(request, native_indexes=False))


def fetch_task(job: ScanJob, task: ScanTask) -> bytes:
    """The rows of a task as one Arrow stream, for a result that the driver wants whole."""
    sink = pa.BufferOutputStream()
    writer: pa.RecordBatchStreamWriter | None = None
    for batch in read_task(job, task):
        writer = writer or pa.ipc.new_stream(sink, batch.schema)
        writer.write_batch(batch)
    if writer is None:
        return b""
    writer.close()
    return bytes(sink.getvalue())


def measure_task(job: ScanJob, task: ScanTask) -> ReadEffort:
    """What reading the rows of a task takes, and why Lance's own index did not help, if it failed."""
    request = _request(job, task)
    if task.values is not None and task.rows is not None:
        with suppress(LancewrightError):  # as when it is read
            return measure_covered(job.table, task.values, task.rows, task.filter)
    try:
        return measure_rows(job.table, request, stable_row_ids=job.stable_row_ids)
    except LancewrightError as error:
        if not request.native_indexes and task.places is None:
            raise
        if not request.native_indexes:
            return _measure_around(job, task, request)
        _refuse_if_strict(job, error)
        effort = measure_rows(
            job.table, replace(request, native_indexes=False), stable_row_ids=job.stable_row_ids
        )
        return replace(effort, failure=error.problem)


def count_task(job: ScanJob, task: ScanTask) -> int:
    """How many rows a task has."""
    request = _request(job, task)
    try:
        return count_rows(job.table, request, stable_row_ids=job.stable_row_ids)
    except LancewrightError as error:
        if not request.native_indexes and task.places is None:
            raise
        if request.native_indexes:
            _refuse_if_strict(job, error)
        plain = replace(request, native_indexes=False, columns=(), with_row_address=True)
        return sum(batch.num_rows for batch in _read(job, task, plain))


def _read(job: ScanJob, task: ScanTask, request: RowRequest) -> Iterator[pa.RecordBatch]:
    if task.places is None:
        return read_rows(job.table, request, stable_row_ids=job.stable_row_ids)
    return read_around(job.table, request, task.places, stable_row_ids=job.stable_row_ids)


def _measure_around(job: ScanJob, task: ScanTask, request: RowRequest) -> ReadEffort:
    """As ``measure_rows``, around what cannot be read; what that takes of requests is not known."""
    started = time.perf_counter()
    rows = sum(batch.num_rows for batch in _read(job, task, request))
    return ReadEffort(rows=rows, read_requests=0, read_bytes=0, seconds=time.perf_counter() - started)


def _read_covered(job: ScanJob, task: ScanTask) -> pa.Table | None:
    """The rows from the files of an index that has them; None when they are to be read from the table."""
    if task.values is None or task.rows is None:
        return None
    try:
        found = read_covered(job.table, task.values, task.rows, task.filter)
    except LancewrightError as error:
        _refuse_if_strict(job, error)
        return None
    return found if job.limit is None else found.slice(0, job.limit)


def _refuse_if_strict(job: ScanJob, error: LancewrightError) -> None:
    if job.strict:
        raise CorruptIndexError(
            f"An index of the filter's columns of {job.table.name} cannot be read: {error.problem}",
            "Build it again with create_index(..., replace=True), or query without strict=True to scan instead.",
        ) from error


def _request(job: ScanJob, task: ScanTask) -> RowRequest:
    return RowRequest(
        fragments=task.fragments,
        rows=task.rows,
        filter=task.filter,
        columns=job.columns,
        with_row_id=job.with_row_id,
        with_row_address=job.with_row_address,
        native_indexes=task.native_indexes,
        limit=job.limit,
        batch_rows=job.batch_rows,
    )
