"""The verbs that keep indexes true, as ``Table`` offers them: health, refresh, merge, compact, catch up, cleanup, verify, maintain. Each calls one function of ``maintain``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, overload

from lancewright.build.rounds import BuildOptions
from lancewright.errors import InvalidRequestError
from lancewright.maintain.catch_up import CatchUpReceipt, catch_up
from lancewright.maintain.checks.subject import NEIGHBOURS, SAMPLES, VerifyRules
from lancewright.maintain.cleanup import (
    OLDER_THAN,
    ORPHAN_AGE,
    CleanupPlan,
    CleanupReceipt,
    CleanupRules,
    clean_up,
    plan_cleanup,
)
from lancewright.maintain.compact import (
    DELETED_SHARE,
    ROWS_PER_FRAGMENT,
    CompactPlan,
    CompactReceipt,
    CompactRules,
    compact_table,
    plan_compact,
)
from lancewright.maintain.health import Health, read_health
from lancewright.maintain.maintain import (
    MaintainReceipt,
    maintain_table,
    read_policy,
    store_policy,
)
from lancewright.maintain.maintain_plan import MaintainPlan, plan_maintain
from lancewright.maintain.merge import MergePlan, MergeReceipt, merge_indexes, plan_merge
from lancewright.maintain.merge_plan import MergeRules
from lancewright.maintain.policy import Policy
from lancewright.maintain.refresh import RefreshPlan, RefreshReceipt, plan_refresh, refresh_indexes
from lancewright.maintain.verify import Repairs, VerifyReceipt, VerifyRequest, verify_indexes
from lancewright.model.request import require_type
from lancewright.report import tables, upkeep, verifying
from lancewright.report.shown import Shown
from lancewright.table.snapshot_reader import read_snapshot

if TYPE_CHECKING:
    from datetime import timedelta

    from lancewright.maintain.compact_way import Remap
    from lancewright.observe.sinks import FanOutSink
    from lancewright.runtime.runner import Runner
    from lancewright.table.location import TableRef


def _never() -> bool:
    return False


@dataclass(frozen=True, kw_only=True, repr=False)
class HealthReport(Shown, Health):
    """What is wrong with the indexes of a table, and what to do."""

    def _grids(self) -> tuple[tables.Grid, ...]:
        return upkeep.describe_health(self)


@dataclass(frozen=True, kw_only=True, repr=False)
class RefreshReport(Shown, RefreshReceipt):
    """What a refresh did, per index."""

    def _grids(self) -> tuple[tables.Grid, ...]:
        return (upkeep.describe_refresh(self),)


@dataclass(frozen=True, kw_only=True, repr=False)
class PlannedRefresh(Shown, RefreshPlan):
    """What a refresh would do, per index; nothing was written."""

    def _grids(self) -> tuple[tables.Grid, ...]:
        return (upkeep.describe_refresh_plan(self),)


@dataclass(frozen=True, kw_only=True, repr=False)
class MergeReport(Shown, MergeReceipt):
    """What a merge did, per index."""

    def _grids(self) -> tuple[tables.Grid, ...]:
        return (upkeep.describe_merge(self),)


@dataclass(frozen=True, kw_only=True, repr=False)
class PlannedMerge(Shown, MergePlan):
    """What a merge would do, per index; nothing was written."""

    def _grids(self) -> tuple[tables.Grid, ...]:
        return (upkeep.describe_merge_plan(self),)


@dataclass(frozen=True, kw_only=True, repr=False)
class CompactReport(Shown, CompactReceipt):
    """What a compaction did."""

    def _grids(self) -> tuple[tables.Grid, ...]:
        return upkeep.describe_compact(self)


@dataclass(frozen=True, kw_only=True, repr=False)
class PlannedCompact(Shown, CompactPlan):
    """What a compaction would do; nothing was written."""

    def _grids(self) -> tuple[tables.Grid, ...]:
        return (upkeep.describe_compact_plan(self),)


@dataclass(frozen=True, kw_only=True, repr=False)
class CatchUpReport(Shown, CatchUpReceipt):
    """What catching up with deferred compactions did, per index that waited."""

    def _grids(self) -> tuple[tables.Grid, ...]:
        return (upkeep.describe_catch_up(self),)


@dataclass(frozen=True, kw_only=True, repr=False)
class CleanupReport(Shown, CleanupReceipt):
    """What a cleanup removed: versions and files, with their sizes."""

    def _grids(self) -> tuple[tables.Grid, ...]:
        return upkeep.describe_cleanup(self)


@dataclass(frozen=True, kw_only=True, repr=False)
class PlannedCleanup(Shown, CleanupPlan):
    """What a cleanup would remove, file by file; nothing was written."""

    def _grids(self) -> tuple[tables.Grid, ...]:
        return upkeep.describe_cleanup_plan(self)


@dataclass(frozen=True, kw_only=True, repr=False)
class VerifyReport(Shown, VerifyReceipt):
    """What a verification found, per segment, and what it mended."""

    def _grids(self) -> tuple[tables.Grid, ...]:
        return verifying.describe_verify(self)


@dataclass(frozen=True, kw_only=True, repr=False)
class MaintainReport(Shown, MaintainReceipt):
    """What one run of ``maintain`` did, step by step."""

    def _grids(self) -> tuple[tables.Grid, ...]:
        return upkeep.describe_maintain(self)


@dataclass(frozen=True, kw_only=True, repr=False)
class PlannedMaintain(Shown, MaintainPlan):
    """What a run of ``maintain`` would do; nothing was written."""

    def _grids(self) -> tuple[tables.Grid, ...]:
        return upkeep.describe_maintain_plan(self)


class UpkeepVerbs:
    """Mixed into ``Table``."""

    _ref: TableRef
    _runner: Runner

    def health(self) -> HealthReport:
        """Say what each index covers, why not the rest, what is wrong with it, and which verbs mend it at what cost."""
        return HealthReport(**_fields(read_health(self._ref)))

    def refresh(self, names: Collection[str] | str | None = None) -> RefreshReport:
        """Build what these indexes (all of them without names) do not cover, in one job and one commit.

        Reads only rows that no segment answers for. Options and models are those the index has.
        """
        with self._sinks() as sink:
            done = refresh_indexes(self._ref, self._runner, sink, BuildOptions(), _names(names))
        return RefreshReport(**_fields(done))

    def plan_refresh(self, names: Collection[str] | str | None = None) -> PlannedRefresh:
        """Say what ``refresh`` would do."""
        return PlannedRefresh(**_fields(plan_refresh(self._ref, _names(names))))

    def merge(
        self, names: Collection[str] | str | None = None, *, segments: int | None = None
    ) -> MergeReport:
        """Merge small segments of these indexes (all without names) into larger ones, swapped in one commit.

        ``segments`` asks for a number; without it neighbours of about one size are merged when there are enough of them.
        """
        with self._sinks() as sink:
            done = merge_indexes(
                self._ref, self._runner, sink, BuildOptions(), _names(names), MergeRules(segments=segments)
            )
        return MergeReport(**_fields(done))

    def plan_merge(
        self, names: Collection[str] | str | None = None, *, segments: int | None = None
    ) -> PlannedMerge:
        """Say what ``merge`` would do."""
        return PlannedMerge(**_fields(plan_merge(self._ref, _names(names), MergeRules(segments=segments))))

    def compact(
        self,
        *,
        remap: Remap | None = None,
        rows_per_fragment: int = ROWS_PER_FRAGMENT,
        deleted_share: float = DELETED_SHARE,
    ) -> CompactReport:
        """Write small fragments, and those with many deleted rows, as fewer, and carry every index over.

        ``remap="rewrite"`` ends with segments that hold the new row addresses, ``"reuse"`` leaves segments alone and has readers
        translate until ``catch_up``, ``"drop"`` leaves them without the new fragments until ``refresh``. Without it ``rewrite`` is done, in the way that suits the row ids and the kinds.
        """
        rules = CompactRules(remap=remap, rows_per_fragment=rows_per_fragment, deleted_share=deleted_share)
        with self._sinks() as sink:
            done = compact_table(self._ref, self._runner, sink, BuildOptions(), rules)
        return CompactReport(**_fields(done))

    def plan_compact(
        self,
        *,
        remap: Remap | None = None,
        rows_per_fragment: int = ROWS_PER_FRAGMENT,
        deleted_share: float = DELETED_SHARE,
    ) -> PlannedCompact:
        """Say what ``compact`` would do."""
        rules = CompactRules(remap=remap, rows_per_fragment=rows_per_fragment, deleted_share=deleted_share)
        return PlannedCompact(**_fields(plan_compact(self._ref, rules)))

    def catch_up(self, names: Collection[str] | str | None = None) -> CatchUpReport:
        """Write segments that wait for a deferred compaction anew; when none waits any more, end the translation."""
        with self._sinks() as sink:
            done = catch_up(self._ref, self._runner, sink, BuildOptions(), _names(names))
        return CatchUpReport(**_fields(done))

    def cleanup(
        self, *, older_than: timedelta = OLDER_THAN, orphan_age: timedelta = ORPHAN_AGE
    ) -> CleanupReport:
        """Remove versions older than ``older_than``, and what failed builds and writers left that is older than ``orphan_age``.

        Tagged versions, those a branch starts from, and all that a running build wrote or reads stay.
        """
        rules = CleanupRules(older_than=older_than, orphan_age=orphan_age)
        with self._sinks() as sink:
            done = clean_up(self._ref, rules, sink)
        return CleanupReport(**_fields(done))

    def plan_cleanup(
        self, *, older_than: timedelta = OLDER_THAN, orphan_age: timedelta = ORPHAN_AGE
    ) -> PlannedCleanup:
        """Say which versions and files ``cleanup`` would remove."""
        rules = CleanupRules(older_than=older_than, orphan_age=orphan_age)
        return PlannedCleanup(**_fields(plan_cleanup(self._ref, rules)))

    def verify(  # noqa: PLR0913 - how closely to look, and what to do then, each with a default
        self,
        names: Collection[str] | str | None = None,
        *,
        thorough: bool = False,
        samples: int = SAMPLES,
        k: int = NEIGHBOURS,
        recall_min: float | None = None,
        seed: int = 0,
        repair: bool = False,
        rebuild_low_recall: bool = False,
    ) -> VerifyReport:
        """Ask these indexes (all without names) and the rows the same, and name the segments that are wrong.

        ``samples`` rows of each segment are asked for, and values at its edges; ``thorough`` reads every posting of B-trees and asks
        for more. ``repair`` builds wrong segments anew, ``rebuild_low_recall`` also those that find too few of the ``k`` nearest.
        """
        request = VerifyRequest(
            names=_names(names),
            rules=VerifyRules(samples=samples, thorough=thorough, k=k, recall_min=recall_min, seed=seed),
            repairs=Repairs(wrong=repair or rebuild_low_recall, low_recall=rebuild_low_recall),
        )
        with self._sinks() as sink:
            done = verify_indexes(self._ref, self._runner, sink, BuildOptions(), request)
        return VerifyReport(**_fields(done))

    @overload
    def maintain(
        self,
        policy: Policy | None = ...,
        *,
        dry_run: Literal[False] = ...,
        is_stopped: Callable[[], bool] = ...,
    ) -> MaintainReport: ...

    @overload
    def maintain(
        self,
        policy: Policy | None = ...,
        *,
        dry_run: Literal[True],
        is_stopped: Callable[[], bool] = ...,
    ) -> PlannedMaintain: ...

    def maintain(
        self,
        policy: Policy | None = None,
        *,
        dry_run: bool = False,
        is_stopped: Callable[[], bool] = _never,
    ) -> MaintainReport | PlannedMaintain:
        """Compact, catch up, refresh, merge and clean up, as far as each is due and the policy wants and allows it.

        Without ``policy`` the table's own is used, or the default one. A step that fails keeps none of the others from running; it
        is told. ``dry_run=True`` says what would be done. The run ends after the piece of work at hand when ``is_stopped`` says so.
        """
        require_type("dry_run", dry_run, bool)
        if policy is not None:
            require_type("policy", policy, Policy)
        if dry_run:
            return PlannedMaintain(**_fields(plan_maintain(self._ref, policy)))
        with self._sinks() as sink:
            done = maintain_table(self._ref, self._runner, sink, BuildOptions(), policy, is_stopped)
        return MaintainReport(**_fields(done))

    def policy(self) -> Policy:
        """The policy stored in the table, or the default one."""
        return read_policy(read_snapshot(self._ref.latest()))

    def set_policy(self, policy: Policy | None) -> None:
        """Store a policy in the table's own config, for every ``maintain`` that is given none; None takes it away."""
        if policy is not None:
            require_type("policy", policy, Policy)
        with self._sinks() as sink:
            store_policy(self._ref, policy, sink)

    def _sinks(self) -> FanOutSink:
        raise NotImplementedError


def _names(given: Collection[str] | str | None) -> tuple[str, ...] | None:
    if given is None or isinstance(given, str):
        return None if given is None else (given,)
    require_type("names", given, Collection)
    if not all(isinstance(name, str) for name in given):
        raise InvalidRequestError("names holds what is no name", "Pass the names of indexes as texts.")
    return tuple(given)


def _fields(value: Any) -> dict[str, Any]:  # Any: a dataclass, and each field has its own type
    return {field.name: getattr(value, field.name) for field in fields(value) if field.init}
