"""The only loop around a build: plan, run, commit, look, and again with what is left.

Built segments are committed as if from the version they were read at, so Lance rebases what it can. When it cannot,
the table is read again, finished segments are kept as far as the new version bears them out, and only what was lost
is built again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from pyroaring import FrozenBitMap

from lancewright.build.backoff import backoff_s
from lancewright.build.budget import Budget
from lancewright.build.index_work import IndexWork, plan_round
from lancewright.build.publish import find_unfinished, publish_segments
from lancewright.build.resume import adopt_finished, begin_works, clear_up, give_up, let_go, open_journal
from lancewright.build.run import run_build
from lancewright.build.stage import BuildContext
from lancewright.errors import ConflictError, InvalidRequestError
from lancewright.model.request import require_type
from lancewright.model.snapshot import TableSnapshot
from lancewright.observe.events import BuildPlanned, CommitConflicted
from lancewright.runtime.runner import ATTEMPTS_MAX
from lancewright.table.history import History, read_history
from lancewright.table.snapshot_reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lancewright.build.plan import BuildPlan
    from lancewright.observe.sinks import Sink
    from lancewright.runtime.runner import Runner
    from lancewright.table.location import TableRef

ROUNDS_MAX = 8
# Takes a work to a later version of the table; None when there is nothing left to do for it.
Move: TypeAlias = Callable[[IndexWork, TableSnapshot, History], IndexWork | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """How a build is run; none of it changes what a unit of work builds. The ``budget`` says which units begin."""

    resume: bool = True
    attempts_max: int = ATTEMPTS_MAX
    rounds_max: int = ROUNDS_MAX
    poll_s: float = 2.0
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    budget: Budget = field(default_factory=Budget, repr=False)

    def __post_init__(self) -> None:
        """Refuse a flag that is none: any text would count as yes."""
        require_type("resume", self.resume, bool)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a build stands between two rounds; done when no work is left.

    ``committed`` names the indexes a commit of this build showed.
    """

    snapshot: TableSnapshot
    works: tuple[IndexWork, ...]
    committed: frozenset[str] = frozenset()
    rounds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a verb wants built: the works at one version, and how they move to a later one."""

    table: TableRef
    snapshot: TableSnapshot
    works: tuple[IndexWork, ...]
    move: Move


def run_rounds(order: Order, runner: Runner, sink: Sink, options: BuildOptions) -> Progress:
    """Build and commit every work of an order, or raise with the table as it was and finished segments kept."""
    todo = [work.resolved for work in order.works]
    opened = open_journal(order.table, order.snapshot, todo, options.sleep, resume=options.resume)
    context = BuildContext(
        table=order.table,
        runner=runner,
        sink=sink,
        journal=opened.journal,
        attempts_max=options.attempts_max,
        poll_s=options.poll_s,
    )
    try:
        works = begin_works(context, order.snapshot, order.works, opened.finished)
        progress = _build_until_committed(
            context, Progress(snapshot=order.snapshot, works=works), options, order.move
        )
    except (InvalidRequestError, ConflictError):
        give_up(context, todo)  # an equal call would end the same way, so there is nothing to resume
        raise
    except BaseException:
        let_go(context, todo)
        raise
    if progress.works:
        let_go(context, todo)
        raise ConflictError(
            f"Other writers kept changing {order.table.name}: gave up after {options.rounds_max} rounds",
            "Run the same call again at a quieter time: finished segments are kept.",
        )
    clear_up(context)
    return progress


def _build_until_committed(
    context: BuildContext, progress: Progress, options: BuildOptions, move: Move
) -> Progress:
    parallelism = context.runner.parallelism
    while progress.works and progress.rounds < options.rounds_max:
        progress = _run_round(
            context, progress, plan_round(progress.snapshot, progress.works, parallelism), options, move
        )
    return progress


def _run_round(
    context: BuildContext, progress: Progress, plan: BuildPlan, options: BuildOptions, move: Move
) -> Progress:
    number = progress.rounds + 1
    _tell_planned(context, plan)
    works = _build(context, plan, progress.snapshot, progress.works)
    if any(work.rewrites and work.uncovered for work in works):
        # Lance left fragments out of a rewrite: their rows are read after all, before anything is shown.
        works = tuple(replace(work, rewrites=()) for work in works)
        again = plan_round(progress.snapshot, works, plan.parallelism)
        works = _build(context, again, progress.snapshot, works)
    try:
        version = publish_segments(context, progress.snapshot, works)
    except ConflictError as error:
        options.sleep(backoff_s(progress.rounds))
        return _salvage(context, replace(progress, works=works, rounds=number), error, move)
    # Lance may have rebased over commits that took fragments out of the coverage: look before calling it done.
    committed = read_snapshot(context.table.pinned(version))
    return Progress(
        snapshot=committed,
        works=_adopt_parts(context, committed, find_unfinished(context, progress.snapshot, committed, works)),
        committed=progress.committed.union(work.name for work in works),
        rounds=number,
    )


def _build(
    context: BuildContext, plan: BuildPlan, snapshot: TableSnapshot, works: Sequence[IndexWork]
) -> tuple[IndexWork, ...]:
    built = run_build(context, plan, snapshot)
    return tuple(replace(work, built=built[work.name]) for work in works)


def _salvage(context: BuildContext, progress: Progress, error: ConflictError, move: Move) -> Progress:
    """Read the table again and keep of every index what still fits."""
    snapshot = read_snapshot(context.table.latest())
    history = read_history(context.table, progress.snapshot.version, snapshot.version)
    moved = [move(work, snapshot, history) for work in progress.works]
    works = _adopt_parts(context, snapshot, [work for work in moved if work is not None])
    context.sink.record(
        CommitConflicted(
            job_id=context.journal.build_id,
            indexes=tuple(work.name for work in progress.works),
            version=snapshot.version,
            attempt=progress.rounds,
            fragments_lost=tuple(FrozenBitMap().union(*(work.uncovered for work in works))),
            problem=error.problem,
        )
    )
    return replace(progress, snapshot=snapshot, works=works)


def _adopt_parts(
    context: BuildContext, snapshot: TableSnapshot, works: Sequence[IndexWork]
) -> tuple[IndexWork, ...]:
    """A merged segment may be lost where one of those it was made of is not."""
    if not any(work.uncovered for work in works):
        return tuple(works)
    parts = context.journal.read_built(without=context.journal.read_published())
    return adopt_finished(context.table, snapshot, works, parts)


def _tell_planned(context: BuildContext, plan: BuildPlan) -> None:
    context.sink.record(
        BuildPlanned(
            job_id=context.journal.build_id,
            table=plan.table,
            version=plan.version,
            indexes=tuple(index.spec.name for index in plan.indexes),
            tasks=plan.tasks,
            tasks_reused=sum(len(index.reused) for index in plan.indexes),
            rows=plan.rows,
        )
    )
