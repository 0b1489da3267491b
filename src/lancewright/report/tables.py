"""Renders indexes, plans and receipts: one description of rows and columns, shown as text or as HTML."""

from __future__ import annotations

import html
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.table import Table as RichTable
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lancewright.build.plan import BuildPlan
    from lancewright.build.receipt import CreateReceipt
    from lancewright.model.coverage import Coverage
    from lancewright.model.index import IndexState
    from lancewright.model.snapshot import TableSnapshot

_TEXT_WIDTH = 140
_CELL_LENGTH_MAX = 60
_KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Rows under headings, with a title: what a reader sees, before it is text or HTML."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def render_text(grid: Grid) -> str:
    """The grid as plain text."""
    console = Console(file=io.StringIO(), width=_TEXT_WIDTH, color_system=None)
    console.print(render_rich(grid))
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())  # type: ignore[attr-defined] # it is the StringIO above


def render_rich(grid: Grid) -> Group:
    """The grid for a terminal. The title stands above the table, which would break it at its own width."""
    table = RichTable(header_style="bold", box=None, pad_edge=False)
    for heading in grid.headings:
        table.add_column(heading, justify="right" if heading in _NUMBERS else "left", overflow="fold")
    for row in grid.rows:
        table.add_row(*(Text(cell) for cell in row))
    return Group(Text(grid.title, style="bold"), table) if grid.title else Group(table)


def render_rich_all(grids: Sequence[Grid]) -> Group:
    """Several grids, one above the other."""
    return Group(*(render_rich(grid) for grid in grids))


def render_html(grid: Grid) -> str:
    """The grid for a notebook. Every cell is escaped: names come from the table."""
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in grid.headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in grid.rows
    )
    return (
        f"<table><caption style='text-align:left'><b>{html.escape(grid.title)}</b></caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def describe_indexes(title: str, entries: Sequence[tuple[IndexState, Coverage]]) -> Grid:
    """Indexes with what they cover."""
    return Grid(
        title=title,
        headings=("index", "kind", "columns", "segments", "covered rows", "to scan", "size", "notes"),
        rows=tuple(_index_row(index, coverage) for index, coverage in entries),
    )


def describe_snapshot(snapshot: TableSnapshot) -> Grid:
    """A table at one version."""
    row_ids = "stable" if snapshot.stable_row_ids else "addresses"
    return Grid(
        title=f"{snapshot.uri}  version {snapshot.version}",
        headings=("rows", "fragments", "deleted rows", "row ids", "indexes"),
        rows=(
            (
                f"{snapshot.rows:,}",
                f"{len(snapshot.fragments):,}",
                f"{sum(fragment.deleted_rows for fragment in snapshot.fragments):,}",
                row_ids,
                ", ".join(index.name for index in snapshot.indexes) or "none",
            ),
        ),
    )


def describe_plan(plan: BuildPlan) -> Grid:
    """What a build would do."""
    title = (
        f"Plan for {plan.table}  version {plan.version}: {plan.tasks} tasks, "
        f"{plan.parallelism} at a time, {plan.rows:,} rows, about {format_bytes(plan.estimated_bytes)} of index"
    )
    return Grid(
        title=title,
        headings=("index", "kind", "column", "tasks", "rows", "segments", "size", "memory per task"),
        rows=tuple(
            (
                index.spec.name,
                index.spec.kind,
                ", ".join(key.path for key in index.spec.key_columns),
                str(len(index.groups)),
                f"{index.rows:,}",
                str(index.segments_expected),
                f"~{format_bytes(index.estimated_bytes)}",
                f"<{format_bytes(index.task_memory_bytes)}",
            )
            for index in plan.indexes
        ),
    )


def describe_receipt(receipt: CreateReceipt) -> Grid:
    """What a build did."""
    return Grid(
        title=f"Built on {receipt.table}  version {receipt.version}  in {receipt.seconds:.1f} s",
        headings=("index", "kind", "fragments", "rows", "segments", "notes"),
        rows=tuple(
            (
                index.name,
                index.kind,
                str(index.fragments),
                f"{index.rows:,}",
                str(index.segments),
                "" if index.created else "was there already",
            )
            for index in receipt.indexes
        ),
    )


def describe_rows(rows: pa.Table) -> Grid:
    """The rows of a query, each value on one line and no longer than a reader looks at."""
    return Grid(
        title=f"{rows.num_rows:,} rows",
        headings=tuple(rows.schema.names),
        rows=tuple(tuple(_cell(value) for value in row.values()) for row in rows.to_pylist()),
    )


def _cell(value: object) -> str:
    text = " ".join(str(value).split()) if value is not None else "NULL"
    return text if len(text) <= _CELL_LENGTH_MAX else f"{text[: _CELL_LENGTH_MAX - 1]}…"


def format_bytes(size: int | None) -> str:
    """A size a person reads."""
    if size is None:
        return "unknown"
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < _KIB:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= _KIB
    return f"{amount:.1f} TiB"


_NUMBERS = frozenset(
    {
        "segments",
        "covered rows",
        "to scan",
        "size",
        "rows",
        "fragments",
        "deleted rows",
        "tasks",
        "memory per task",
    }
)


def _index_row(index: IndexState, coverage: Coverage) -> tuple[str, ...]:
    share = coverage.covered_rows / coverage.table_rows if coverage.table_rows else 1.0
    return (
        index.name,
        index.kind,
        ", ".join(index.shown_keys),
        str(len(index.segments)),
        f"{coverage.covered_rows:,} ({share:.1%})",
        f"{coverage.gap_rows:,}",
        format_bytes(index.size_bytes),
        _notes(index, coverage),
    )


def _notes(index: IndexState, coverage: Coverage) -> str:
    notes = [f"skipped: {entry.explanation}" for entry in index.skipped[:1]]
    if coverage.dead:
        notes.append(f"{len(coverage.dead)} fragments gone")
    reasons = {gap.reason.value.replace("_", " ") for gap in coverage.gaps}
    if reasons:
        notes.append(f"{len(coverage.gaps)} fragments {', '.join(sorted(reasons))}")
    return "; ".join(notes)
