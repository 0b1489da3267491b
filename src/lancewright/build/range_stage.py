"""Runs the range-sorted indexes of a plan in one exchange, and copies ranges into one file where they would not be safe."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from lancewright.build.range_build import RangeBuild, build_ranges
from lancewright.build.range_copy import CopyWork, copy_ranges
from lancewright.build.range_safety import keeps_ranges
from lancewright.build.spec import BuildSettings, Written
from lancewright.build.stage import run_stage
from lancewright.build.watch import JournalWatch
from lancewright.kinds.btree.empty_ranges import find_ranged
from lancewright.observe.events import StageFinished, StageStarted, TaskFinished
from lancewright.runtime.task import Job, Task
from lancewright.table.side_files import SideFiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lancewright.build.plan import BuildPlan, IndexPlan
    from lancewright.build.range_build import RangeResult
    from lancewright.build.stage import BuildContext
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.table.conflict import BuiltSegment


def run_ranged(
    context: BuildContext, plan: BuildPlan, settings: BuildSettings, snapshot: TableSnapshot
) -> list[Written]:
    """Build every range-sorted index the plan has work for; the segments are finished and unpublished."""
    todo = [
        index for index in plan.indexes if index.ranged and any(group.fragments for group in index.groups)
    ]
    if not todo:
        return []
    builds = [
        RangeBuild(
            table=context.table,
            folder=settings.folder,
            spec=index.spec,
            snapshot=snapshot,
            groups=index.groups,
            attempts_max=context.attempts_max,
        )
        for index in todo
    ]
    job_id = context.journal.build_id
    rows = sum(build.rows for build in builds)
    context.sink.record(StageStarted(job_id=job_id, stage="sort", tasks=len(builds), rows=rows))
    # Watches for nothing: the sort writes no segment records of its own. But the lease has to be kept.
    with JournalWatch(context.journal, lambda _written: None, context.poll_s):
        results = build_ranges(builds, context.runner)
    written = [_written(settings, index, result) for index, result in zip(todo, results, strict=True)]
    for build, entry in zip(builds, written, strict=True):
        context.journal.record_segment(entry)
        _tell_sorted(context, build, entry)
    context.sink.record(StageFinished(job_id=job_id, stage="sort", tasks=len(builds)))
    return written


def make_plain(
    context: BuildContext,
    plan: BuildPlan,
    settings: BuildSettings,
    snapshot: TableSnapshot,
    built: Mapping[str, Sequence[BuiltSegment]],
) -> dict[str, tuple[BuiltSegment, ...]]:
    """Copy those segments whose ranges must not be shown into one file each, also those of an earlier attempt."""
    tasks: dict[str, Task] = {}
    for number, index in enumerate(plan.indexes):
        if keeps_ranges(snapshot, settings.specs, index.spec):
            continue
        for candidate in built[index.spec.name]:
            if find_ranged([candidate.segment]):
                tasks[candidate.segment.uuid] = _copy_task(number, index.spec.name, candidate)
    written = run_stage(context, "copy", Job(worker=copy_ranges, settings=settings), list(tasks.values()))
    by_task = {entry.task_id: entry.segment for entry in written}
    copies = {source: by_task[task.id] for source, task in tasks.items()}
    for source in copies:
        # Nobody knows of the ranges, so they go at once.
        SideFiles(context.table).delete_segment(source)
    return {
        name: tuple(
            replace(candidate, segment=copies.get(candidate.segment.uuid, candidate.segment))
            for candidate in candidates
        )
        for name, candidates in built.items()
    }


def _copy_task(number: int, name: str, candidate: BuiltSegment) -> Task:
    task_id = f"copy-{uuid.uuid4().hex[:12]}"
    work = CopyWork(task_id=task_id, spec_number=number, source=candidate.segment, rows=candidate.rows)
    return Task(
        id=task_id,
        payload=work,
        label=name,
        fragments=tuple(candidate.segment.covered),
        rows=candidate.rows,
    )


def _tell_sorted(context: BuildContext, build: RangeBuild, entry: Written) -> None:
    context.sink.record(
        TaskFinished(
            job_id=context.journal.build_id,
            stage="sort",
            task_id=entry.task_id,
            index=entry.index,
            fragments=build.fragments,
            rows=entry.rows,
            seconds=entry.seconds,
        )
    )


def _written(settings: BuildSettings, index: IndexPlan, result: RangeResult) -> Written:
    return Written(
        task_id=f"sort-{index.spec.name}",
        index=index.spec.name,
        version=settings.table.version or 0,
        segment=result.segment,
        rows=result.rows,
        seconds=result.seconds,
    )
