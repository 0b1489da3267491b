"""Tells a search plan in words: what is searched how, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewright.query.search.plan import HybridPlan, TextPlan, VectorPlan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lancewright.query.search.notes import SearchNote
    from lancewright.query.search.plan import SearchPlan
    from lancewright.table.vector_search import NearestOptions

_WIDTH = 26


def render_plan(plan: SearchPlan, happened: tuple[SearchNote, ...] = ()) -> str:
    """A few lines for people; ``happened`` is what a run added."""
    snapshot = plan.snapshot
    head = f"Search {snapshot.uri}  version {snapshot.version}  rows {snapshot.rows:,} in {len(snapshot.fragments):,} fragments"
    lines = [head, *_lines(plan), *(_note_line(note) for note in plan.notes)]
    lines += [f"{_note_line(note)}  (when it ran)" for note in happened]
    return "\n".join(lines)


def _lines(plan: SearchPlan) -> Iterator[str]:
    match plan:
        case HybridPlan():
            yield from _lines(plan.vector)
            yield from _lines(plan.text)
            yield f"  fuse the {plan.k} best by 1 / ({plan.rank_constant:g} + rank)"
        case VectorPlan():
            yield f"  nearest {plan.options.k} in {plan.options.column}  {_settings(plan.options)}"
            for group in plan.segment_groups:
                yield f"    task: {len(group.parts)} segments, {group.rows:,} rows by index"
            for rest in plan.fragment_groups:
                yield f"    task: {len(rest.fragments)} fragments, {rest.rows:,} rows exactly"
        case TextPlan():
            yield f"  best {plan.k} texts in {plan.column}  {plan.query!r}"
            if plan.index is not None:
                yield f"    task: {len(plan.index.segments)} segments, {plan.covered_rows:,} rows by index"
            if plan.scanned is not None:
                yield f"    task: {len(plan.scanned.fragments)} fragments, {plan.scanned.rows:,} rows read whole"
    if not isinstance(plan, HybridPlan) and plan.sql is not None:
        yield f"    where {plan.sql}"


def _settings(options: NearestOptions) -> str:
    told = {
        "metric": options.metric,
        "nprobes": options.nprobes,
        "refine_factor": options.refine_factor,
        "ef": options.ef,
        "from": options.lower_bound,
        "below": options.upper_bound,
    }
    return "  ".join(f"{name} {value}" for name, value in told.items() if value is not None)


def _note_line(note: SearchNote) -> str:
    return f"  {note.reason.value:<{_WIDTH}} {note.subject}: {note.explanation}"
