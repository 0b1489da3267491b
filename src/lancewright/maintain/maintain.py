"""The maintain verb: the other verbs of upkeep in the order that wastes least, as far as a policy wants and allows.

Compaction comes first, so that nothing is indexed or merged that is moved afterwards; merging comes after refreshing, which adds segments;
what all of them left behind is cleaned up last. Each verb leaves the table valid, so a run may end after any of them, and one that fails
keeps none of the others from running.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from uuid import uuid4

from lancewright.build.backoff import backoff_s
from lancewright.build.budget import Budget
from lancewright.errors import ConflictError, LancewrightError
from lancewright.maintain.catch_up import catch_up
from lancewright.maintain.cleanup import CleanupRules, clean_up
from lancewright.maintain.compact import CompactRules, compact_table
from lancewright.maintain.due import find_due
from lancewright.maintain.health import read_health
from lancewright.maintain.merge import merge_indexes
from lancewright.maintain.policy import POLICY_KEY, Policy, policy_from_fields, policy_from_json
from lancewright.maintain.refresh import refresh_indexes
from lancewright.maintain.step_outcomes import Done, tell
from lancewright.observe.events import SettingChanged, StepFinished, StepStarted
from lancewright.table.config import remove_table_config, set_table_config
from lancewright.table.snapshot_reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lancewright.build.rounds import BuildOptions
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.observe.sinks import Sink
    from lancewright.runtime.runner import Runner
    from lancewright.table.location import TableRef

# When the last thorough run began that did all that was due, in seconds since 1970.
THOROUGH_KEY = "lancewright.thorough_at"
ATTEMPTS_MAX = 3
Outcome: TypeAlias = Literal["done", "nothing", "put_off", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReceipt:
    """What became of one step.

    ``done``: it did what was due. ``nothing``: nothing was. ``put_off``: the budget, or somebody who wants the run to end, left some of
    it, or all, for the next run. ``failed``: with this ``error``, after so many ``attempts``. ``problems`` need somebody's attention.
    """

    verb: str
    outcome: Outcome
    told: str
    attempts: int = 1
    seconds: float = 0.0
    put_off: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    error: str | None = None
    exit_code: int = 0
    receipt: Any = None  # Any: each verb has its own


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainReceipt:
    """What a run did: the version it ended with, and each step. Without steps, nothing was due. ``was_thorough``: all was looked at."""

    table: str
    version: int
    seconds: float
    was_thorough: bool
    steps: tuple[StepReceipt, ...]

    @property
    def failed(self) -> tuple[StepReceipt, ...]:
        """The steps that failed."""
        return tuple(step for step in self.steps if step.outcome == "failed")

    @property
    def is_complete(self) -> bool:
        """True when nothing failed, nothing was put off, and nothing needs attention."""
        return not self.failed and not any(
            step.outcome == "put_off" or step.put_off or step.problems for step in self.steps
        )


def read_policy(snapshot: TableSnapshot) -> Policy:
    """The policy stored in the table, or the default one; raises when what is stored cannot be read."""
    stored = snapshot.config.get(POLICY_KEY)
    return Policy() if stored is None else policy_from_json(stored)


def store_policy(table: TableRef, policy: Policy | None, sink: Sink) -> None:
    """Store a policy in the table's config, or take the stored one away; does nothing when the table says so already."""
    text = "" if policy is None else policy.to_json()
    stored = read_snapshot(table.latest()).config.get(POLICY_KEY, "")
    if text == stored:
        return
    if policy is None:
        remove_table_config(table, POLICY_KEY)
    else:
        set_table_config(table, {POLICY_KEY: text})
    sink.record(SettingChanged(job_id=f"policy-{uuid4().hex[:12]}", setting=POLICY_KEY, value=text))


