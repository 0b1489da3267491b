"""The refresh verb: builds what indexes do not cover, as new segments like those they have, all in one job and one commit.

Reads only rows no segment answers for. A segment that would answer wrongly beside a newer one is rewritten from its own
files where the kind allows, else its fragments are built anew with the rest.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lancewright.build.budget import Cost
from lancewright.build.index_work import IndexWork, adopt_segments, plan_round
from lancewright.build.rounds import BuildOptions, Order
from lancewright.build.sizes import estimate_value_bytes
from lancewright.errors import LancewrightError, NotFoundError
from lancewright.kinds.plugin_kind import PluginKind
from lancewright.kinds.registry import native_kind_of
from lancewright.maintain.evidence import Past
from lancewright.maintain.inherit import begin_refresh, inherit_request
from lancewright.maintain.judgement import EXPLANATIONS, Fate, Judgement, explain_unkept
from lancewright.maintain.kind_judgement import inherit_kind_request, is_kept, judge
from lancewright.maintain.rationed import Rationed, cost_of_rewrites, run_rationed
from lancewright.table.snapshot_reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lancewright.build.plan import BuildPlan
    from lancewright.build.resolve import ResolvedRequest
    from lancewright.build.rounds import Move
    from lancewright.model.index import IndexState
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.observe.sinks import Sink
    from lancewright.runtime.runner import Runner
    from lancewright.table.history import History
    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshedIndex:
    """What a refresh did for one index, or would do; ``problem`` says why it could do nothing.

    ``is_kept``: this installation can read segments of its kind.
    """

    name: str
    kind: str
    rows: int = 0
    fragments: int = 0
    kept: int = 0
    rewritten: int = 0
    rebuilt: int = 0
    dropped: int = 0
    reasons: tuple[str, ...] = ()
    problem: str | None = None
    is_kept: bool = True

    @property
    def is_current(self) -> bool:
        """True when there was nothing to do."""
        return self.problem is None and not (self.fragments or self.rewritten or self.rebuilt or self.dropped)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshReceipt:
    """What a refresh did: the version it committed last, and each index. ``rounds`` is 0 when nothing was due.

    ``put_off``: the indexes that the budget of the run did not reach.
    """

    table: str
    version: int
    rounds: int
    seconds: float
    indexes: tuple[RefreshedIndex, ...]
    put_off: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RefreshPlan:
    """What a refresh is going to do."""

    snapshot: TableSnapshot
    works: tuple[IndexWork, ...]
    indexes: tuple[RefreshedIndex, ...]

    def to_build_plan(self, parallelism: int) -> BuildPlan:
        """The tasks."""
        return plan_round(self.snapshot, self.works, parallelism)


def plan_refresh(table: TableRef, names: Collection[str] | None = None) -> RefreshPlan:
    """Judge the indexes of these names (None: all) at the latest version; writes nothing."""
    snapshot = read_snapshot(table.latest())
    past = Past(table, snapshot)
    works: list[IndexWork] = []
    told: list[RefreshedIndex] = []
    for index in choose_indexes(snapshot, names):
        try:
            work, line = _plan_index(table, snapshot, index, past)
        except LancewrightError as error:
            work, line = None, RefreshedIndex(name=index.name, kind=index.kind, problem=str(error))
        works += [work] if work is not None else []
        told.append(line)
    return RefreshPlan(snapshot=snapshot, works=tuple(works), indexes=tuple(told))


def refresh_indexes(
    table: TableRef,
    runner: Runner,
    sink: Sink,
    options: BuildOptions,
    names: Collection[str] | None = None,
) -> RefreshReceipt:
    """Bring indexes up to date in one job and one commit."""
    started = time.monotonic()
    plan = plan_refresh(table, names)
    end = Rationed(version=plan.snapshot.version, rounds=0, put_off=())
    if plan.works:
        order = Order(
            table=table, snapshot=plan.snapshot, works=plan.works, move=move_refresh(table, plan.snapshot)
        )
        cost = partial(cost_of_refresh, plan.snapshot)
        end = run_rationed(order, runner, sink, options, cost)
    return RefreshReceipt(
        table=table.name,
        version=end.version,
        rounds=end.rounds,
        seconds=time.monotonic() - started,
        indexes=tuple(index for index in plan.indexes if index.name not in end.put_off),
        put_off=end.put_off,
    )


def cost_of_refresh(snapshot: TableSnapshot, work: IndexWork) -> Cost:
    """Rows to read, at the width of the columns, and to write, at the width of the index, beside the segments to rewrite."""
    (planned,) = plan_round(snapshot, [work], 1).indexes
    read = sum(estimate_value_bytes(column.type) for column in work.resolved.spec.columns) * planned.rows
    rewritten = cost_of_rewrites(work)
    return Cost(
        tasks=len(planned.groups) + rewritten.tasks,
        size_bytes=read + planned.estimated_bytes + rewritten.size_bytes,
    )


def choose_indexes(snapshot: TableSnapshot, names: Collection[str] | None) -> tuple[IndexState, ...]:
    """The indexes of these names, all of them without names; raises NotFoundError for one that is not there."""
    known = {index.name: index for index in snapshot.indexes}
    for name in names or ():
        if name not in known:
            raise NotFoundError(
                f"Table {snapshot.uri} has no index {name!r}",
                f"Its indexes are: {', '.join(known) or 'none'}.",
            )
    return tuple(known.values() if names is None else (known[name] for name in dict.fromkeys(names)))


def move_refresh(table: TableRef, planned: TableSnapshot) -> Move:
    """How a refresh goes on after a conflict: judge the index again, and keep what is finished and still lacking."""
    origins = {
        index.name: frozenset(segment.uuid for segment in planned.segments_named(index.name))
        for index in planned.indexes
    }

    def move(work: IndexWork, snapshot: TableSnapshot, history: History) -> IndexWork | None:
        index = snapshot.index(work.name)
        if index is None or not _is_same(work, snapshot, origins):
            return (
                None  # dropped, or built anew by another writer: theirs is newer than what was planned here
            )
        judgement = judge(table, snapshot, index, Past(table, snapshot))
        if judgement.is_current:
            return None
        own = isinstance(work.resolved.kind, PluginKind)
        # A column of it may have another name by now.
        resolved = _inherit(table, snapshot, judgement) if own else work.resolved
        return adopt_segments(begin_refresh(judgement, resolved), snapshot, work.built, history)

    return move


def _is_same(work: IndexWork, snapshot: TableSnapshot, origins: Mapping[str, frozenset[str]]) -> bool:
    """True while the index still has a segment that was there when the work was planned, or one made by it since."""
    for column in work.resolved.spec.columns:
        found = snapshot.columns_by_field_id.get(column.field_id)
        if found is None or found.type != column.type:
            return False
    known = origins[work.name] | {segment.uuid for segment in work.stays}
    return any(segment.uuid in known for segment in snapshot.segments_named(work.name))


def _plan_index(
    table: TableRef, snapshot: TableSnapshot, index: IndexState, past: Past
) -> tuple[IndexWork | None, RefreshedIndex]:
    if not is_kept(index):
        problem = explain_unkept(index)
        return None, RefreshedIndex(name=index.name, kind=index.kind, problem=problem, is_kept=False)
    judgement = judge(table, snapshot, index, past)
    if judgement.is_current or not snapshot.rows:
        return None, RefreshedIndex(name=index.name, kind=index.kind, kept=len(index.segments))
    work = begin_refresh(judgement, _inherit(table, snapshot, judgement))
    return work, _tell(snapshot, judgement)


def _inherit(table: TableRef, snapshot: TableSnapshot, judgement: Judgement) -> ResolvedRequest:
    kind = native_kind_of(judgement.index)
    if kind is None:
        return inherit_kind_request(table.pinned(snapshot.version), snapshot, judgement)
    return inherit_request(table, snapshot, judgement, kind)


def _tell(snapshot: TableSnapshot, judgement: Judgement) -> RefreshedIndex:
    causes = dict.fromkeys(verdict.cause for verdict in judgement.verdicts if verdict.fate is not Fate.KEEP)
    return RefreshedIndex(
        name=judgement.index.name,
        kind=judgement.index.kind,
        rows=sum(snapshot.fragments_by_id[fragment].rows for fragment in judgement.to_build),
        fragments=len(judgement.to_build),
        kept=len(judgement.segments(Fate.KEEP)),
        rewritten=len(judgement.segments(Fate.REWRITE)),
        rebuilt=len(judgement.segments(Fate.REBUILD)),
        dropped=len(judgement.segments(Fate.DROP)),
        reasons=tuple(EXPLANATIONS[cause] for cause in causes),
    )
