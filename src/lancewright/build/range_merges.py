"""Runs those rewrites of a plan whose sources are sorted by ranges, so that the result is sorted by ranges again."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from lancewright.build.range_merge import RangeMerge, merge_ranges
from lancewright.build.spec import Written
from lancewright.build.watch import JournalWatch
from lancewright.kinds.btree.empty_ranges import count_parts
from lancewright.observe.events import StageFinished, StageStarted, TaskFinished

if TYPE_CHECKING:
    from lancewright.build.plan import BuildPlan
    from lancewright.build.spec import IndexSpec
    from lancewright.build.stage import BuildContext
    from lancewright.model.index import Segment
    from lancewright.model.snapshot import TableSnapshot


def is_sorted_group(group: tuple[Segment, ...]) -> bool:
    """True when one of these segments has ranges: Lance's own merge would copy all of them into one file."""
    return any(count_parts(source) for source in group)


def run_range_merges(context: BuildContext, plan: BuildPlan, snapshot: TableSnapshot) -> list[Written]:
    """Merge each such group by ranges; each merge has tasks of its own on the executors."""
    todo = [
        (index.spec, group) for index in plan.indexes for group in index.rewrites if is_sorted_group(group)
    ]
    if not todo:
        return []
    job_id = context.journal.build_id
    context.sink.record(StageStarted(job_id=job_id, stage="sort", tasks=len(todo), rows=0))
    # Watches for nothing: these merges write no records of their own. But the lease has to be kept.
    with JournalWatch(context.journal, lambda _written: None, context.poll_s):
        written = [_merge(context, snapshot, spec, group) for spec, group in todo]
    context.sink.record(StageFinished(job_id=job_id, stage="sort", tasks=len(todo)))
    return written


def _merge(
    context: BuildContext, snapshot: TableSnapshot, spec: IndexSpec, group: tuple[Segment, ...]
) -> Written:
    merge = RangeMerge(
        table=context.table,
        snapshot=snapshot,
        column=spec.column,
        sources=group,
        attempts_max=context.attempts_max,
    )
    result = merge_ranges(merge, context.runner)
    written = Written(
        task_id=f"sort-{uuid.uuid4().hex[:12]}",
        index=spec.name,
        version=snapshot.version,
        segment=result.segment,
        rows=result.rows,
        seconds=result.seconds,
    )
    context.journal.record_segment(written)
    context.sink.record(
        TaskFinished(
            job_id=context.journal.build_id,
            stage="sort",
            task_id=written.task_id,
            index=spec.name,
            fragments=tuple(result.segment.covered),
            rows=result.rows,
            seconds=result.seconds,
        )
    )
    return written
