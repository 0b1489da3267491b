"""A driver killed at any event of a verb leaves a table that answers rightly, and the verb can be run again.

``LANCEWRIGHT_KILLED_AT_ALL=1`` tries every event of ``maintain``, and not only those that tell of a commit or of files removed: the
others are those of the verbs it calls.
"""

from __future__ import annotations

import os
import shutil
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lance
import pytest

import lancewright as lw
from lancewright.observe import events
from support.busy_table import CASES, append, busy_table, delete, rewrite_column, wrong_answers
from support.folders import strays
from support.upkeep_program import call, run

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ("btree", "label_list", "ivf_flat")
EVERY_EVENT = bool(os.environ.get("LANCEWRIGHT_KILLED_AT_ALL"))
LONG = {"maintain"}
# What tells of something that readers see, or that is gone.
COMMITS = {
    name
    for name, event in vars(events).items()
    if {"version", "setting", "what"} & set(getattr(event, "__dataclass_fields__", ()))
} - {"BuildPlanned", "CommitConflicted"}
NOW = timedelta(0)


def due_for_an_index(_uri: str) -> None:
    """It is always possible to make one."""


def due_for_refresh(uri: str) -> None:
    append(uri)
    rewrite_column(uri, "number", 2)


def due_for_merge(_uri: str) -> None:
    """Four segments each are enough."""


def due_for_compaction(uri: str) -> None:
    delete(uri)


def due_for_catching_up(uri: str) -> None:
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=350, defer_index_remap=True)


def due_for_cleanup(uri: str) -> None:
    delete(uri)
    lance.dataset(uri).create_index_uncommitted("other", "BITMAP", fragment_ids=[0])


def due_for_everything(uri: str) -> None:
    append(uri)
    delete(uri)
    policy = lw.Policy(rows_per_fragment=350, older_than=NOW, orphan_age=NOW)
    lw.open(uri, progress=False).set_policy(policy)


VERBS: dict[str, tuple[Any, tuple[str, ...], dict[str, Any]]] = {
    "create_index": (
        due_for_an_index,
        KINDS[:2],
        {"column": "other", "kind": "btree", "name": "more", "segments": 2, "replace": True},
    ),
    "refresh": (due_for_refresh, KINDS, {}),
    "merge": (due_for_merge, KINDS, {"segments": 1}),
    "compact": (due_for_compaction, KINDS[:2], {"rows_per_fragment": 350}),
    "catch_up": (due_for_catching_up, KINDS[:2], {}),
    "cleanup": (due_for_cleanup, KINDS[:1], {"older_than": 0, "orphan_age": 0}),
    "maintain": (due_for_everything, KINDS[:2], {}),
}


# Verbs after which nothing is left to be refreshed, whatever became of an earlier call.
COMPLETE = {"refresh", "compact", "maintain"}


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_a_driver_killed_at_any_event_does_no_harm_and_its_verb_runs_again(tmp_path: Path, verb: str) -> None:
    makes_due, kinds, options = VERBS[verb]
    original = str(tmp_path / "table")
    busy_table(original)
    lance.dataset(original).drop_index("theirs")
    lw.open(original, progress=False).create_indexes(
        [
            lw.IndexRequest(
                column=CASES[kind].column, kind=kind, name=kind, segments=4, parameters=CASES[kind].parameters
            )
            for kind in kinds
        ]
    )
    makes_due(original)
    whole = copy(original, tmp_path / "whole")
    heard = run(whole, verb, **options)
    assert heard is not None
    assert len(heard) > 1
    assert_right(whole, kinds)
    rows = ids(whole)

    for number in steps(heard, every=EVERY_EVENT or verb not in LONG):
        uri = copy(original, tmp_path / f"killed at {number}")
        assert run(uri, verb, dies_at=number, **options) is None
        assert_right(uri, kinds)
        assert_cleaned(copy(uri, tmp_path / "cleaned"), kinds, rows)
        call(lw.open(uri, progress=False), verb, options)
        assert_right(uri, kinds)
        assert ids(uri) == rows
        if verb not in COMPLETE:
            lw.open(uri, progress=False).refresh()
        assert all(info.coverage.is_complete for info in lw.open(uri, progress=False).indexes())
        shutil.rmtree(uri)


def steps(heard: list[str], *, every: bool) -> list[int]:
    """The events to be killed at."""
    return [number for number, event in enumerate(heard) if every or event in COMMITS]


def copy(uri: str, to: Path) -> str:
    shutil.copytree(uri, to)
    return str(to)


def assert_cleaned(uri: str, kinds: tuple[str, ...], rows: list[int]) -> None:
    """Whatever a killed driver left goes, and nothing else does."""
    table = lw.open(uri, progress=False)
    planned = table.plan_cleanup(older_than=timedelta(0), orphan_age=timedelta(0))

    receipt = table.cleanup(older_than=timedelta(0), orphan_age=timedelta(0))

    assert receipt.files == planned.files
    assert strays(uri) == []
    assert ids(uri) == rows
    assert_right(uri, kinds)
    shutil.rmtree(uri)


def ids(uri: str) -> list[int]:
    return sorted(lance.dataset(uri).to_table(columns=["id"])["id"].to_pylist())


def assert_right(uri: str, kinds: tuple[str, ...]) -> None:
    assert {kind: wrong_answers(uri, CASES[kind]) for kind in kinds} == {key: [] for key in kinds}
