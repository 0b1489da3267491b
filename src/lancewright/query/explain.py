"""Says how a query finds its rows: which index answers what, why the others do not, what is scanned. Text, rows, JSON. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pyroaring import FrozenBitMap

from lancewright.model.coverage import GapReason, measure_coverage
from lancewright.model.predicate import to_lance_sql
from lancewright.query.answers import Effort
from lancewright.query.covering import find_sources
from lancewright.query.index_lines import IndexLine, index_table, line_of_note, render_index_lines
from lancewright.query.notes import shorten
from lancewright.query.plan import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from lancewright.model.snapshot import TableSnapshot
    from lancewright.query.plan import Portion, QueryPlan
    from lancewright.query.resolve import PlannedScan, ResolvedScan
    from lancewright.table.row_reader import ReadEffort

_INDENT = "  "
_GAPS = {
    GapReason.NOT_INDEXED: "not in {}",
    GapReason.COLUMN_REWRITTEN: "whose column was rewritten since {}",
    GapReason.SEGMENT_SKIPPED: "of segments of {} that cannot be read",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What asking the indexes gave and took, and then reading the rows in tasks.

    ``root_bytes`` were read of the small files at the root of the indexes, to plan; those that were kept are not read again.
    """

    root_bytes: int
    named: int
    pages: int
    index_requests: int
    index_bytes: int
    index_seconds: float
    tasks: int
    fragments_read: int
    rows: int
    read_requests: int
    read_bytes: int
    read_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """How one query finds its rows; prints itself, and gives itself as rows and as JSON.

    ``scanned_because`` says of the fragments that are scanned beside an index why that index does not answer for them.
    ``index_only`` are indexes whose own files have all that is asked of the rows, in ``index_only_fragments``.
    """

    table: str
    version: int
    rows: int
    fragments: int
    where: str | None
    indexes: tuple[IndexLine, ...]
    residual: str | None
    indexed_fragments: int
    scanned_fragments: int
    scanned_rows: int
    scanned_because: tuple[str, ...] = ()
    index_only: tuple[str, ...] = ()
    index_only_fragments: int = 0
    measured: Measured | None = None

    def to_text(self) -> str:
        """The explanation as a person reads it."""
        return "\n".join(_lines(self))

    def to_json(self) -> str:
        """The explanation as JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)

    def to_arrow(self) -> pa.Table:
        """One row for each index."""
        return index_table(self.indexes)

    def to_pandas(self) -> Any:  # Any: a pandas frame, which has no types here
        """One row for each index, as a pandas frame."""
        return self.to_arrow().to_pandas()

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return self.to_text()


def explain_plan(planned: PlannedScan) -> Explanation:
    """Explain a plan whose indexes have not been asked."""
    return _explain(planned, planned.plan.portions, {}, None)


def explain_measured(scan: ResolvedScan, read: Sequence[ReadEffort]) -> Explanation:
    """Explain a scan whose indexes have been asked and whose rows have been read, with what it took."""
    effort = sum((answer.effort for answer in scan.answers), Effort())
    failures = {
        index: (answer.reason, answer.failure)
        for answer in scan.answers
        if answer.failure
        for index in answer.asked
    }
    in_tasks = next((task.failure for task in read if task.failure), "")
    if in_tasks:
        notes = scan.planned.plan.notes
        failures |= {
            note.index: (Reason.BROKEN_SEGMENT, in_tasks)
            for note in notes
            if note.reason is Reason.USED_IN_TASKS
        }
    measured = Measured(
        root_bytes=scan.planned.root_bytes,
        named=sum(len(answer.rows) for answer in scan.answers if answer.rows is not None),
        pages=effort.pages,
        index_requests=effort.read_requests,
        index_bytes=effort.read_bytes,
        index_seconds=effort.seconds,
        tasks=len(scan.tasks),
        fragments_read=len({fragment for task in scan.tasks for fragment in task.fragments}),
        rows=sum(task.rows for task in read),
        read_requests=sum(task.read_requests for task in read),
        read_bytes=sum(task.read_bytes for task in read),
        read_seconds=sum(task.seconds for task in read),
    )
    return _explain(scan.planned, [answer.portion for answer in scan.answers], failures, measured)


def _explain(
    planned: PlannedScan,
    portions: Sequence[Portion],
    failures: Mapping[str, tuple[Reason, str]],
    measured: Measured | None,
) -> Explanation:
    plan = planned.plan
    probed = [portion for portion in portions if portion.probe is not None]
    scanned = [portion for portion in portions if portion.probe is None]
    residuals = dict.fromkeys(
        to_lance_sql(portion.residual) for portion in probed if portion.residual is not None
    )
    return Explanation(
        table=plan.table,
        version=plan.version,
        rows=plan.table_rows,
        fragments=plan.table_fragments,
        where=None if plan.predicate is None else to_lance_sql(plan.predicate),
        indexes=tuple(line_of_note(note, failures.get(note.index)) for note in plan.notes),
        residual=" OR ".join(residuals) or None,
        indexed_fragments=sum(len(portion.fragments) for portion in probed),
        scanned_fragments=sum(len(portion.fragments) for portion in scanned),
        scanned_rows=sum(portion.rows for portion in scanned),
        index_only=tuple(dict.fromkeys(portion.covered_by for portion in probed if portion.covered_by)),
        index_only_fragments=sum(len(_index_only(planned, portion)) for portion in probed),
        scanned_because=tuple(_why_scanned(planned.snapshot, plan, scanned)),
        measured=measured,
    )


def _index_only(planned: PlannedScan, portion: Portion) -> FrozenBitMap:
    """The fragments of a portion that are not read, because the files of an index have the rows."""
    wanted, name = planned.cut.wanted, portion.covered_by
    if wanted is None or name is None:
        return FrozenBitMap()
    sources = find_sources(planned.snapshot, portion, planned.cut.kinds[name], wanted)
    return FrozenBitMap().union(*(source.fragments for source in sources))


def _why_scanned(snapshot: TableSnapshot, plan: QueryPlan, scanned: Sequence[Portion]) -> Iterator[str]:
    """Why fragments are outside the indexes that answer for the others."""
    fragments = (
        FrozenBitMap().union(*(portion.fragments for portion in scanned)) if scanned else FrozenBitMap()
    )
    used = {note.index for note in plan.notes if note.used and note.reason is not Reason.USED_IN_TASKS}
    for index in snapshot.indexes:
        if index.name not in used or not fragments:
            continue
        coverage = measure_coverage(snapshot, index)
        newest = max(segment.dataset_version for segment in index.segments)
        claimed = coverage.covered | coverage.dead
        for reason in GapReason:
            gaps = coverage.gaps_because(reason) & fragments
            added = bool(claimed) and bool(gaps) and gaps.min() > claimed.max()
            words = (
                f"added after version {newest}"
                if added and reason is GapReason.NOT_INDEXED
                else _GAPS[reason]
            )
            if gaps:
                yield f"{len(gaps):,} {words.format(index.name)}"


def _lines(explanation: Explanation) -> Iterator[str]:
    yield (
        f"Scan {explanation.table}  version {explanation.version}  "
        f"rows {explanation.rows:,} in {explanation.fragments:,} fragments"
    )
    if explanation.where is not None:
        yield f"{_INDENT}where {shorten(explanation.where)}"
    yield from render_index_lines(explanation.indexes)
    if explanation.residual is not None:
        yield f"{_INDENT}checked on the rows found  {shorten(explanation.residual)}"
    if explanation.index_only:
        yield (
            f"{_INDENT}{explanation.index_only_fragments:,} fragments are not read: "
            f"index {', '.join(explanation.index_only)} has every column asked for"
        )
    share = explanation.scanned_rows / explanation.rows if explanation.rows else 0.0
    because = f": {', '.join(explanation.scanned_because)}" if explanation.scanned_because else ""
    yield (
        f"{_INDENT}{explanation.indexed_fragments:,} fragments by index; {explanation.scanned_fragments:,} scanned "
        f"({explanation.scanned_rows:,} rows, {share:.1%}){because}"
    )
    if explanation.measured is not None:
        yield from _measured(explanation.measured)


def _measured(measured: Measured) -> Iterator[str]:
    yield (
        f"{_INDENT}indexes named {measured.named:,} rows: {measured.pages:,} pages, {measured.index_requests:,} reads, "
        f"{measured.index_bytes:,} bytes and {measured.root_bytes:,} to plan, {measured.index_seconds * 1000:.1f} ms"
    )
    yield (
        f"{_INDENT}{measured.tasks:,} tasks found {measured.rows:,} rows in {measured.fragments_read:,} fragments: "
        f"{measured.read_requests:,} reads, {measured.read_bytes:,} bytes, {measured.read_seconds * 1000:.1f} ms"
    )
