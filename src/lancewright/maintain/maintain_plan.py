"""What a run of ``maintain`` would do now, step by step and with its costs; nothing is written.

Each step is told as if it were the only one: a compaction changes what a refresh finds, and a refresh what a merge finds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lancewright.build.budget import Budget, Cost
from lancewright.errors import LancewrightError
from lancewright.maintain.cleanup import CleanupRules, plan_cleanup
from lancewright.maintain.compact import CompactRules, plan_compact
from lancewright.maintain.due import find_due
from lancewright.maintain.health import read_health
from lancewright.maintain.maintain import read_policy, wants_thorough
from lancewright.table.snapshot_reader import read_snapshot

if TYPE_CHECKING:
    from lancewright.maintain.health import Advice, Health
    from lancewright.maintain.policy import Policy
    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """A step, whether it is due, why, and what it would take. ``beyond_budget``: not all of it fits.

    Bytes are estimates. ``problem`` says why it cannot be done.
    """

    verb: str
    is_due: bool
    told: str
    indexes: tuple[str, ...] = ()
    tasks: int = 0
    rows: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    beyond_budget: bool = False
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainPlan:
    """What a run would do. Without steps, nothing is due. ``is_thorough``: the run would look at everything."""

    table: str
    version: int
    policy: Policy
    is_thorough: bool
    steps: tuple[PlannedStep, ...]

    @property
    def is_due(self) -> bool:
        """True when a run would do something."""
        return any(step.is_due for step in self.steps)


def plan_maintain(table: TableRef, policy: Policy | None = None) -> MaintainPlan:
    """Look at the table as a run would, and say what it would do."""
    snapshot = read_snapshot(table.latest())
    chosen = read_policy(snapshot) if policy is None else policy
    is_thorough = wants_thorough(snapshot, chosen, time.time())
    due = find_due(snapshot, chosen)
    steps: list[PlannedStep] = []
    if due or is_thorough:
        health = read_health(table)
        steps += [_plan_compact(table, chosen)] if chosen.compact and "compact" in due else []
        wanted = {"catch_up": chosen.catch_up, "refresh": chosen.refresh, "merge": chosen.merge}
        steps += [_plan_advised(verb, health) for verb, is_wanted in wanted.items() if is_wanted]
        steps += [_plan_cleanup(table, chosen)] if chosen.cleanup and is_thorough else []
    return MaintainPlan(
        table=table.name,
        version=snapshot.version,
        policy=chosen,
        is_thorough=is_thorough,
        steps=_mark_beyond(steps, chosen),
    )


def _plan_compact(table: TableRef, policy: Policy) -> PlannedStep:
    rules = CompactRules(
        remap=policy.remap,
        rows_per_fragment=policy.rows_per_fragment,
        deleted_share=policy.deleted_share,
        fragments_min=policy.fragments_min,
    )
    try:
        plan = plan_compact(table, rules)
    except LancewrightError as error:
        return PlannedStep(verb="compact", is_due=True, told="cannot be done", problem=str(error))
    return PlannedStep(
        verb="compact",
        is_due=plan.tasks > 0,
        told=f"{plan.fragments:,} fragments, remap {plan.remap}" if plan.tasks else "nothing is due",
        tasks=plan.tasks,
        rows=plan.rows,
        bytes_read=plan.bytes_read,
        bytes_written=plan.bytes_read,
    )


def _plan_advised(verb: str, health: Health) -> PlannedStep:
    advice: Advice | None = next((one for one in health.advice if one.verb == verb), None)
    if advice is None:
        return PlannedStep(verb=verb, is_due=False, told="nothing is due")
    return PlannedStep(
        verb=verb,
        is_due=True,
        told=advice.reason,
        indexes=advice.indexes,
        tasks=len(advice.indexes),
        rows=advice.rows,
        bytes_read=advice.bytes_read,
        bytes_written=advice.bytes_written,
    )


def _plan_cleanup(table: TableRef, policy: Policy) -> PlannedStep:
    plan = plan_cleanup(table, CleanupRules(older_than=policy.older_than, orphan_age=policy.orphan_age))
    told = f"{len(plan.versions):,} versions, {len(plan.files):,} files, {plan.size_bytes:,} bytes would go"
    return PlannedStep(
        verb="cleanup",
        is_due=bool(plan.files),
        told=told if plan.files else "nothing is due",
    )


def _mark_beyond(steps: list[PlannedStep], policy: Policy) -> tuple[PlannedStep, ...]:
    budget = Budget(seconds_max=policy.seconds_max, bytes_max=policy.bytes_max, tasks_max=policy.tasks_max)
    return tuple(
        replace(
            step,
            beyond_budget=step.is_due
            and not budget.take(Cost(tasks=step.tasks, size_bytes=step.bytes_read + step.bytes_written)),
        )
        for step in steps
    )
