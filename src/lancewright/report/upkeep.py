"""Describes what keeps indexes true: health, and what refreshes and merges did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewright.report.tables import Grid, format_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lancewright.maintain.catch_up import CatchUpReceipt
    from lancewright.maintain.cleanup import CleanupPlan, CleanupReceipt
    from lancewright.maintain.compact import CompactPlan, CompactReceipt
    from lancewright.maintain.health import Advice, Health, IndexHealth
    from lancewright.maintain.maintain import MaintainReceipt
    from lancewright.maintain.maintain_plan import MaintainPlan, PlannedStep
    from lancewright.maintain.merge import MergedIndex, MergePlan, MergeReceipt
    from lancewright.maintain.refresh import RefreshedIndex, RefreshPlan, RefreshReceipt
    from lancewright.maintain.strays import Stray


def describe_health(health: Health) -> tuple[Grid, ...]:
    """Every index, then what is to be done."""
    title = (
        f"{health.table}  version {health.version}  {health.rows:,} rows in {health.fragments:,} fragments"
    )
    indexes = Grid(
        title=title,
        headings=("index", "kind", "segments", "covered rows", "to scan", "size", "notes"),
        rows=tuple(_index_row(index, health.rows) for index in health.indexes),
    )
    advice = Grid(
        title="To be done" if health.advice else "Nothing is to be done",
        headings=("verb", "indexes", "why", "call", "cost"),
        rows=tuple(_advice_row(advice) for advice in health.advice),
    )
    return (indexes, advice)


def describe_refresh(receipt: RefreshReceipt) -> Grid:
    """What a refresh did."""
    return _refresh_grid(
        f"Refreshed {receipt.table}  version {receipt.version}  in {receipt.seconds:.1f} s", receipt.indexes
    )


def describe_refresh_plan(plan: RefreshPlan) -> Grid:
    """What a refresh would do."""
    return _refresh_grid(
        f"Refresh of {plan.snapshot.uri}  version {plan.snapshot.version}, not run", plan.indexes
    )


def describe_merge(receipt: MergeReceipt) -> Grid:
    """What a merge did."""
    return _merge_grid(
        f"Merged {receipt.table}  version {receipt.version}  in {receipt.seconds:.1f} s", receipt.indexes
    )


def describe_merge_plan(plan: MergePlan) -> Grid:
    """What a merge would do."""
    return _merge_grid(
        f"Merge of {plan.snapshot.uri}  version {plan.snapshot.version}, not run", plan.indexes
    )


def describe_compact(receipt: CompactReceipt) -> tuple[Grid, ...]:
    """What a compaction did, to the table and then to its indexes."""
    lost = f"{receipt.lost} groups were changed by other writers again and again" if receipt.lost else ""
    later = f"{receipt.put_off} groups put off" if receipt.put_off else ""
    table = Grid(
        title=f"Compacted {receipt.table}  version {receipt.version}  in {receipt.seconds:.1f} s",
        headings=("before", "after", "indexes", "notes"),
        rows=(
            (
                str(receipt.fragments_before),
                str(receipt.fragments_after),
                receipt.remap,
                "; ".join(filter(None, (lost, later))),
            ),
        ),
    )
    grids = [table]
    grids += [describe_catch_up(receipt.caught_up)] if receipt.caught_up is not None else []
    grids += [describe_refresh(receipt.refreshed)] if receipt.refreshed is not None else []
    return tuple(grids)


def describe_compact_plan(plan: CompactPlan) -> Grid:
    """What a compaction would do."""
    return Grid(
        title=f"Compaction of {plan.table}  version {plan.version}, not run",
        headings=("tasks", "fragments", "rows", "indexes"),
        rows=((str(plan.tasks), str(plan.fragments), f"{plan.rows:,}", plan.remap),),
    )


def describe_catch_up(receipt: CatchUpReceipt) -> Grid:
    """What catching up did."""
    ended = ", the translation is over" if receipt.trimmed else ""
    return Grid(
        title=f"Caught up on {receipt.table}  version {receipt.version}{ended}",
        headings=("index", "kind", "rewritten", "waiting", "notes"),
        rows=tuple(
            (index.name, index.kind, str(index.rewritten), str(index.waiting), "; ".join(index.reasons))
            for index in receipt.indexes
        ),
    )


def describe_cleanup(receipt: CleanupReceipt) -> tuple[Grid, ...]:
    """What a cleanup removed, and what it kept."""
    title = f"Cleaned up {receipt.table}  version {receipt.version}  in {receipt.seconds:.1f} s"
    left = tuple(f"{path}: the storage would not delete it" for path in receipt.failed)
    return (_stray_grid(title, receipt.versions, receipt.files), *_kept_grids((*receipt.notes, *left)))


def describe_cleanup_plan(plan: CleanupPlan) -> tuple[Grid, ...]:
    """What a cleanup would remove, and what it would keep."""
    title = f"Cleanup of {plan.table}  version {plan.version}, not run"
    return (_stray_grid(title, plan.versions, plan.files), *_kept_grids(plan.notes))


def describe_maintain(receipt: MaintainReceipt) -> tuple[Grid, ...]:
    """What one run did, step by step, and what somebody has to look at."""
    title = f"Maintained {receipt.table}  version {receipt.version}  in {receipt.seconds:.1f} s"
    if not receipt.steps:
        return (Grid(title=f"{title}: nothing was due", headings=(), rows=()),)
    steps = Grid(
        title=title,
        headings=("step", "outcome", "what", "seconds", "left for the next run"),
        rows=tuple(
            (
                step.verb,
                step.outcome.replace("_", " "),
                step.told,
                f"{step.seconds:.1f}",
                ", ".join(step.put_off),
            )
            for step in receipt.steps
        ),
    )
    problems = tuple((step.verb, problem) for step in receipt.steps for problem in step.problems)
    attention = Grid(title="Needs attention", headings=("step", "why"), rows=problems)
    return (steps, attention) if problems else (steps,)


def describe_maintain_plan(plan: MaintainPlan) -> tuple[Grid, ...]:
    """What one run would do."""
    title = f"Maintenance of {plan.table}  version {plan.version}, not run"
    if not plan.steps:
        return (Grid(title=f"{title}: nothing is due", headings=(), rows=()),)
    return (
        Grid(
            title=title,
            headings=("step", "due", "what", "indexes", "cost", "notes"),
            rows=tuple(_planned_step_row(step) for step in plan.steps),
        ),
    )


def describe_policy(policy: Mapping[str, object], where: str) -> Grid:
    """A policy, field by field."""
    return Grid(
        title=where,
        headings=("field", "value"),
        rows=tuple((name, "none" if value is None else str(value)) for name, value in policy.items()),
    )


def _planned_step_row(step: PlannedStep) -> tuple[str, ...]:
    rows = f"{step.rows:,} rows" if step.rows else ""
    read = f"~{format_bytes(step.bytes_read)} read" if step.bytes_read else ""
    written = f"~{format_bytes(step.bytes_written)} written" if step.bytes_written else ""
    notes = step.problem or ("beyond the budget" if step.beyond_budget else "")
    return (
        step.verb,
        "yes" if step.is_due else "no",
        step.told,
        ", ".join(step.indexes),
        ", ".join(part for part in (rows, read, written) if part),
        notes,
    )


def _refresh_grid(title: str, indexes: tuple[RefreshedIndex, ...]) -> Grid:
    return Grid(
        title=title,
        headings=("index", "kind", "rows", "fragments", "kept", "rewritten", "rebuilt", "dropped", "notes"),
        rows=tuple(
            (
                index.name,
                index.kind,
                f"{index.rows:,}",
                str(index.fragments),
                str(index.kept),
                str(index.rewritten),
                str(index.rebuilt),
                str(index.dropped),
                index.problem or ("was current" if index.is_current else "; ".join(index.reasons)),
            )
            for index in indexes
        ),
    )


def _merge_grid(title: str, indexes: tuple[MergedIndex, ...]) -> Grid:
    return Grid(
        title=title,
        headings=("index", "kind", "before", "after", "size", "notes"),
        rows=tuple(
            (
                index.name,
                index.kind,
                str(index.segments_before),
                str(index.segments_after),
                format_bytes(index.size_bytes),
                index.problem or "; ".join(index.refused),
            )
            for index in indexes
        ),
    )


def _index_row(index: IndexHealth, rows: int) -> tuple[str, ...]:
    share = index.covered_rows / rows if rows else 1.0
    return (
        index.name,
        index.kind,
        str(len(index.segments)),
        f"{index.covered_rows:,} ({share:.1%})",
        f"{index.gap_rows:,}",
        format_bytes(index.size_bytes),
        _notes(index),
    )


def _notes(index: IndexHealth) -> str:
    notes = [index.problem] if index.problem else []
    notes += ["may answer with old values"] if index.is_stale else []
    notes += [f"{gap.rows:,} rows {gap.cause.value.replace('_', ' ')}" for gap in index.gaps]
    waiting = sum(segment.is_waiting for segment in index.segments)
    notes += [f"{waiting} segments wait for a deferred compaction to be caught up with"] if waiting else []
    notes += [f"at risk: {index.risk}"] if index.risk else []
    return "; ".join(notes)


def _advice_row(advice: Advice) -> tuple[str, ...]:
    cost = f"{advice.rows:,} rows" if advice.rows else ""
    read = f"{format_bytes(advice.bytes_read)} of index read" if advice.bytes_read else ""
    written = f"~{format_bytes(advice.bytes_written)} written" if advice.bytes_written else ""
    return (
        advice.verb,
        ", ".join(advice.indexes),
        advice.reason,
        advice.call,
        ", ".join(part for part in (cost, read, written) if part),
    )


def _stray_grid(title: str, versions: Sequence[int], files: Sequence[Stray]) -> Grid:
    size = format_bytes(sum(file.size_bytes for file in files))
    return Grid(
        title=f"{title}: {len(versions):,} versions, {len(files):,} files, {size}",
        headings=("file", "kind", "size", "why"),
        rows=tuple((file.path, file.kind, format_bytes(file.size_bytes), file.why) for file in files),
    )


def _kept_grids(notes: Sequence[str]) -> tuple[Grid, ...]:
    return (Grid(title="Kept", headings=("why",), rows=tuple((note,) for note in notes)),) if notes else ()
