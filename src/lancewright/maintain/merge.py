"""The merge verb: fewer and larger segments, merged on executors and swapped in one commit. Reads no row of the table."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lancewright.build.rounds import BuildOptions, Order, run_rounds
from lancewright.errors import LancewrightError
from lancewright.kinds.lance_native.inheritance import read_options, was_merged
from lancewright.kinds.registry import native_kind_of
from lancewright.maintain.evidence import Past
from lancewright.maintain.inherit import inherit_request
from lancewright.maintain.judgement import (
    EXPLANATIONS,
    TRANSLATED_BY_REWRITE,
    Cause,
    holds_more,
    is_waiting,
    judge_index,
)
from lancewright.maintain.kind_judgement import is_kept
from lancewright.maintain.kind_rewrite import choose_kind_merge
from lancewright.maintain.merge_plan import MergeRules, choose_groups
from lancewright.maintain.rationed import grant_groups
from lancewright.maintain.refresh import choose_indexes
from lancewright.maintain.rewrite import begin_rewrite, move_rewrite
from lancewright.table.segment_reader import SegmentReader
from lancewright.table.snapshot_reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from lancewright.build.index_work import IndexWork
    from lancewright.kinds.lance_native.definition import NativeKind
    from lancewright.model.index import IndexState, Segment
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.observe.sinks import Sink
    from lancewright.runtime.runner import Runner
    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedIndex:
    """What a merge did for one index, or would do; ``refused`` says of which segments it kept off, and why."""

    name: str
    kind: str
    segments_before: int
    segments_after: int
    size_bytes: int = 0
    refused: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def is_due(self) -> bool:
        """True when there is something to merge."""
        return self.segments_after < self.segments_before


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeReceipt:
    """What a merge did: the version it committed last, and each index. ``rounds`` is 0 when nothing was due.

    ``put_off``: the indexes of which the budget of the run did not reach all groups of segments.
    """

    table: str
    version: int
    rounds: int
    seconds: float
    indexes: tuple[MergedIndex, ...]
    put_off: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class MergePlan:
    """What a merge is going to do."""

    snapshot: TableSnapshot
    works: tuple[IndexWork, ...]
    indexes: tuple[MergedIndex, ...]


def plan_merge(
    table: TableRef, names: Collection[str] | None = None, rules: MergeRules | None = None
) -> MergePlan:
    """Choose what to merge at the latest version; writes nothing."""
    snapshot = read_snapshot(table.latest())
    past = Past(table, snapshot)
    works: list[IndexWork] = []
    told: list[MergedIndex] = []
    for index in choose_indexes(snapshot, names):
        try:
            work, line = plan_index_merge(table, snapshot, index, past, rules or MergeRules())
        except LancewrightError as error:
            work, line = None, _unchanged(index, problem=str(error))
        works += [work] if work is not None else []
        told.append(line)
    return MergePlan(snapshot=snapshot, works=tuple(works), indexes=tuple(told))


def merge_indexes(
    table: TableRef,
    runner: Runner,
    sink: Sink,
    options: BuildOptions,
    names: Collection[str] | None = None,
    rules: MergeRules | None = None,
) -> MergeReceipt:
    """Merge segments of indexes in one job and swap them in one commit."""
    started = time.monotonic()
    plan = plan_merge(table, names, rules)
    version, rounds = plan.snapshot.version, 0
    done: list[IndexWork] = []
    for batch in [(work,) for work in plan.works] if options.budget.is_timed else [plan.works]:
        granted = [grant_groups(work, options.budget) for work in batch]
        works = tuple(work for work in granted if work.rewrites)
        if works:
            sources = {segment.uuid for work in works for group in work.rewrites for segment in group}
            order = Order(table=table, snapshot=plan.snapshot, works=works, move=move_rewrite(sources))
            end = run_rounds(order, runner, sink, options)
            version, rounds = end.snapshot.version, rounds + end.rounds
            done += works
    return MergeReceipt(
        table=table.name,
        version=version,
        rounds=rounds,
        seconds=time.monotonic() - started,
        indexes=tuple(_tell_done(index, plan.works, done) for index in plan.indexes),
        put_off=_put_off(plan.works, done),
    )


def plan_index_merge(
    table: TableRef, snapshot: TableSnapshot, index: IndexState, past: Past, rules: MergeRules
) -> tuple[IndexWork | None, MergedIndex]:
    """Choose what to merge of one index; the work is None when nothing is due."""
    kind = native_kind_of(index)
    if kind is None and is_kept(index) and len(index.segments) > 1:
        own = choose_kind_merge(table, snapshot, index, past, rules)
        return own.work(table, snapshot), _tell(index, own.groups, own.refused)
    if kind is None or len(index.segments) < 2 or not _merges(snapshot, index, kind):
        reason = "" if kind is None or len(index.segments) < 2 else _UNMERGEABLE
        return None, _unchanged(index, refused=(reason,) if reason else ())
    refusals = _refuse(snapshot, index, kind, past)
    allowed = [segment for segment in index.segments if segment.uuid not in refusals]
    # Without a look at their files nothing would be merged anyway when there are too few of them.
    files = {segment.uuid: SegmentReader(table.pinned(snapshot.version), segment) for segment in allowed}
    merged = [segment.uuid for segment in allowed if was_merged(kind, files[segment.uuid])]
    refusals |= dict.fromkeys(merged, _MERGED_ALREADY)
    likeness = {
        segment.uuid: _likeness(kind, segment, files[segment.uuid])
        for segment in allowed
        if segment.uuid not in refusals
    }
    groups = choose_groups(index.segments, refusals, likeness, rules)
    told = _tell(index, groups, dict.fromkeys(refusals.values()))
    if not groups:
        return None, told
    judgement = judge_index(snapshot, index, kind, past.look)
    return begin_rewrite(snapshot, inherit_request(table, snapshot, judgement, kind), groups), told


def _tell_done(
    index: MergedIndex, planned: Collection[IndexWork], done: Collection[IndexWork]
) -> MergedIndex:
    """The line of an index with what was merged of it."""
    if not any(work.name == index.name for work in planned):
        return index
    groups = [group for work in done if work.name == index.name for group in work.rewrites]
    return replace(
        index,
        segments_after=index.segments_before - sum(len(group) - 1 for group in groups),
        size_bytes=sum(segment.size_bytes or 0 for group in groups for segment in group),
    )


def _put_off(planned: Collection[IndexWork], done: Collection[IndexWork]) -> tuple[str, ...]:
    groups = {work.name: len(work.rewrites) for work in done}
    return tuple(work.name for work in planned if groups.get(work.name, 0) < len(work.rewrites))


def _tell(index: IndexState, groups: Collection[tuple[Segment, ...]], refused: Iterable[str]) -> MergedIndex:
    return MergedIndex(
        name=index.name,
        kind=index.kind,
        segments_before=len(index.segments),
        segments_after=len(index.segments) - sum(len(group) - 1 for group in groups),
        size_bytes=sum(segment.size_bytes or 0 for group in groups for segment in group),
        refused=tuple(refused),
    )


def _merges(snapshot: TableSnapshot, index: IndexState, kind: NativeKind) -> bool:
    column = snapshot.columns_by_field_id[index.segments[0].field_ids[0]]
    return kind.merges(column) and not kind.single_segment


_MERGED_ALREADY = (
    "Lance does not merge codes of vectors that were merged before; build the index anew instead"
)
_UNMERGEABLE = "this kind is not merged: Lance would lose recall, or cannot"


def _refuse(snapshot: TableSnapshot, index: IndexState, kind: NativeKind, past: Past) -> dict[str, str]:
    """By uuid, why a segment must not be merged with others."""
    judgement = judge_index(snapshot, index, kind, past.look)
    refusals = {}
    for verdict in judgement.verdicts:
        segment = verdict.segment
        if verdict.cause is not Cause.FINE:
            refusals[segment.uuid] = f"refresh first: {EXPLANATIONS[verdict.cause]}"
        elif segment.base_id is not None:
            refusals[segment.uuid] = "its files lie with another table"
        elif kind.name not in TRANSLATED_BY_REWRITE and is_waiting(segment, snapshot.deferred):
            refusals[segment.uuid] = "catch up first: a deferred compaction moved its rows"
        elif holds_more(snapshot, index, segment, kind, past.look):
            refusals[segment.uuid] = "it may hold old values, which a merge would bring back; rebuild it"
    return refusals


def _likeness(kind: NativeKind, segment: Segment, files: SegmentReader) -> str:
    """What segments must have in common to be merged: their options, and for vectors the model."""
    if kind.name == "btree":
        return ""  # pages of any size merge, and so do ranges with rows as they lie
    options = read_options(kind, segment, files)
    content = json.dumps({name: _plain(value) for name, value in options.items()}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _plain(value: Any) -> Any:  # Any: an option's value
    return hashlib.sha256(value.tobytes()).hexdigest() if isinstance(value, np.ndarray) else value


def _unchanged(index: IndexState, **more: Any) -> MergedIndex:  # Any: each field has its own type
    count = len(index.segments)
    return MergedIndex(name=index.name, kind=index.kind, segments_before=count, segments_after=count, **more)
