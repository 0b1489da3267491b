"""What the tasks of a nearest-neighbour join do: cut queries into batches, search one part for a batch, merge the parts.

The vectors of a batch go to every part of the table, the other columns of its queries go straight to the merge. Memory of a task
is one batch: a thousand queries, ``k`` rows for each, and the columns of those rows.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewright.errors import CorruptIndexError, InvalidRequestError
from lancewright.query.search.columns import fit_vectors
from lancewright.query.search.notes import SearchReason
from lancewright.query.search.tasks import VECTORS_PER_TASK
from lancewright.query.search.top_k import keep_best
from lancewright.query.search.vector_worker import VectorSettings, VectorWork, search_open_part
from lancewright.table.lance_compat import translating
from lancewright.table.row_reader import ReadEffort
from lancewright.table.row_taker import take_columns
from lancewright.table.vector_search import DISTANCE, NEAREST_SCHEMA, RowFilter
from lancewright.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from lancewright.model.columns import Column
    from lancewright.query.search.plan import FragmentGroup, SegmentGroup

# The part that carries the queries' own columns past the search.
QUERIES = -1
# Where what a search took travels beside the rows it found.
_TOLD = b"told"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPart:
    """A part of the table, and the rows of it that may be found."""

    group: SegmentGroup | FragmentGroup
    rows: RowFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinJob:
    """What all tasks of a join share. ``names`` are the columns of the table that the answer has, ``columns`` those to read."""

    settings: VectorSettings
    parts: tuple[JoinPart, ...]
    column: Column
    query_column: str
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    package_version: str = __version__


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinCell:
    """Something on its way from one task to another: of which batch, for or from which part."""

    batch: bytes
    part: int
    content: pa.Buffer


def cut_queries(job: JoinJob, queries: pa.RecordBatch, place: tuple[int, int]) -> Iterator[JoinCell]:
    """The cells of one batch of queries: its vectors for every part, and the queries themselves.

    ``place`` is the task's number and the batch's within it. A batch is named by place and content: should a task that runs again
    read other queries than before, its batches are others as well, and none is mixed.
    """
    for first in range(0, len(queries), VECTORS_PER_TASK):
        rows = queries.slice(first, VECTORS_PER_TASK)
        rows = rows.filter(pc.is_valid(rows.column(job.query_column)))
        if not len(rows):
            continue
        vectors = pa.py_buffer(fit_vectors(job.column, read_matrix(rows.column(job.query_column))).tobytes())
        content = _write([rows], rows.schema)
        name = hashlib.blake2b(f"{place}-{first}".encode(), digest_size=16)
        name.update(content)
        batch = name.digest()
        yield JoinCell(batch=batch, part=QUERIES, content=content)
        for part in range(len(job.parts)):
            yield JoinCell(batch=batch, part=part, content=vectors)


def search_cell(dataset: Any, job: JoinJob, cell: JoinCell) -> JoinCell:  # Any: pylance's dataset is untyped
    """The vectors of a batch become what one part has near them."""
    if cell.part == QUERIES:
        return cell
    part = job.parts[cell.part]
    type_ = _value_type(job.column)
    vectors = np.frombuffer(cell.content, dtype=type_).reshape(-1, _width(job.column))
    work = VectorWork(group=part.group, rows=part.rows, vectors=vectors)
    with translating(job.settings.table, "search"):
        found = search_open_part(dataset, job.settings, work)
    for note in found.notes:
        if job.settings.strict and note.reason is SearchReason.BROKEN_SEGMENT:
            raise CorruptIndexError(
                f"Segment {note.subject} cannot be read: {note.explanation}", "Rebuild the index."
            )
    told = json.dumps({"effort": asdict(found.effort), "notes": [asdict(note) for note in found.notes]})
    rows = found.rows.combine_chunks().replace_schema_metadata({_TOLD: told})
    return replace(cell, content=_write(rows.to_batches(), rows.schema))


def merge_cells(dataset: Any, job: JoinJob, cells: list[JoinCell]) -> pa.Table:  # Any: as above
    """All cells of one batch become its answer: each query's columns, the columns of its neighbours, their distance."""
    parts = sorted(cell.part for cell in cells)
    if parts != [QUERIES, *range(len(job.parts))]:
        raise RuntimeError(f"A batch of queries arrived with the parts {parts} and not one of each.")
    queries = next(_read(cell.content) for cell in cells if cell.part == QUERIES)
    found = [_read(cell.content) for cell in cells if cell.part != QUERIES]
    rows = pa.concat_tables([NEAREST_SCHEMA.empty_table(), *found])
    return attach_queries(
        dataset, job, queries, keep_best(rows, DISTANCE, job.settings.options.k, descending=False)
    )


def measure_cells(dataset: Any, job: JoinJob, cells: list[JoinCell]) -> str:  # Any: as above
    """What the answer of one batch took, as JSON: of each part, and of reading the columns of its rows."""
    started = time.perf_counter()
    dataset.io_stats_incremental()
    rows = len(merge_cells(dataset, job, cells))
    io = dataset.io_stats_incremental()
    parts = {
        cell.part: json.loads((_read(cell.content).schema.metadata or {})[_TOLD])
        for cell in cells
        if cell.part != QUERIES
    }
    read = ReadEffort(
        rows=rows,
        read_requests=io.read_iops,
        read_bytes=io.read_bytes,
        seconds=time.perf_counter() - started,
    )
    return json.dumps({"parts": parts, "read": asdict(read)})


def attach_queries(
    dataset: Any, job: JoinJob, queries: pa.Table, hits: pa.Table
) -> pa.Table:  # Any: as above
    """Each hit with the columns of its query and of its row."""
    answer = dict(zip(queries.schema.names, queries.take(hits["query"]).columns, strict=True))
    with translating(job.settings.table, "read the rows found in"):
        values = take_columns(dataset, hits["_rowid"].to_numpy(), job.columns) if job.columns else []
    read = iter(values)
    for name in job.names:
        answer[name] = hits[name] if name in hits.schema.names else next(read)
    answer[DISTANCE] = hits[DISTANCE]
    return pa.table(answer)


def read_matrix(column: pa.Array) -> NDArray[Any]:  # Any: of the type the queries have
    """A column of lists as a matrix; raises when they are not of one length or hold no finite numbers."""
    lengths = pc.unique(pc.list_value_length(column))
    values = column.flatten()
    if len(lengths) > 1:
        raise InvalidRequestError(
            f"The query vectors have different lengths: {lengths.to_pylist()[:5]}",
            "Give all of them the column's.",
        )
    matrix: NDArray[Any] = values.to_numpy(zero_copy_only=False).reshape(len(column), -1)
    if values.null_count or matrix.dtype.kind not in "iuf" or not np.isfinite(matrix).all():
        raise InvalidRequestError("A query vector holds NULL, NaN or infinity", "Leave such queries out.")
    return matrix


def _value_type(column: Column) -> np.dtype[Any]:  # Any: float16 to float64, or uint8
    type_: np.dtype[Any] = np.dtype(column.type.value_type.to_pandas_dtype())
    return type_


def _width(column: Column) -> int:
    return int(column.type.list_size)


def _write(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def _read(content: pa.Buffer) -> pa.Table:
    return pa.ipc.open_stream(content).read_all()