def maintain_table(
    table: TableRef,
    runner: Runner,
    sink: Sink,
    options: BuildOptions,
    policy: Policy | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> MaintainReceipt:
    """Do what is due, step by step; ``is_stopped`` is asked before each step and each unit of work."""
    started, now = time.monotonic(), time.time()
    snapshot = read_snapshot(table.latest())
    chosen = read_policy(snapshot) if policy is None else policy
    is_thorough = wants_thorough(snapshot, chosen, now)
    due = find_due(snapshot, chosen)
    steps: tuple[StepReceipt, ...] = ()
    version = snapshot.version
    if due or is_thorough:
        budget = Budget(
            seconds_max=chosen.seconds_max,
            bytes_max=chosen.bytes_max,
            tasks_max=chosen.tasks_max,
            is_stopped=is_stopped,
        )
        run = _Run(table, runner, sink, replace(options, budget=budget))
        actions = _actions(run, chosen, may_compact="compact" in due, cleans=is_thorough)
        steps = tuple(run.step(verb, action) for verb, action in actions.items())
        version = read_snapshot(table.latest()).version
    receipt = MaintainReceipt(
        table=table.name,
        version=version,
        seconds=time.monotonic() - started,
        was_thorough=is_thorough,
        steps=steps,
    )
    if is_thorough and chosen.thorough_every and not any(_is_left(step) for step in steps):
        return replace(receipt, version=_note_thorough(table, sink, now) or version)
    return receipt


def find_idle(
    table: TableRef, fields: Mapping[str, Any]
) -> MaintainReceipt | None:  # Any: fields of a policy
    """The receipt of a run that finds nothing due by the table's policy with these fields; None when it would go on."""
    started = time.monotonic()
    snapshot = read_snapshot(table.latest())
    policy = policy_from_fields(fields, read_policy(snapshot))
    if wants_thorough(snapshot, policy, time.time()) or find_due(snapshot, policy):
        return None
    return MaintainReceipt(
        table=table.name,
        version=snapshot.version,
        seconds=time.monotonic() - started,
        was_thorough=False,
        steps=(),
    )


def wants_thorough(snapshot: TableSnapshot, policy: Policy, now: float) -> bool:
    """True when the last thorough run is too long ago, or nobody knows when it was."""
    noted = snapshot.config.get(THOROUGH_KEY, "")
    if not noted.isdecimal():
        return True
    return not 0 <= now - int(noted) < policy.thorough_every.total_seconds()


@dataclass(slots=True)
class _Run:
    table: TableRef
    runner: Runner
    sink: Sink
    options: BuildOptions
    job_id: str = field(default_factory=lambda: f"maintain-{uuid4().hex[:12]}")

    def step(self, verb: str, action: Callable[[], Any]) -> StepReceipt:  # Any: the receipt of the verb
        """Run one step to its end, whatever that is."""
        started = time.monotonic()
        self.sink.record(StepStarted(job_id=self.job_id, table=self.table.name, verb=verb))
        ended = replace(self._attempt(verb, action), seconds=time.monotonic() - started)
        problem = "; ".join((ended.told, *ended.problems)) if ended.error or ended.problems else ""
        self.sink.record(StepFinished(job_id=self.job_id, verb=verb, outcome=ended.outcome, problem=problem))
        return ended

    def _attempt(self, verb: str, action: Callable[[], Any]) -> StepReceipt:  # Any: as above
        attempt = 0
        while not self.options.budget.is_over:
            attempt += 1
            try:
                return _receipt(verb, attempt, action())
            except ConflictError as error:
                if attempt == ATTEMPTS_MAX:
                    return _failed(verb, attempt, error)
                self.options.sleep(backoff_s(attempt))
            except LancewrightError as error:
                return _failed(verb, attempt, error)
        told = (
            "another writer came first, and the budget was used up"
            if attempt
            else "not begun: the budget was used up"
        )
        return StepReceipt(verb=verb, outcome="put_off", told=told, attempts=attempt, put_off=(verb,))


def _actions(
    run: _Run, policy: Policy, *, may_compact: bool, cleans: bool
) -> dict[str, Callable[[], Any]]:  # Any: as above
    table, runner, sink, options = run.table, run.runner, run.sink, run.options
    compaction = CompactRules(
        remap=policy.remap,
        rows_per_fragment=policy.rows_per_fragment,
        deleted_share=policy.deleted_share,
        fragments_min=policy.fragments_min,
    )
    ages = CleanupRules(older_than=policy.older_than, orphan_age=policy.orphan_age)
    every: dict[str, tuple[bool, Callable[[], Any]]] = {
        "health": (True, lambda: read_health(table)),
        "compact": (
            policy.compact and may_compact,
            lambda: compact_table(table, runner, sink, options, compaction),
        ),
        "catch_up": (policy.catch_up, lambda: catch_up(table, runner, sink, options)),
        "refresh": (policy.refresh, lambda: refresh_indexes(table, runner, sink, options)),
        "merge": (policy.merge, lambda: merge_indexes(table, runner, sink, options)),
        "cleanup": (policy.cleanup and cleans, lambda: clean_up(table, ages, sink)),
    }
    return {verb: action for verb, (is_wanted, action) in every.items() if is_wanted}


def _receipt(verb: str, attempts: int, receipt: Any) -> StepReceipt:  # Any: as above
    done: Done = tell(receipt)
    outcome: Outcome = "put_off" if done.put_off else "done" if done.did_something else "nothing"
    return StepReceipt(
        verb=verb,
        outcome=outcome,
        told=done.told,
        attempts=attempts,
        put_off=done.put_off,
        problems=done.problems,
        receipt=receipt,
    )


def _failed(verb: str, attempts: int, error: LancewrightError) -> StepReceipt:
    return StepReceipt(
        verb=verb,
        outcome="failed",
        told=str(error),
        attempts=attempts,
        error=type(error).__name__,
        exit_code=error.exit_code,
    )


def _is_left(step: StepReceipt) -> bool:
    return step.outcome in {"failed", "put_off"}


def _note_thorough(table: TableRef, sink: Sink, now: float) -> int | None:
    """Best effort: without the note the next run looks at everything again."""
    text = str(int(now))
    try:
        set_table_config(table, {THOROUGH_KEY: text})
    except LancewrightError:
        return None
    sink.record(SettingChanged(job_id=f"maintain-{uuid4().hex[:12]}", setting=THOROUGH_KEY, value=text))
    return read_snapshot(table.latest()).version
