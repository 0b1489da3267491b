"""The compact verb: small fragments and deleted rows go, on executors, and indexes stay true.

Two ways for the indexes. ``reuse`` leaves segments alone and has readers translate, until a catch-up. ``rewrite`` ends with segments that
hold the new addresses: by deferring and catching up in the same run, on executors, where every kind goes along; else Lance
remaps all indexes at once in its commit. What no way can carry over is refreshed in the same run.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from lancewright.build.backoff import backoff_s
from lancewright.errors import ConflictError, InvalidRequestError, UnsupportedError
from lancewright.kinds.btree.empty_ranges import find_empty_range_risk, find_ranged
from lancewright.kinds.registry import native_kind
from lancewright.maintain.catch_up import CatchUpReceipt, catch_up
from lancewright.maintain.compact_worker import CompactSettings, CompactWork, compact_fragments
from lancewright.maintain.judgement import TRANSLATED_BY_REWRITE
from lancewright.maintain.refresh import RefreshReceipt, refresh_indexes
from lancewright.model.coverage import measure_coverage
from lancewright.observe.events import FragmentsCompacted, StageFinished, StageStarted, TaskFinished
from lancewright.runtime.runner import run_tasks
from lancewright.runtime.task import Job, Task
from lancewright.table.compaction import CompactionPart, commit_compaction, plan_compaction
from lancewright.table.config import DEFER_REMAP_KEY, set_table_config, unset_table_config
from lancewright.table.snapshot_reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lancewright.build.rounds import BuildOptions
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.observe.sinks import Sink
    from lancewright.runtime.runner import Runner
    from lancewright.runtime.task import TaskOutcome
    from lancewright.table.location import TableRef

ROWS_PER_FRAGMENT = 1024 * 1024
DELETED_SHARE = 0.1
Remap: TypeAlias = Literal["rewrite", "reuse"]
# A vector or JSON index that does not say what is inside may be one of those a deferred compaction harms.
_UNCLEAR_KINDS = frozenset({"vector", "json"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactRules:
    """How a table is compacted. ``remap`` of None chooses by row ids and by the kinds of index the table has."""

    remap: Remap | None = None
    rows_per_fragment: int = ROWS_PER_FRAGMENT
    deleted_share: float = DELETED_SHARE

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        if self.remap is not None and self.remap not in get_args(Remap):
            raise InvalidRequestError(
                f"remap={self.remap!r} is no way to carry indexes over",
                f"Choose one of: {', '.join(get_args(Remap))}.",
            )
        if isinstance(self.rows_per_fragment, bool) or self.rows_per_fragment < 1:
            raise InvalidRequestError(
                f"rows_per_fragment={self.rows_per_fragment!r} makes no fragment", "Ask for one row or more."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactPlan:
    """What a compaction is going to do."""

    table: str
    version: int
    remap: Remap
    tasks: int
    fragments: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactReceipt:
    """What a compaction did. ``lost`` counts the groups that other writers changed again and again."""

    table: str
    version: int
    remap: Remap
    rounds: int
    seconds: float
    fragments_before: int
    fragments_after: int
    lost: int = 0
    caught_up: CatchUpReceipt | None = None
    refreshed: RefreshReceipt | None = None


def plan_compact(table: TableRef, rules: CompactRules | None = None) -> CompactPlan:
    """Say what a compaction would do; writes nothing."""
    snapshot = read_snapshot(table.latest())
    chosen = rules or CompactRules()
    way = choose_way(snapshot, chosen.remap)
    parts = plan_compaction(table.pinned(snapshot.version), _options(chosen, way))
    return CompactPlan(
        table=table.name,
        version=snapshot.version,
        remap=way.remap,
        tasks=len(parts),
        fragments=sum(len(part.fragments) for part in parts),
        rows=sum(part.rows for part in parts),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How indexes are carried over; ``defers``: the commit leaves them alone, and the table notes what moved."""

    remap: Remap
    defers: bool


