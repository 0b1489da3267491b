"""One line for each index of an explanation: whether a query uses it, why, and what that is expected to cost. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewright.query.plan import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lancewright.query.plan import IndexNote

_INDENT = "  "
_COLUMN_GAP = 2
FILTER, RANKING, LOOKUP = "filter", "ranking", "lookup"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLine:
    """One index and what it does for the query.

    ``role``: whether it could help the ``filter`` or the ``ranking`` of a search, or look up keys. ``segments`` can be read, ``segments_asked`` of them may hold rows, ``segments_skipped`` are of a kind or version that is
    not known here.
    """

    index: str
    kind: str
    used: bool
    reason: str
    condition: str
    explanation: str
    segments: int
    segments_asked: int | None
    segments_skipped: int
    rows_estimated: int | None
    pages_estimated: int | None
    bytes_estimated: int | None
    role: str = FILTER


_INDEX_SCHEMA = pa.schema(
    [
        ("index", pa.string()),
        ("kind", pa.string()),
        ("used", pa.bool_()),
        ("reason", pa.string()),
        ("condition", pa.string()),
        ("explanation", pa.string()),
        ("segments", pa.int64()),
        ("segments_asked", pa.int64()),
        ("segments_skipped", pa.int64()),
        ("rows_estimated", pa.int64()),
        ("pages_estimated", pa.int64()),
        ("bytes_estimated", pa.int64()),
        ("role", pa.string()),
    ]
)


def index_table(lines: Sequence[IndexLine]) -> pa.Table:
    """One row for each line."""
    rows: list[dict[str, Any]] = [asdict(line) for line in lines]  # Any: each field has its own type
    return pa.Table.from_pylist(rows, schema=_INDEX_SCHEMA)


def render_index_lines(lines: Sequence[IndexLine]) -> Iterator[str]:
    """The lines as a person reads them, in columns."""
    yield from _table([_cells(line) for line in lines])


def line_of_note(note: IndexNote, failure: tuple[Reason, str] | None) -> IndexLine:
    """What a plan noted of an index; a ``failure`` to answer has the last word."""
    estimate = note.estimate
    reason, explanation = note.reason, note.explanation
    if failure is not None and note.used:
        reason, explanation = failure
    return IndexLine(
        index=note.index,
        kind=note.kind,
        used=note.used and reason is note.reason,
        reason=reason.value,
        condition=note.condition,
        explanation=explanation,
        segments=note.segments,
        segments_asked=None if estimate is None else estimate.segments,
        segments_skipped=note.skipped,
        rows_estimated=None if estimate is None else round(estimate.rows),
        pages_estimated=None if estimate is None else round(estimate.pages),
        bytes_estimated=None if estimate is None else round(estimate.index_bytes),
    )


def _cells(line: IndexLine) -> tuple[str, ...]:
    exactness = {Reason.USED.value: ", exact", Reason.INEXACT_PREFILTER.value: ", checked again"}
    exact = exactness.get(line.reason, "") if line.role == FILTER else ""
    what = f"index {line.index} ({line.kind}{exact})"
    if not line.used:
        condition = f"{line.condition}: " if line.condition else ""
        return (what, f"not used  {line.reason}", f"{condition}{line.explanation}")
    asked = "" if line.segments_asked is None else f"{line.segments_asked} of "
    rows = "" if line.rows_estimated is None else f"~{line.rows_estimated:,} rows"
    told = (f"segments {asked}{line.segments}", rows, line.explanation)
    return (what, line.condition, "  ".join(filter(None, told)))


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))] if rows else []
    for row in rows:
        cells = (cell.ljust(width + _COLUMN_GAP) for cell, width in zip(row, widths, strict=True))
        yield f"{_INDENT}{''.join(cells)}".rstrip()
