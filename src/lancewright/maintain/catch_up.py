"""The catch-up verb: segments that a deferred compaction left with old row addresses are written with the new ones.

Segment by segment on executors, without reading a row, and swapped in one commit. When no segment waits any more the
table's reuse index is taken out; earlier, Lance would answer from those segments with nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancewright.build.backoff import backoff_s
from lancewright.build.rounds import BuildOptions, Order
from lancewright.errors import ConflictError, LancewrightError
from lancewright.kinds.registry import native_kind
from lancewright.maintain.evidence import Past
from lancewright.maintain.inherit import inherit_request
from lancewright.maintain.judgement import (
    EXPLANATIONS,
    TRANSLATED_BY_REWRITE,
    Fate,
    explain_unkept,
    holds_more,
    is_waiting,
    judge_index,
)
from lancewright.maintain.kind_judgement import is_kept
from lancewright.maintain.kind_rewrite import choose_kind_catch_up
from lancewright.maintain.protection import end_protection
from lancewright.maintain.rationed import cost_of_rewrites, run_rationed
from lancewright.maintain.refresh import choose_indexes
from lancewright.maintain.rewrite import begin_rewrite, move_rewrite
from lancewright.observe.events import ReuseTrimmed
from lancewright.table.commit import IndexChange, commit_segments
from lancewright.table.fragment_reuse import FRAGMENT_REUSE_NAME
from lancewright.table.snapshot_reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Collection

    from lancewright.build.index_work import IndexWork
    from lancewright.kinds.lance_native.definition import NativeKind
    from lancewright.model.index import IndexState, Segment
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.observe.sinks import Sink
    from lancewright.runtime.runner import Runner
    from lancewright.table.location import TableRef

_ATTEMPTS_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtUpIndex:
    """One index: how many segments were rewritten, and how many still wait, and why."""

    name: str
    kind: str
    rewritten: int
    waiting: int
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUpReceipt:
    """What catching up did; ``trimmed``: no segment waits any more and the table's notes are gone.

    ``put_off``: the indexes that the budget of the run did not reach.
    """

    table: str
    version: int
    seconds: float
    indexes: tuple[CaughtUpIndex, ...]
    trimmed: bool
    put_off: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CatchUpPlan:
    """What catching up is going to do."""

    snapshot: TableSnapshot
    works: tuple[IndexWork, ...]
    indexes: tuple[CaughtUpIndex, ...]


def plan_catch_up(table: TableRef, names: Collection[str] | None = None) -> CatchUpPlan:
    """Find the segments that wait; writes nothing."""
    snapshot = read_snapshot(table.latest())
    past = Past(table, snapshot)
    works: list[IndexWork] = []
    told: list[CaughtUpIndex] = []
    for index in choose_indexes(snapshot, names) if snapshot.deferred else ():
        waiting = [segment for segment in index.segments if is_waiting(segment, snapshot.deferred)]
        if not waiting:
            continue
        work, line = _plan_index(table, snapshot, index, waiting, past)
        works += [work] if work is not None else []
        told.append(line)
    return CatchUpPlan(snapshot=snapshot, works=tuple(works), indexes=tuple(told))


def catch_up(
    table: TableRef,
    runner: Runner,
    sink: Sink,
    options: BuildOptions,
    names: Collection[str] | None = None,
) -> CatchUpReceipt:
    """Rewrite what waits, then take the notes out when nothing does any more."""
    started = time.monotonic()
    plan = plan_catch_up(table, names)
    version = plan.snapshot.version
    put_off: tuple[str, ...] = ()
    if plan.works:
        sources = {segment.uuid for work in plan.works for group in work.rewrites for segment in group}
        order = Order(table=table, snapshot=plan.snapshot, works=plan.works, move=move_rewrite(sources))
        done = run_rationed(order, runner, sink, options, cost_of_rewrites)
        version, put_off = done.version, done.put_off
    trimmed = trim_reuse(table, sink, options) if plan.snapshot.deferred else None
    return CatchUpReceipt(
        table=table.name,
        version=version if trimmed is None else trimmed,
        seconds=time.monotonic() - started,
        indexes=tuple(index for index in plan.indexes if index.name not in put_off),
        trimmed=trimmed is not None,
        put_off=put_off,
    )


def trim_reuse(table: TableRef, sink: Sink, options: BuildOptions) -> int | None:
    """Take the notes of deferred compactions out of the table if no segment waits; the new version, or None."""
    for attempt in range(_ATTEMPTS_MAX):
        snapshot = read_snapshot(table.latest())
        notes = snapshot.segments_named(FRAGMENT_REUSE_NAME)
        others = [segment for segment in snapshot.segments if not segment.is_system]
        if not notes or any(is_waiting(segment, snapshot.deferred) for segment in others):
            return None
        try:
            version = commit_segments(table, snapshot, IndexChange(remove=notes))
        except ConflictError:
            options.sleep(backoff_s(attempt))
            continue
        sink.record(ReuseTrimmed(job_id=f"trim-{version}", version=version))
        end_protection(table, sink, f"trim-{version}")
        return version
    return None


def _plan_index(
    table: TableRef, snapshot: TableSnapshot, index: IndexState, waiting: list[Segment], past: Past
) -> tuple[IndexWork | None, CaughtUpIndex]:
    kind = native_kind(index.kind)
    if kind is None and is_kept(index):
        return _plan_kind_index(table, snapshot, index, waiting, past)
    reason = _refuse(snapshot, index, kind)
    if kind is None or reason is not None:
        return None, _tell(index, 0, len(waiting), reason)
    judgement = judge_index(snapshot, index, kind, past.look)
    verdicts = {verdict.segment.uuid: verdict for verdict in judgement.verdicts}
    # Old values that a rewrite does not drop would come along, and then nothing would tell of them any more.
    ready = [
        segment
        for segment in waiting
        if verdicts[segment.uuid].fate in {Fate.KEEP, Fate.REWRITE}
        and (
            kind.cleaned_by_merge
            or not holds_more(snapshot, judgement.index, verdicts[segment.uuid].segment, kind, past.look)
        )
    ]
    wrong = [EXPLANATIONS[verdicts[segment.uuid].cause] for segment in waiting if segment not in ready]
    told = _tell(index, len(ready), len(waiting) - len(ready), *(f"refresh first: {why}" for why in wrong))
    if not ready:
        return None, told
    try:
        resolved = inherit_request(table, snapshot, judgement, kind)
    except LancewrightError as error:
        return None, _tell(index, 0, len(waiting), str(error))
    return begin_rewrite(snapshot, resolved, [(segment,) for segment in ready]), told


def _plan_kind_index(
    table: TableRef, snapshot: TableSnapshot, index: IndexState, waiting: list[Segment], past: Past
) -> tuple[IndexWork | None, CaughtUpIndex]:
    try:
        own = choose_kind_catch_up(table, snapshot, index, past, waiting)
        work = own.work(table, snapshot)
    except LancewrightError as error:
        return None, _tell(index, 0, len(waiting), str(error))
    return work, _tell(index, len(own.groups), len(waiting) - len(own.groups), *own.refused)


def _refuse(snapshot: TableSnapshot, index: IndexState, kind: NativeKind | None) -> str | None:
    if kind is None:
        return explain_unkept(index)
    column = snapshot.columns_by_field_id[index.segments[0].field_ids[0]]
    if kind.name not in TRANSLATED_BY_REWRITE or not kind.merges(column):
        return "Lance cannot write this kind anew; it answers right as it is, and a rebuild ends the wait"
    if any(segment.base_id is not None for segment in index.segments):
        return "its files lie with another table"
    return None


def _tell(index: IndexState, rewritten: int, waiting: int, *reasons: str | None) -> CaughtUpIndex:
    given = tuple(dict.fromkeys(reason for reason in reasons if reason))
    return CaughtUpIndex(
        name=index.name, kind=index.kind, rewritten=rewritten, waiting=waiting, reasons=given
    )