def choose_way(snapshot: TableSnapshot, asked: Remap | None) -> Way:
    """How indexes are carried over; raises when the way asked for would harm one of them."""
    if snapshot.stable_row_ids:
        if asked == "reuse":
            raise UnsupportedError(
                "remap='reuse' defers, which Lance does not do on a table with stable row ids",
                "Leave remap out: there Lance rewrites only what holds addresses.",
            )
        _refuse_risk(snapshot)
        return Way(remap="rewrite", defers=False)
    harmed = [index.name for index in snapshot.indexes if not _follows(index.kind)]
    ranged = find_ranged(snapshot.segments)
    if harmed and snapshot.deferred:
        raise UnsupportedError(
            f"Index {harmed[0]!r} answers wrongly after a deferred compaction, and this table notes one that is not caught up with",
            "Call catch_up; build anew what still waits then, with replace=True.",
        )
    if harmed and ranged:
        raise UnsupportedError(
            f"Index {harmed[0]!r} answers wrongly after a deferred compaction, and index {ranged[0].name!r} may break in any other",
            "Drop one of them, or build the ordered one again with layout='fragment'.",
        )
    if asked == "reuse" and harmed:
        raise UnsupportedError(
            f"Index {harmed[0]!r} answers wrongly after a deferred compaction",
            "Leave remap out, or drop this index first.",
        )
    if asked == "reuse":
        return Way(remap="reuse", defers=True)
    return Way(
        remap="rewrite", defers=not harmed and (bool(ranged or snapshot.deferred) or _catches_up(snapshot))
    )


def compact_table(
    table: TableRef,
    runner: Runner,
    sink: Sink,
    options: BuildOptions,
    rules: CompactRules | None = None,
) -> CompactReceipt:
    """Compact, and see to it that every index covers afterwards what it covered before."""
    started = time.monotonic()
    before = read_snapshot(table.latest())
    chosen = rules or CompactRules()
    if before.deferred and chosen.remap != "reuse":
        catch_up(table, runner, sink, options)
        before = read_snapshot(table.latest())
    run = _Run(table, runner, sink, options, chosen, choose_way(before, chosen.remap))
    lost, rounds = run.compact()
    caught = None
    if run.way.remap == "rewrite" and run.has_committed:
        caught = catch_up(table, runner, sink, options)
    run.end_protection()
    refreshed = _refresh_lost(table, runner, sink, options, before) if run.has_committed else None
    after = read_snapshot(table.latest())
    return CompactReceipt(
        table=table.name,
        version=after.version,
        remap=run.way.remap,
        rounds=rounds,
        seconds=time.monotonic() - started,
        fragments_before=len(before.fragments),
        fragments_after=len(after.fragments),
        lost=lost,
        caught_up=caught,
        refreshed=refreshed,
    )


