"""Two writers and two maintainers, each a process, on one table: no row is lost, no answer is wrong, no error is anything but a conflict.

``LANCEWRIGHT_TOGETHER_SECONDS`` says how long each of the tests goes on (3).
"""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lance
import pytest

import lancewright as lw
from support.busy_table import CASES, busy_table, wrong_answers
from support.eager_scans import assert_equal_to_a_full_scan
from support.folders import strays
from support.together_program import outcome, start

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = float(os.environ.get("LANCEWRIGHT_TOGETHER_SECONDS", "3"))
# Indexes that are carried over by deferring, on executors; by Lance itself, in its commit; and on stable row ids.
WORLDS: dict[str, tuple[bool, tuple[tuple[Any, str], ...]]] = {
    "deferred": (False, (("number", "btree"), ("other", "bitmap"), (["text", "number"], "composite"))),
    "at once": (False, (("number", "zonemap"), ("text", "inverted"), ("labels", "label_list"))),
    "stable": (True, (("number", "btree"), ("labels", "label_list"), (["text", "number"], "key"))),
}


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_writers_and_maintainers_do_each_other_no_harm(tmp_path: Path, world: str) -> None:
    stable, indexes = WORLDS[world]
    uri = busy_table(str(tmp_path / "table"), stable_row_ids=stable).uri
    first = rows_of(uri)
    lw.open(uri, progress=False).create_indexes(
        [
            lw.IndexRequest(
                column=column,
                kind=kind,
                name=kind,
                parameters=CASES[kind].parameters if kind in CASES else {},
            )
            for column, kind in indexes
        ]
    )

    writers = [start("writer", uri, number, SECONDS) for number in range(2)]
    maintainers = [start("maintainer", uri, number, SECONDS) for number in range(2)]
    looks, wrong = 0, []
    while any(process.poll() is None for process in writers):
        wrong += wrong_at_one_version(uri, indexes)
        looks += 1
        time.sleep(0.5)
    written = [outcome(process, 120) for process in writers]
    maintained = [outcome(process, 120) for process in maintainers]

    assert wrong == []
    assert looks > 1
    assert all(one["commits"] > 1 for one in written), written
    assert all(set(one["errors"]) <= {"ConflictError"} for one in maintained), maintained
    assert any(one["done"].get("refresh") for one in maintained), maintained
    expected = {int(id_): generation for one in written for id_, generation in one["rows"].items()}
    assert rows_of(uri) == first | {id_: ("stale", "fresh")[mark] for id_, mark in expected.items()}
    assert_true_when_it_is_quiet(uri, indexes)
    print(f"{world}: {looks} looks, {written_counts(written)}, {maintained}")  # noqa: T201 - shown by pytest -s


def written_counts(written: list[dict[str, Any]]) -> list[dict[str, int]]:
    return [{key: one[key] for key in ("commits", "conflicts")} for one in written]


def rows_of(uri: str) -> dict[int, str | None]:
    """Which generation of values each row has; unique ids are part of the promise."""
    rows = lance.dataset(uri).to_table(columns=["id", "other"]).to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    texts = lance.dataset(uri).to_table(columns=["id", "vector"])
    marks = {
        id_: "fresh" if sum(vector) > 16 * 50 else "stale"
        for id_, vector in zip(texts["id"].to_pylist(), texts["vector"].to_pylist(), strict=True)
    }
    assert len(marks) == len(rows)
    return marks


def wrong_at_one_version(uri: str, indexes: tuple[tuple[Any, str], ...]) -> list[str]:
    dataset = lance.dataset(uri)
    found = []
    for where in ("number < 20", "number = 12", "number IS NULL", "array_has(labels, 'alpha')"):
        scanned = dataset.to_table(columns=["id"], filter=where, use_scalar_index=False)["id"].to_pylist()
        asked = dataset.to_table(columns=["id"], filter=where)["id"].to_pylist()
        if sorted(scanned) != sorted(asked):
            found.append(f"{where} at version {dataset.version}: {len(asked)} rows instead of {len(scanned)}")
    where = "text LIKE 'alpha%' AND number = 12"
    ours = lw.open(uri, progress=False).scan(where, columns=["id"], version=dataset.version)
    if sorted(ours.to_arrow()["id"].to_pylist()) != sorted(
        dataset.to_table(columns=["id"], filter=where, use_scalar_index=False)["id"].to_pylist()
    ):
        found.append(f"{where} at version {dataset.version}, asked through our kinds")
    return found


def assert_true_when_it_is_quiet(uri: str, indexes: tuple[tuple[Any, str], ...]) -> None:
    table = lw.open(uri, progress=False)
    now = timedelta(0)
    for _ in range(6):
        receipt = table.maintain(
            lw.Policy(rows_per_fragment=400, older_than=now, orphan_age=now, thorough_every=now)
        )
        assert receipt.failed == ()
        if all(step.outcome == "nothing" for step in receipt.steps):
            break
    else:
        raise AssertionError("there is always something to be done")
    assert all(info.coverage.is_complete for info in table.indexes()), table.indexes()
    assert {info.name for info in table.indexes()} == {"theirs", *(kind for _, kind in indexes)}
    for column, kind in indexes:
        if kind in CASES and column != "other":
            assert wrong_answers(uri, CASES[kind]) == []
    assert_equal_to_a_full_scan(uri, "text LIKE 'alpha%' AND number = 12")
    assert strays(uri) == []
