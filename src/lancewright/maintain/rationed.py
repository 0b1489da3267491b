"""Runs works as far as the budget of a run reaches: all in one job, or one by one with a look at the clock in between."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lancewright.build.budget import Cost
from lancewright.build.rounds import Progress, run_rounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from lancewright.build.budget import Budget
    from lancewright.build.index_work import IndexWork
    from lancewright.build.rounds import BuildOptions, Order
    from lancewright.model.index import Segment
    from lancewright.observe.sinks import Sink
    from lancewright.runtime.runner import Runner


@dataclass(frozen=True, slots=True, kw_only=True)
class Rationed:
    """Where the table stands, how many rounds that took, and the indexes the budget did not reach."""

    version: int
    rounds: int
    put_off: tuple[str, ...]


def run_rationed(
    order: Order, runner: Runner, sink: Sink, options: BuildOptions, cost: Callable[[IndexWork], Cost]
) -> Rationed:
    """Build and commit the works that the budget grants; what it does not grant is as it was."""
    end = Progress(snapshot=order.snapshot, works=())
    rounds = 0
    put_off: list[str] = []
    batches = [(work,) for work in order.works] if options.budget.is_timed else [order.works]
    for batch in batches:
        granted = tuple(work for work in batch if options.budget.take(cost(work)))
        put_off += sorted({work.name for work in batch} - {work.name for work in granted})
        if granted:
            end = run_rounds(replace(order, works=granted), runner, sink, options)
            rounds += end.rounds
    return Rationed(version=end.snapshot.version, rounds=rounds, put_off=tuple(put_off))


def grant_groups(work: IndexWork, budget: Budget) -> IndexWork:
    """The work with as many of its groups as the budget grants; the segments of the others stay as they are."""
    granted = tuple(group for group in work.rewrites if budget.take(cost_of_group(group)))
    left = tuple(segment for group in work.rewrites if group not in granted for segment in group)
    return replace(work, rewrites=granted, stays=(*work.stays, *left))


def cost_of_rewrites(work: IndexWork) -> Cost:
    """Every segment is read once and written once, one task for each group."""
    costs = [cost_of_group(group) for group in work.rewrites]
    return Cost(tasks=len(costs), size_bytes=sum(cost.size_bytes for cost in costs))


def cost_of_group(group: tuple[Segment, ...]) -> Cost:
    """One task, which reads the segments and writes one of about their size."""
    return Cost(tasks=1, size_bytes=2 * sum(segment.size_bytes or 0 for segment in group))
