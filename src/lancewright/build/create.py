"""The create verb: read, plan, run, commit, record."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from lancewright.build.index_work import IndexWork, begin_work, is_made_by_other, move_work, plan_round
from lancewright.build.receipt import CreateReceipt, write_receipt
from lancewright.build.resolve import resolve_requests
from lancewright.build.rounds import BuildOptions, Order, Progress, run_rounds
from lancewright.table.column_reader import read_expression_type
from lancewright.table.snapshot_reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lancewright.build.keys import TypeOf
    from lancewright.build.plan import BuildPlan
    from lancewright.model.request import IndexRequest
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.observe.sinks import Sink
    from lancewright.runtime.runner import Runner
    from lancewright.table.history import History
    from lancewright.table.location import TableRef


def plan_create(
    table: TableRef, requests: Iterable[IndexRequest], runner: Runner
) -> tuple[BuildPlan, TableSnapshot]:
    """Say what a build would do; writes nothing and starts no index task."""
    snapshot = read_snapshot(table.latest())
    todo = [
        entry
        for entry in resolve_requests(snapshot, requests, _type_of(table, snapshot))
        if not entry.is_satisfied
    ]
    return plan_round(snapshot, [begin_work(entry, snapshot) for entry in todo], runner.parallelism), snapshot


def create_indexes(
    table: TableRef, requests: Iterable[IndexRequest], runner: Runner, sink: Sink, options: BuildOptions
) -> CreateReceipt:
    """Build every requested index, all in one job, and publish them in one commit."""
    started = time.monotonic()
    snapshot = read_snapshot(table.latest())
    resolved = resolve_requests(snapshot, requests, _type_of(table, snapshot))
    works = tuple(begin_work(entry, snapshot) for entry in resolved if not entry.is_satisfied)
    end = Progress(snapshot=snapshot, works=())
    if works:
        order = Order(table=table, snapshot=snapshot, works=works, move=_move)
        end = run_rounds(order, runner, sink, options)
    return write_receipt(
        end.snapshot, resolved, end.committed, rounds=end.rounds, seconds=time.monotonic() - started
    )


def _type_of(table: TableRef, snapshot: TableSnapshot) -> TypeOf:
    return partial(read_expression_type, table.pinned(snapshot.version))


def _move(work: IndexWork, snapshot: TableSnapshot, history: History) -> IndexWork | None:
    return None if is_made_by_other(work, snapshot) else move_work(work, snapshot, history)
