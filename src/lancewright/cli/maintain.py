"""The commands ``maintain`` and ``policy``: one run, or a run every so often until somebody ends it."""

from __future__ import annotations

import json
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from multiprocessing import get_context
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lancewright.cli.ages import read_age
from lancewright.cli.commands import (
    AsJson,
    Branch,
    Events,
    Local,
    Master,
    StorageOptions,
    Uri,
    open_table,
    print_result,
    read_pairs,
    tell_error,
)
from lancewright.cli.upkeep import ADVICE_DUE, DryRun
from lancewright.errors import InvalidRequestError, LancewrightError
from lancewright.maintain.maintain import find_idle
from lancewright.maintain.policy import is_age, policy_document, policy_from_fields
from lancewright.report import upkeep as describe
from lancewright.table.location import table_ref

if TYPE_CHECKING:
    from collections.abc import Iterator

    import lancewright.api as lw
    from lancewright.maintain.maintain import MaintainReceipt
    from lancewright.maintain.maintain_plan import MaintainPlan
    from lancewright.maintain.policy import Policy
    from lancewright.table.location import TableRef

Fields = Annotated[
    list[str] | None, typer.Option("--set", help="A field of the policy, NAME=VALUE; may be repeated.")
]


def maintain(
    uri: Uri,
    dry_run: DryRun = False,
    watch: Annotated[
        float | None,
        typer.Option("--watch", help="Run again so many seconds after each run, until SIGTERM or SIGINT."),
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option("--max-seconds", help="Begin nothing more after so many seconds.")
    ] = None,
    max_bytes: Annotated[
        int | None, typer.Option("--max-bytes", help="Read and write no more than this, as estimated.")
    ] = None,
    max_tasks: Annotated[int | None, typer.Option("--max-tasks", help="Run no more tasks than this.")] = None,
    fields: Fields = None,
    branch: Branch = None,
    storage_option: StorageOptions = None,
    local: Local = False,
    master: Master = "local[*]",
    events: Events = None,
    as_json: AsJson = False,
) -> None:
    """Do what is due by the table's policy: compact, catch up, refresh, merge, clean up."""
    if watch is not None and (dry_run or not watch > 0):
        raise InvalidRequestError(
            f"--watch {watch:g} with --dry-run repeats nothing"
            if dry_run
            else f"--watch {watch:g} is no pause",
            "Leave out one of them." if dry_run else "Give a number of seconds above zero.",
        )
    given = _given(fields, max_seconds, max_bytes, max_tasks)
    if not local and not dry_run and watch is None:
        options = read_pairs(storage_option, "--storage-option", as_values=False)
        idle = _look_apart(table_ref(uri, branch=branch, storage_options=options), given)
        if idle is not None:
            _end(_tell(idle, as_json=as_json))
            return
    with open_table(
        uri, storage_option, branch, local=local or dry_run, master=master, events=events, quiet=as_json
    ) as table:
        if dry_run:
            _tell_plan(table.maintain(_policy(table, given), dry_run=True), as_json=as_json)
        elif watch is None:
            _end(_tell(table.maintain(_policy(table, given)), as_json=as_json))
        else:
            _end(_watch(table, given, watch, as_json=as_json))


def policy(
    uri: Uri,
    fields: Fields = None,
    reset: Annotated[bool, typer.Option("--reset", help="Start from the default policy.")] = False,
    branch: Branch = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Show the policy of a table, or change fields of it."""
    with open_table(uri, storage_option, branch, local=True, quiet=True) as table:
        if reset:
            table.set_policy(None)
        if fields:
            table.set_policy(policy_from_fields(_read_fields(fields), table.policy()))
        chosen = table.policy()
    document = policy_document(chosen)
    print_result(document, describe.describe_policy(document, f"Policy of {table.name}"), as_json=as_json)


def _look_apart(ref: TableRef, given: dict[str, Any]) -> MaintainReceipt | None:
    """Whether nothing is due, found out before Spark is started, in a process of its own: once Lance is open here, no JVM may be started."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(find_idle, ref, given).result()


def _watch(table: lw.Table, given: dict[str, Any], pause_s: float, *, as_json: bool) -> int:
    """Run until a signal comes; the code the last run ended with. What goes wrong in one run is told, and the next one tries again."""
    code = 0
    with _signals() as stopped:
        while not stopped.is_set():
            try:
                done = table.maintain(_policy(table, given), is_stopped=stopped.is_set)
            except LancewrightError as error:
                tell_error(error, as_json=as_json)
                code = error.exit_code
            else:
                # A run that a signal cut short has left something, and that is as it should be.
                code = _tell(done, as_json=as_json) if not stopped.is_set() or done.failed else 0
            stopped.wait(pause_s)
    return code


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """Set by SIGTERM and SIGINT; a second one ends the process as it would without us."""
    stopped = threading.Event()
    before: dict[int, Any] = {}

    def stop(number: int, _frame: object) -> None:
        stopped.set()
        signal.signal(number, before[number])

    for one in (signal.SIGTERM, signal.SIGINT):
        before[one] = signal.signal(one, stop)
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(receipt: MaintainReceipt, *, as_json: bool) -> int:
    document = {**asdict(receipt), "is_complete": receipt.is_complete}
    print_result(document, *describe.describe_maintain(receipt), as_json=as_json)
    if receipt.failed:
        return receipt.failed[0].exit_code
    return 0 if receipt.is_complete else ADVICE_DUE


def _tell_plan(plan: MaintainPlan, *, as_json: bool) -> None:
    document = {**asdict(plan), "policy": policy_document(plan.policy), "is_due": plan.is_due}
    print_result(document, *describe.describe_maintain_plan(plan), as_json=as_json)
    _end(ADVICE_DUE if plan.is_due else 0)


def _end(code: int) -> None:
    if code:
        raise typer.Exit(code)


def _given(
    fields: list[str] | None, max_seconds: float | None, max_bytes: int | None, max_tasks: int | None
) -> dict[str, Any]:  # Any: each field has its own type, which the policy checks
    limits = {"seconds_max": max_seconds, "bytes_max": max_bytes, "tasks_max": max_tasks}
    return _read_fields(fields) | {name: value for name, value in limits.items() if value is not None}


def _policy(table: lw.Table, given: dict[str, Any]) -> Policy | None:
    """The table's policy with what this call says otherwise; None leaves it to the verb to read it."""
    return policy_from_fields(given, table.policy()) if given else None


def _read_fields(fields: list[str] | None) -> dict[str, Any]:
    texts = read_pairs(fields, "--set", as_values=False)
    return {name: read_age(text) if is_age(name) else _read_value(text) for name, text in texts.items()}


def _read_value(text: str) -> Any:  # Any: whatever the field takes
    try:
        return None if text == "none" else json.loads(text)
    except ValueError:
        return text
