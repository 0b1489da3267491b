"""The commands that keep indexes true."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

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
)
from lancewright.maintain.checks.subject import NEIGHBOURS, SAMPLES
from lancewright.maintain.compact import DELETED_SHARE, ROWS_PER_FRAGMENT
from lancewright.report import upkeep as describe
from lancewright.report.verifying import describe_verify

# A cron job sees it: nothing failed, and something is to be done.
ADVICE_DUE = 10
FOUND_WRONG = 11

Names = Annotated[
    list[str] | None, typer.Option("--index", help="An index; may be repeated; all if left out.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and write nothing.")]


def health(
    uri: Uri,
    branch: Branch = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Say what is wrong with the indexes and which verbs mend it; exits with 10 when something is to be done."""
    with open_table(uri, storage_option, branch, local=True, quiet=True) as table:
        report = table.health()
    print_result(asdict(report), *describe.describe_health(report), as_json=as_json)
    if report.advice:
        raise typer.Exit(ADVICE_DUE)


def refresh(
    uri: Uri,
    names: Names = None,
    dry_run: DryRun = False,
    branch: Branch = None,
    storage_option: StorageOptions = None,
    local: Local = False,
    master: Master = "local[*]",
    events: Events = None,
    as_json: AsJson = False,
) -> None:
    """Build what indexes do not cover, and commit it."""
    with open_table(
        uri, storage_option, branch, local=local or dry_run, master=master, events=events, quiet=as_json
    ) as table:
        if dry_run:
            plan = table.plan_refresh(names)
            print_result(
                _planned(plan.snapshot.version, plan.indexes),
                describe.describe_refresh_plan(plan),
                as_json=as_json,
            )
            return
        receipt = table.refresh(names)
    print_result(asdict(receipt), describe.describe_refresh(receipt), as_json=as_json)


def merge(
    uri: Uri,
    names: Names = None,
    segments: Annotated[
        int | None, typer.Option("--segments", help="How many segments an index ends with.")
    ] = None,
    dry_run: DryRun = False,
    branch: Branch = None,
    storage_option: StorageOptions = None,
    local: Local = False,
    master: Master = "local[*]",
    events: Events = None,
    as_json: AsJson = False,
) -> None:
    """Merge small segments of indexes into larger ones, and commit them."""
    with open_table(
        uri, storage_option, branch, local=local or dry_run, master=master, events=events, quiet=as_json
    ) as table:
        if dry_run:
            plan = table.plan_merge(names, segments=segments)
            print_result(
                _planned(plan.snapshot.version, plan.indexes),
                describe.describe_merge_plan(plan),
                as_json=as_json,
            )
            return
        receipt = table.merge(names, segments=segments)
    print_result(asdict(receipt), describe.describe_merge(receipt), as_json=as_json)


def compact(
    uri: Uri,
    remap: Annotated[
        str | None, typer.Option("--remap", help="How indexes are carried over: rewrite, reuse or drop.")
    ] = None,
    rows_per_fragment: Annotated[
        int, typer.Option("--rows-per-fragment", help="How many rows a fragment is to have.")
    ] = ROWS_PER_FRAGMENT,
    deleted_share: Annotated[
        float,
        typer.Option("--deleted-share", help="Fragments with more deleted rows than this are rewritten."),
    ] = DELETED_SHARE,
    dry_run: DryRun = False,
    branch: Branch = None,
    storage_option: StorageOptions = None,
    local: Local = False,
    master: Master = "local[*]",
    events: Events = None,
    as_json: AsJson = False,
) -> None:
    """Write small fragments as fewer and larger ones, and carry every index over."""
    asked: dict[str, Any] = {  # Any: one option is a choice, and the verb checks it
        "remap": remap,
        "rows_per_fragment": rows_per_fragment,
        "deleted_share": deleted_share,
    }
    with open_table(
        uri, storage_option, branch, local=local or dry_run, master=master, events=events, quiet=as_json
    ) as table:
        if dry_run:
            plan = table.plan_compact(**asked)
            print_result(asdict(plan), describe.describe_compact_plan(plan), as_json=as_json)
            return
        receipt = table.compact(**asked)
    print_result(asdict(receipt), *describe.describe_compact(receipt), as_json=as_json)


def catch_up(
    uri: Uri,
    names: Names = None,
    branch: Branch = None,
    storage_option: StorageOptions = None,
    local: Local = False,
    master: Master = "local[*]",
    events: Events = None,
    as_json: AsJson = False,
) -> None:
    """Write segments that wait for a deferred compaction anew."""
    with open_table(
        uri, storage_option, branch, local=local, master=master, events=events, quiet=as_json
    ) as table:
        receipt = table.catch_up(names)
    print_result(asdict(receipt), describe.describe_catch_up(receipt), as_json=as_json)


def cleanup(
    uri: Uri,
    older_than: Annotated[
        str, typer.Option("--older-than", help="Versions older than this go: 7d, 12h, 30m, 0s.")
    ] = "7d",
    orphan_age: Annotated[
        str, typer.Option("--orphan-age", help="Files that no version uses go when they are older than this.")
    ] = "7d",
    dry_run: DryRun = False,
    branch: Branch = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Remove old versions, and what failed builds and writers left behind."""
    with open_table(uri, storage_option, branch, local=True, quiet=True) as table:
        ages = {"older_than": read_age(older_than), "orphan_age": read_age(orphan_age)}
        if dry_run:
            plan = table.plan_cleanup(**ages)
            print_result(asdict(plan), *describe.describe_cleanup_plan(plan), as_json=as_json)
            return
        receipt = table.cleanup(**ages)
    print_result(asdict(receipt), *describe.describe_cleanup(receipt), as_json=as_json)


def verify(
    uri: Uri,
    names: Names = None,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="Read every posting of B-trees and ask for more rows.")
    ] = False,
    samples: Annotated[
        int, typer.Option("--samples", help="How many rows of each segment are asked for.")
    ] = SAMPLES,
    neighbours: Annotated[
        int, typer.Option("--neighbours", help="Of how many nearest vectors recall is measured.")
    ] = NEIGHBOURS,
    recall_min: Annotated[
        float | None,
        typer.Option("--recall-min", help="A segment with less recall than this is found wrong."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Another number asks for other rows.")] = 0,
    repair: Annotated[
        bool, typer.Option("--repair", help="Build wrong segments anew, and look again.")
    ] = False,
    rebuild_low_recall: Annotated[
        bool, typer.Option("--rebuild-low-recall", help="Repair segments with low recall too.")
    ] = False,
    branch: Branch = None,
    storage_option: StorageOptions = None,
    local: Local = False,
    master: Master = "local[*]",
    events: Events = None,
    as_json: AsJson = False,
) -> None:
    """Ask indexes and rows the same, and name the segments that are wrong; exits with 11 when one is, or is left."""
    with open_table(
        uri, storage_option, branch, local=local, master=master, events=events, quiet=as_json
    ) as table:
        report = table.verify(
            names,
            thorough=thorough,
            samples=samples,
            k=neighbours,
            recall_min=recall_min,
            seed=seed,
            repair=repair,
            rebuild_low_recall=rebuild_low_recall,
        )
    print_result(asdict(report) | {"is_sound": report.is_sound}, *describe_verify(report), as_json=as_json)
    if not report.is_sound:
        raise typer.Exit(FOUND_WRONG)


def _planned(version: int, indexes: tuple[Any, ...]) -> dict[str, Any]:  # Any: lines of a plan, and JSON
    return {"version": version, "indexes": [asdict(index) for index in indexes]}
