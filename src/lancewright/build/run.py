"""Runs the tasks of a plan: train, build, merge. Returns finished segments and commits nothing."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from pyroaring import FrozenBitMap

from lancewright.build.kind_worker import PluginProbe, probe_plugins
from lancewright.build.merge_policy import plan_merges
from lancewright.build.range_merges import is_sorted_group, run_range_merges
from lancewright.build.range_stage import make_plain, run_ranged
from lancewright.build.spec import BuildSettings, BuildWork, MergeWork, TrainWork, Written
from lancewright.build.stage import run_stage
from lancewright.build.worker import build_index_segment, merge_index_segments, train_index_model
from lancewright.kinds.registry import require_plugin
from lancewright.runtime.runner import ignore_outcome, run_tasks
from lancewright.runtime.task import Job, Task
from lancewright.table.conflict import BuiltSegment, FragmentProof, prove_fragments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lancewright.build.plan import BuildPlan, IndexPlan
    from lancewright.build.stage import BuildContext
    from lancewright.model.index import Segment
    from lancewright.model.snapshot import TableSnapshot


def run_build(
    context: BuildContext, plan: BuildPlan, snapshot: TableSnapshot
) -> dict[str, tuple[BuiltSegment, ...]]:
    """Build what the plan lacks, merge it, and return the segments of each index, finished and unpublished."""
    proofs = _record_proofs(context, plan, snapshot)
    settings = BuildSettings(
        table=context.table.pinned(snapshot.version),
        specs=tuple(index.spec for index in plan.indexes),
        folder=context.journal.folder,
    )
    _require_plugins(context, plan)
    run_stage(context, "train", Job(worker=train_index_model, settings=settings), _train_tasks(context, plan))
    written = run_stage(
        context, "build", Job(worker=build_index_segment, settings=settings), _build_tasks(plan)
    )
    written += run_ranged(context, plan, settings, snapshot)
    built = {
        index.spec.name: (*index.reused, *_attach(index, written, proofs[index.spec.name]))
        for index in plan.indexes
    }
    built = make_plain(context, plan, settings, snapshot, built)
    final = _merge(context, plan, settings, built, proofs)
    rewritten = run_stage(
        context,
        "rewrite",
        Job(worker=merge_index_segments, settings=settings),
        _rewrite_tasks(plan, snapshot),
    )
    rewritten += run_range_merges(context, plan, snapshot)
    return {
        index.spec.name: (
            *final[index.spec.name],
            *_attach(index, rewritten, proofs[index.spec.name]),
        )
        for index in plan.indexes
    }


def _require_plugins(context: BuildContext, plan: BuildPlan) -> None:
    """One task that looks which kinds its machine has, before many find out one by one."""
    busy = [index for index in plan.indexes if index.groups or index.rewrites]
    wanted = {index.spec.plugin for index in busy if index.spec.plugin is not None}
    if not wanted:
        return
    refs = tuple((ref, require_plugin(ref.name).writes) for ref in sorted(wanted, key=lambda ref: ref.name))
    task = Task(id="probe-kinds", payload=None, label="kinds")
    job = Job(worker=probe_plugins, settings=PluginProbe(refs=refs))
    run_tasks(context.runner, job, [task], ignore_outcome, context.attempts_max)


def _record_proofs(
    context: BuildContext, plan: BuildPlan, snapshot: TableSnapshot
) -> dict[str, dict[int, FragmentProof]]:
    proofs = {
        index.spec.name: prove_fragments(
            (fragment for fragment in snapshot.fragments if fragment.id in index.wanted),
            index.spec.leaf_ids,
        )
        for index in plan.indexes
    }
    context.journal.record_round(snapshot.version, proofs)
    return {name: {proof.fragment_id: proof for proof in entries} for name, entries in proofs.items()}


def _train_tasks(context: BuildContext, plan: BuildPlan) -> list[Task]:
    tasks = []
    for number, index in enumerate(plan.indexes):
        path = index.spec.model_path
        if path is None or not index.groups or context.journal.read_model(path) is not None:
            continue
        task_id = f"train-{index.spec.name}"
        tasks.append(
            Task(id=task_id, payload=TrainWork(task_id=task_id, spec_number=number), label=index.spec.name)
        )
    return tasks


def _build_tasks(plan: BuildPlan) -> list[Task]:
    tasks = []
    for number, index in enumerate(plan.indexes):
        for group in () if index.ranged else index.groups:
            task_id = f"build-{uuid.uuid4().hex[:12]}"
            work = BuildWork(task_id=task_id, spec_number=number, fragments=group.fragments, rows=group.rows)
            tasks.append(
                Task(
                    id=task_id,
                    payload=work,
                    label=index.spec.name,
                    fragments=group.fragments,
                    rows=group.rows,
                )
            )
    return tasks


def _rewrite_tasks(plan: BuildPlan, snapshot: TableSnapshot) -> list[Task]:
    """Rewriting a segment that the table has drops what it holds besides its coverage and applies deferred moves."""
    tasks = []
    for number, index in enumerate(plan.indexes):
        for group in index.rewrites:
            if is_sorted_group(group):
                continue
            fragments = FrozenBitMap().union(*(source.covered for source in group)) & index.wanted
            rows = sum(snapshot.fragments_by_id[fragment].rows for fragment in fragments)
            tasks.append(_group_task("rewrite", number, index.spec.name, group, tuple(fragments), rows))
    return tasks


def _group_task(
    verb: str, number: int, name: str, sources: tuple[Segment, ...], fragments: tuple[int, ...], rows: int
) -> Task:
    task_id = f"{verb}-{uuid.uuid4().hex[:12]}"
    work = MergeWork(
        task_id=task_id,
        spec_number=number,
        sources=sources,
        rows=rows,
        fragments=fragments,
        may_lose=verb == "rewrite",
    )
    return Task(id=task_id, payload=work, label=name, fragments=fragments, rows=rows)


def _attach(
    index: IndexPlan, written: Sequence[Written], proofs: dict[int, FragmentProof]
) -> tuple[BuiltSegment, ...]:
    return tuple(
        BuiltSegment(
            segment=entry.segment,
            rows=entry.rows,
            proofs=tuple(proofs[fragment] for fragment in entry.segment.covered),
        )
        for entry in written
        if entry.index == index.spec.name
    )


def _merge(
    context: BuildContext,
    plan: BuildPlan,
    settings: BuildSettings,
    built: dict[str, tuple[BuiltSegment, ...]],
    proofs: dict[str, dict[int, FragmentProof]],
) -> dict[str, tuple[BuiltSegment, ...]]:
    """Merge groups of segments on executors; only segments whose fragments still are what this round read."""
    tasks: list[Task] = []
    final: dict[str, list[BuiltSegment]] = {name: [] for name in built}
    for number, index in enumerate(plan.indexes):
        name = index.spec.name
        for group in _merge_groups(index, built[name], plan.version):
            if len(group) == 1:
                final[name].append(group[0])
            else:
                tasks.append(_merge_task(number, name, group))
    merged = run_stage(context, "merge", Job(worker=merge_index_segments, settings=settings), tasks)
    for index in plan.indexes:
        final[index.spec.name] += _attach(index, merged, proofs[index.spec.name])
    return {name: tuple(segments) for name, segments in final.items()}


def _merge_groups(
    index: IndexPlan, built: Sequence[BuiltSegment], version: int
) -> tuple[tuple[BuiltSegment, ...], ...]:
    if not index.mergeable:
        return tuple((candidate,) for candidate in built)
    return plan_merges(built, index.merge_policy, version)


def _merge_task(number: int, name: str, group: Sequence[BuiltSegment]) -> Task:
    fragments = tuple(fragment for candidate in group for fragment in candidate.segment.covered)
    sources = tuple(candidate.segment for candidate in group)
    return _group_task("merge", number, name, sources, fragments, sum(candidate.rows for candidate in group))
