"""What is told of a search: which index ranks, which helps the filter, what each task looks at. Text, rows, JSON. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lancewright.query.index_lines import IndexLine, index_table, render_index_lines
from lancewright.query.notes import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lancewright.query.search.notes import SearchNote
    from lancewright.table.metering import SearchEffort

_REASON_WIDTH = 26


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTask:
    """What one task searches: ``way`` is ``by index``, ``exactly`` or ``read whole``. Estimates are of the least it looks at.

    ``rows`` can be found in it; ``measured`` is what it took, when the search has run.
    """

    search: str
    way: str
    segments: int
    fragments: int
    rows: int
    rows_estimated: int | None = None
    pages_estimated: int | None = None
    bytes_estimated: int | None = None
    measured: SearchEffort | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchMeasured:
    """What a search took: asking indexes for its filter, then the tasks, then reading the columns of the rows found.

    ``rows_looked_at`` and ``pages`` are those of the tasks.
    """

    root_bytes: int
    named: int
    index_pages: int
    index_requests: int
    index_bytes: int
    index_seconds: float
    tasks: int
    rows_looked_at: int
    pages: int
    search_requests: int
    search_bytes: int
    search_seconds: float
    rows: int
    read_requests: int
    read_bytes: int
    read_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchExplanation:
    """How one search finds its rows; prints itself, and gives itself as rows and as JSON.

    ``searches`` says what is ranked by what, ``notes`` what was decided, ``happened`` what went otherwise when it ran.
    """

    table: str
    version: int
    rows: int
    fragments: int
    searches: tuple[str, ...]
    where: str | None
    indexes: tuple[IndexLine, ...]
    tasks: tuple[SearchTask, ...]
    notes: tuple[SearchNote, ...]
    happened: tuple[SearchNote, ...] = ()
    measured: SearchMeasured | None = None

    def to_text(self) -> str:
        """The explanation as a person reads it."""
        return "\n".join(_lines(self))

    def to_json(self) -> str:
        """The explanation as JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)

    def to_arrow(self) -> pa.Table:
        """One row for each index, in the columns that an explanation of a scan has."""
        return index_table(self.indexes)

    def to_pandas(self) -> Any:  # Any: a pandas frame, which has no types here
        """One row for each index, as a pandas frame."""
        return self.to_arrow().to_pandas()

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return self.to_text()


def _lines(told: SearchExplanation) -> Iterator[str]:
    yield f"Search {told.table}  version {told.version}  rows {told.rows:,} in {told.fragments:,} fragments"
    yield from (f"  {search}" for search in told.searches)
    if told.where is not None:
        yield f"  where {shorten(told.where)}"
    yield from render_index_lines(told.indexes)
    yield from (_task_line(task) for task in told.tasks)
    yield from (_note_line(note) for note in told.notes)
    yield from (f"{_note_line(note)}  (when it ran)" for note in told.happened)
    if told.measured is not None:
        yield from _measured(told.measured)


def _task_line(task: SearchTask) -> str:
    part = f"{task.segments:,} segments" if task.segments else f"{task.fragments:,} fragments"
    line = f"    task: {part}, {task.rows:,} rows {task.way}"
    if task.measured is not None:
        return f"{line}: {_effort(task.measured)}"
    if task.rows_estimated is None or not task.segments:
        return line
    return f"{line}, at least ~{task.rows_estimated:,} of them in {task.pages_estimated:,} partitions"


def _effort(effort: SearchEffort) -> str:
    return (
        f"looked at {effort.rows:,} rows, {effort.pages:,} pages, {effort.read_requests:,} reads, "
        f"{effort.read_bytes:,} bytes, {effort.seconds * 1000:.1f} ms"
    )


def _note_line(note: SearchNote) -> str:
    return f"  {note.reason.value:<{_REASON_WIDTH}} {note.subject}: {note.explanation}"


def _measured(measured: SearchMeasured) -> Iterator[str]:
    if measured.root_bytes or measured.index_requests or measured.named:
        yield (
            f"  indexes named {measured.named:,} rows: {measured.index_pages:,} pages, {measured.index_requests:,} reads, "
            f"{measured.index_bytes:,} bytes and {measured.root_bytes:,} to plan, {measured.index_seconds * 1000:.1f} ms"
        )
    yield (
        f"  {measured.tasks:,} tasks looked at {measured.rows_looked_at:,} rows: {measured.pages:,} pages, "
        f"{measured.search_requests:,} reads, {measured.search_bytes:,} bytes, {measured.search_seconds * 1000:.1f} ms"
    )
    yield (
        f"  {measured.rows:,} rows found, whose columns took {measured.read_requests:,} reads, {measured.read_bytes:,} bytes, "
        f"{measured.read_seconds * 1000:.1f} ms"
    )
