"""The compact verb: small fragments and deleted rows go, on executors, and indexes stay true.

How indexes are carried over is chosen in ``compact_way``. What no way can carry over is refreshed in the same run, and so is what an
earlier compaction lost that died before it could.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args

from pyroaring import FrozenBitMap

from lancewright.build.backoff import backoff_s
from lancewright.build.budget import Cost
from lancewright.errors import ConflictError, InvalidRequestError
from lancewright.maintain.catch_up import CatchUpReceipt, catch_up
from lancewright.maintain.compact_way import Remap, Way, choose_way
from lancewright.maintain.compact_worker import CompactSettings, CompactWork, compact_fragments
from lancewright.maintain.evidence import Past
from lancewright.maintain.gaps import GapCause, describe_gaps
from lancewright.maintain.protection import end_protection, protect_waiting
from lancewright.maintain.refresh import RefreshReceipt, refresh_indexes
from lancewright.model.coverage import measure_coverage
from lancewright.observe.events import FragmentsCompacted, StageFinished, StageStarted, TaskFinished
from lancewright.runtime.runner import run_tasks
from lancewright.runtime.task import Job, Task
from lancewright.table.compaction import (
    CompactionPart,
    commit_compaction,
    commit_compaction_alone,
    plan_compaction,
)
from lancewright.table.snapshot_reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lancewright.build.rounds import BuildOptions
    from lancewright.model.index import IndexState
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.observe.sinks import Sink
    from lancewright.runtime.runner import Runner
    from lancewright.runtime.task import TaskOutcome
    from lancewright.table.location import TableRef

ROWS_PER_FRAGMENT = 1024 * 1024
DELETED_SHARE = 0.1
FRAGMENTS_MIN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactRules:
    """How a table is compacted. ``remap`` of None chooses by row ids and by the kinds of index the table has.

    ``fragments_min``: fewer small neighbours than this are left as they are; a fragment with many deleted rows never is.
    """

    remap: Remap | None = None
    rows_per_fragment: int = ROWS_PER_FRAGMENT
    deleted_share: float = DELETED_SHARE
    fragments_min: int = FRAGMENTS_MIN

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
    bytes_read: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactReceipt:
    """What a compaction did. ``lost`` counts the groups that other writers changed again and again.

    ``put_off``: the groups that the budget of the run did not reach.
    """

    table: str
    version: int
    remap: Remap
    rounds: int
    seconds: float
    fragments_before: int
    fragments_after: int
    lost: int = 0
    put_off: int = 0
    caught_up: CatchUpReceipt | None = None
    refreshed: RefreshReceipt | None = None


def plan_compact(table: TableRef, rules: CompactRules | None = None) -> CompactPlan:
    """Say what a compaction would do; writes nothing."""
    snapshot = read_snapshot(table.latest())
    chosen = rules or CompactRules()
    way = choose_way(snapshot, chosen.remap)
    parts = _plan_parts(table.pinned(snapshot.version), snapshot, chosen, way)
    return CompactPlan(
        table=table.name,
        version=snapshot.version,
        remap=way.remap,
        tasks=len(parts),
        fragments=sum(len(part.fragments) for part in parts),
        rows=sum(part.rows for part in parts),
        bytes_read=sum(_size_of(snapshot, part) for part in parts),
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
    end_protection(table, sink, run.job_id)
    refreshed = None if run.way.drops else _refresh_lost(table, runner, sink, options)
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
        put_off=run.put_off,
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
    put_off: int = 0

    def compact(self) -> tuple[int, int]:
        """Plan, run and commit until nothing is lost; the groups lost for good, and the rounds it took."""
        rounds = conflicts = lost = 0
        planned: FrozenBitMap | None = None
        while conflicts < self.options.rounds_max:
            snapshot = read_snapshot(self.table.latest())
            # Another writer may have made an index meanwhile that another way suits.
            self.way = choose_way(snapshot, self.rules.remap)
            pinned = self.table.pinned(snapshot.version)
            parts = _plan_parts(pinned, snapshot, self.rules, self.way)
            if planned is None:
                planned = FrozenBitMap().union(*(part.fragments for part in parts))
            # What comes out of one round, and what others append meanwhile, is for the next compaction.
            parts = tuple(part for part in parts if part.fragments <= planned)
            chosen = self._choose(snapshot, parts)
            self.put_off = len(parts) - len(chosen)
            if not chosen:
                return 0, rounds
            if self.way.defers:
                protect_waiting(self.table, snapshot, self.sink, self.job_id)
            lost = self._round(pinned, chosen)
            rounds += 1
            if lost:
                conflicts += 1
                self.options.sleep(backoff_s(conflicts - 1))
            elif not self.put_off or not self.options.budget.is_timed:
                return 0, rounds
        return lost, rounds

    def _choose(self, snapshot: TableSnapshot, parts: Sequence[CompactionPart]) -> tuple[CompactionPart, ...]:
        """The parts of one round, as far as the budget reaches: with a clock to look at as many as run at once."""
        budget = self.options.budget
        if budget.is_timed and parts and not budget.is_over:
            parts = parts[: self.runner.parallelism]
        return tuple(
            part for part in parts if budget.take(Cost(tasks=1, size_bytes=2 * _size_of(snapshot, part)))
        )

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
        results = [result for _, result in finished]
        if self.way.drops:
            version = commit_compaction_alone(self.table, results)
        else:
            version = commit_compaction(self.table, results, options)
        self.has_committed = True
        self.sink.record(
            FragmentsCompacted(
                job_id=self.job_id,
                version=version,
                fragments=tuple(sorted(fragment for task, _ in finished for fragment in task.fragments)),
                deferred=self.way.defers,
            )
        )


def _plan_parts(
    pinned: TableRef, snapshot: TableSnapshot, rules: CompactRules, way: Way
) -> tuple[CompactionPart, ...]:
    """What is worth its cost of what Lance would compact."""
    known = snapshot.fragments_by_id

    def is_worth(part: CompactionPart) -> bool:
        if len(part.fragments) >= rules.fragments_min:
            return True
        fragments = [known[fragment] for fragment in part.fragments]
        return any(one.deleted_rows > rules.deleted_share * one.physical_rows for one in fragments)

    return tuple(part for part in plan_compaction(pinned, _options(rules, way)) if is_worth(part))


def _size_of(snapshot: TableSnapshot, part: CompactionPart) -> int:
    known = snapshot.fragments_by_id
    return sum(file.size_bytes or 0 for fragment in part.fragments for file in known[fragment].files)


def _options(rules: CompactRules, way: Way) -> Mapping[str, Any]:  # Any: each option has its own type
    return {
        "target_rows_per_fragment": rules.rows_per_fragment,
        "materialize_deletions_threshold": rules.deleted_share,
        # When it does not defer, Lance plans nothing for fragments that a kind covers which it does not know.
        "defer_index_remap": way.defers or way.drops,
    }


def _refresh_lost(
    table: TableRef, runner: Runner, sink: Sink, options: BuildOptions
) -> RefreshReceipt | None:
    """Refresh the indexes that do not cover what a compaction made, this one or an earlier one that died before it could."""
    snapshot = read_snapshot(table.latest())
    past = Past(table, snapshot)
    names = [index.name for index in snapshot.indexes if _has_lost(snapshot, index, past)]
    return refresh_indexes(table, runner, sink, options, names) if names else None


def _has_lost(snapshot: TableSnapshot, index: IndexState, past: Past) -> bool:
    gaps = describe_gaps(index, None, measure_coverage(snapshot, index), past)
    return any(gap.cause is GapCause.COMPACTED for gap in gaps)