@dataclass(slots=True)
class _Run:
    """One compaction while it runs."""

    table: TableRef
    runner: Runner
    sink: Sink
    options: BuildOptions
    rules: CompactRules
    way: Way
    job_id: str = field(default_factory=lambda: f"compact-{uuid.uuid4().hex[:12]}")
    has_committed: bool = False
    has_protected: bool = False

    def compact(self) -> tuple[int, int]:
        """Plan, run and commit until nothing is lost; the groups lost for good, and the rounds it took."""
        lost = 0
        for number in range(self.options.rounds_max):
            snapshot = read_snapshot(self.table.latest())
            # Another writer may have made an index meanwhile that another way suits.
            self.way = choose_way(snapshot, self.rules.remap)
            pinned = self.table.pinned(snapshot.version)
            parts = plan_compaction(pinned, _options(self.rules, self.way))
            if not parts:
                return 0, number
            self._protect(snapshot)
            lost = self._round(pinned, parts)
            if not lost:
                return 0, number + 1
            self.options.sleep(backoff_s(number))
        return lost, self.options.rounds_max

    def end_protection(self) -> None:
        """Leave the table's setting as it was found, once nothing needs it."""
        if not self.has_protected:
            return
        snapshot = read_snapshot(self.table.latest())
        if not snapshot.deferred and not find_ranged(snapshot.segments):
            unset_table_config(self.table, DEFER_REMAP_KEY)

    def _protect(self, snapshot: TableSnapshot) -> None:
        """Have every engine defer while a segment waits: Lance itself remaps at once what still has the old addresses.

        Measured with Lance 14.0.2: a plain compaction after a deferred one leaves B-trees and n-grams with wrong answers.
        """
        if self.way.defers and snapshot.config.get(DEFER_REMAP_KEY) != "true":
            set_table_config(self.table, {DEFER_REMAP_KEY: "true"})
            self.has_protected = True

    def _round(self, pinned: TableRef, parts: Sequence[CompactionPart]) -> int:
        tasks = [
            Task(
                id=f"{self.job_id}-{uuid.uuid4().hex[:8]}",
                payload=CompactWork(text=part.text),
                label="table",
                fragments=tuple(part.fragments),
                rows=part.rows,
            )
            for part in parts
        ]
        rows = sum(task.rows for task in tasks)
        self.sink.record(StageStarted(job_id=self.job_id, stage="compact", tasks=len(tasks), rows=rows))
        done: dict[str, TaskOutcome] = {}
        try:
            run_tasks(
                self.runner,
                Job(worker=compact_fragments, settings=CompactSettings(table=pinned)),
                tasks,
                lambda task, outcome, _attempt: self._tell(task, outcome, done),
                self.options.attempts_max,
            )
        finally:
            # What other tasks finished is worth its commit, whatever became of this one.
            finished = [(task, str(done[task.id].result)) for task in tasks if task.id in done]
            lost = self._commit(finished)
        self.sink.record(StageFinished(job_id=self.job_id, stage="compact", tasks=len(tasks)))
        return lost

    def _tell(self, task: Task, outcome: TaskOutcome, done: dict[str, TaskOutcome]) -> None:
        if not outcome.ok:
            return
        done[task.id] = outcome
        self.sink.record(
            TaskFinished(
                job_id=self.job_id,
                stage="compact",
                task_id=task.id,
                index=task.label,
                fragments=task.fragments,
                rows=task.rows,
                seconds=0.0,
            )
        )

    def _commit(self, finished: Sequence[tuple[Task, str]]) -> int:
        """All at once, or one by one where another writer changed some; how many were lost."""
        if not finished:
            return 0
        try:
            self._commit_some(finished)
        except ConflictError:
            return sum(not self._commit_one(entry) for entry in finished) if len(finished) > 1 else 1
        return 0

    def _commit_one(self, entry: tuple[Task, str]) -> bool:
        try:
            self._commit_some([entry])
        except ConflictError:
            return False
        return True

    def _commit_some(self, finished: Sequence[tuple[Task, str]]) -> None:
        options = _options(self.rules, self.way)
        version = commit_compaction(self.table, [result for _, result in finished], options)
        self.has_committed = True
        self.sink.record(
            FragmentsCompacted(
                job_id=self.job_id,
                version=version,
                fragments=tuple(sorted(fragment for task, _ in finished for fragment in task.fragments)),
                deferred=self.way.defers,
            )
        )


def _options(rules: CompactRules, way: Way) -> Mapping[str, Any]:  # Any: each option has its own type
    return {
        "target_rows_per_fragment": rules.rows_per_fragment,
        "materialize_deletions_threshold": rules.deleted_share,
        "defer_index_remap": way.defers,
    }


def _refresh_lost(
    table: TableRef, runner: Runner, sink: Sink, options: BuildOptions, before: TableSnapshot
) -> RefreshReceipt | None:
    """Refresh the indexes that a compaction left with less than they had: kinds that cannot be remapped."""
    after = read_snapshot(table.latest())
    names = [
        index.name for index in after.indexes if _gap_rows(after, index.name) > _gap_rows(before, index.name)
    ]
    return refresh_indexes(table, runner, sink, options, names) if names else None


def _gap_rows(snapshot: TableSnapshot, name: str) -> int:
    index = snapshot.index(name)
    return 0 if index is None else measure_coverage(snapshot, index).gap_rows


def _catches_up(snapshot: TableSnapshot) -> bool:
    """True when every segment can be written anew; kinds that are not known here Lance would not compact otherwise."""
    return all(
        index.kind in TRANSLATED_BY_REWRITE or native_kind(index.kind) is None for index in snapshot.indexes
    )


def _follows(kind: str) -> bool:
    if kind in _UNCLEAR_KINDS:
        return False
    found = native_kind(kind)
    return found is None or found.follows_deferred_compaction


def _refuse_risk(snapshot: TableSnapshot) -> None:
    for index in snapshot.indexes:
        risk = find_empty_range_risk(snapshot, index.name)
        if risk is not None:
            raise UnsupportedError(f"A compaction may break index {index.name!r}: {risk.reason}", risk.remedy)
