"""Whatever a table goes through, and whatever is done to keep its indexes true, they answer like a scan after every step.

``LANCEWRIGHT_SEQUENCES`` sets how many sequences of steps are tried in all (240), ``LANCEWRIGHT_S3_SEQUENCES`` how many of each world
on an object store (1, of one world).
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lance
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import lancewright as lw
from lancewright.errors import UnsupportedError
from lancewright.maintain.compact import CompactRules, plan_compact
from lancewright.maintain.due import find_due
from lancewright.maintain.refresh import plan_refresh
from lancewright.table.location import table_ref
from support.busy_table import (
    CASES,
    Case,
    assert_finds_every_text,
    busy_rows,
    predicates,
    rewrite_column,
    wrong_answers,
)
from support.eager_scans import assert_equal_to_a_full_scan
from support.s3 import BUCKET, s3_server

if TYPE_CHECKING:
    from collections.abc import Iterator

SEQUENCES = int(os.environ.get("LANCEWRIGHT_SEQUENCES", "240"))
SEQUENCES_ON_S3 = int(os.environ.get("LANCEWRIGHT_S3_SEQUENCES", "1"))
STEPS, STEPS_ON_S3 = 8, 5
FRAGMENTS, ROWS = 4, 24
OTHER = ("other = 3", "other IN (1, 5)", "other != 3", "NOT (other < 6)", "other IS NULL")
# A column has one index, or Lance would ask only one of two.
WORLDS: dict[str, tuple[tuple[Any, str, dict[str, Any]], ...]] = {
    "postings": (
        ("number", "btree", {"layout": "fragment"}),
        ("other", "bitmap", {}),
        ("labels", "label_list", {}),
        ("text", "ngram", {}),
    ),
    "ranges": (("number", "btree", {"layout": "range", "ranges": 3}), ("other", "bitmap", {})),
    "zones": (
        ("number", "zonemap", {"rows_per_zone": 8}),
        ("other", "bloomfilter", {"number_of_items": 8}),
        ("text", "inverted", CASES["inverted"].parameters),
    ),
    "plugins": (
        (["number", "other"], "composite", {}),
        (["text", "number"], "key", {}),
        (["id", "number"], "interval", {}),
        ("other", "bitmap", {}),
    ),
    "whole": (("number", "bitmap", {}), ("other", "btree", {}), ("text", "fm", {})),
}

PLUGINS_ASKED = {
    "composite": (
        "number = 12 AND other > 3",
        "number BETWEEN 17 AND 30",
        "NOT (number < 20)",
        "number IS NULL",
    ),
    "key": ("text LIKE 'alpha%' AND number = 12", "text = 'alpha stale' AND number = 20"),
    "interval": ("id <= 70 AND number >= 25", "id >= 90 AND number < 9"),
}


class Upkeep(RuleBasedStateMachine):
    """One table with one index on each of some columns; writers, other engines and our verbs take turns."""

    world = "postings"
    stable = False
    root: str | None = None

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="lancewright-upkeep-")
        self.uri = f"{self.root or self.folder}/{uuid.uuid4()}"
        self.next_id = FRAGMENTS * ROWS
        self.branches = 0
        lance.write_dataset(
            busy_rows(range(self.next_id)),
            self.uri,
            max_rows_per_file=ROWS,
            enable_stable_row_ids=self.stable,
        )
        self.indexes = WORLDS[self.world]
        self.table.create_indexes(
            [
                lw.IndexRequest(column=column, kind=kind, name=f"index{place}", parameters=parameters)
                for place, (column, kind, parameters) in enumerate(self.indexes)
            ]
        )
        self.floor = self.dataset.version

    @property
    def dataset(self) -> lance.LanceDataset:
        return lance.dataset(self.uri)

    @property
    def table(self) -> lw.Table:
        return lw.open(self.uri, progress=False)

    # --- writers ---

    @rule(count=st.integers(1, 30))
    def append(self, count: int) -> None:
        lance.write_dataset(busy_rows(range(self.next_id, self.next_id + count), 1), self.uri, mode="append")
        self.next_id += count

    @rule(first=st.integers(0, 120), count=st.integers(1, 40))
    def delete(self, first: int, count: int) -> None:
        self.dataset.delete(f"id BETWEEN {first} AND {first + count}")

    @rule(first=st.integers(0, 120), count=st.integers(1, 40))
    def update_everything(self, first: int, count: int) -> None:
        ids = self.ids(first, count)
        if ids:
            self.dataset.merge_insert("id").when_matched_update_all().execute(busy_rows(ids, 1))

    @rule(first=st.integers(0, 120), count=st.integers(1, 40))
    def update_another_column(self, first: int, count: int) -> None:
        self.dataset.update({"other": "other + 1"}, where=f"id BETWEEN {first} AND {first + count}")

    @rule(first=st.integers(0, 120), count=st.integers(1, 20))
    def merge_old_and_new_rows(self, first: int, count: int) -> None:
        ids = [*self.ids(first, count), *range(self.next_id, self.next_id + 5)]
        self.next_id += 5
        merge = self.dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(busy_rows(ids, 1))

    @rule(place=st.integers(0, 10), data=st.data())
    def rewrite_a_column_in_place(self, place: int, data: st.DataObject) -> None:
        fragments = [one for one in self.dataset.get_fragments() if one.count_rows()]
        if not fragments:
            return
        # Lance does not notice this for a list, and answers wrongly until somebody refreshes.
        column = data.draw(st.sampled_from(["number", "text", "vector"]))
        rewrite_column(self.uri, column, fragments[place % len(fragments)].fragment_id)

    @precondition(lambda self: self.world == "postings")
    @rule(place=st.integers(0, 10))
    def rewrite_a_list_in_place_and_refresh(self, place: int) -> None:
        fragments = [one for one in self.dataset.get_fragments() if one.count_rows()]
        if fragments:
            rewrite_column(self.uri, "labels", fragments[place % len(fragments)].fragment_id)
            self.table.refresh()
            self.floor = (
                self.dataset.version
            )  # going back between the two would go back to Lance's wrong answers

    @rule()
    def add_and_drop_a_column(self) -> None:
        if "extra" in self.dataset.schema.names:
            self.dataset.drop_columns(["extra"])
        else:
            self.dataset.add_columns({"extra": "id * 2"})

    @rule(back=st.integers(1, 4))
    def restore(self, back: int) -> None:
        version = max(self.floor, self.dataset.version - back)
        lance.dataset(self.uri, version=version).restore()

    @rule()
    def tag_and_clean_old_versions(self) -> None:
        dataset = self.dataset
        dataset.tags.create(f"v{dataset.version}-{self.branches}", dataset.version)
        self.branches += 1
        dataset.cleanup_old_versions(retain_versions=1, error_if_tagged_old_versions=False)
        self.floor = dataset.version

    # --- other engines ---

    @rule(rows=st.sampled_from([30, 60, 200]))
    def pylance_compacts(self, rows: int) -> None:
        snapshot = self.table.snapshot()
        if snapshot.deferred and snapshot.config.get("lance.compaction.defer_index_remap") != "true":
            return  # Lance itself leaves wrong answers when it compacts plainly after it deferred
        self.dataset.optimize.compact_files(target_rows_per_fragment=rows)

    @precondition(lambda self: not self.stable and self.world != "whole")
    @rule(rows=st.sampled_from([30, 60, 200]))
    def pylance_compacts_and_defers(self, rows: int) -> None:
        self.dataset.optimize.compact_files(target_rows_per_fragment=rows, defer_index_remap=True)

    # --- our verbs ---

    @rule()
    def refresh(self) -> None:
        self.table.refresh()
        self.assert_current()

    @rule(segments=st.sampled_from([None, 1, 2]))
    def merge(self, segments: int | None) -> None:
        self.table.merge(segments=segments)

    @rule(remap=st.sampled_from([None, "rewrite", "reuse", "drop"]), rows=st.sampled_from([30, 60, 200]))
    def compact(self, remap: Any, rows: int) -> None:
        try:
            self.table.compact(remap=remap, rows_per_fragment=rows)
        except UnsupportedError:
            assert remap in {"reuse", "drop"}

    @rule()
    def catch_up(self) -> None:
        self.table.catch_up()

    @rule(rows=st.sampled_from([30, 200]), tasks=st.sampled_from([None, None, 0, 1, 3]))
    def maintain(self, rows: int, tasks: int | None) -> None:
        policy = lw.Policy(
            rows_per_fragment=rows,
            fragments_min=2,
            tasks_max=tasks,
            older_than=timedelta(0),
            orphan_age=timedelta(0),
            thorough_every=timedelta(0),
        )
        receipt = self.table.maintain(policy)
        assert {step.error for step in receipt.failed} <= {"UnsupportedError"}
        self.floor = self.dataset.version
        if receipt.is_complete:
            # Not that they are current: without the old versions that were cleaned up, a list may be doubted.
            assert all(info.coverage.is_complete for info in self.table.indexes())
            snapshot = self.table.snapshot()
            if "compact" not in find_due(snapshot, policy):
                # What the manifest does not show would never be compacted.
                assert plan_compact(table_ref(self.uri), CompactRules(rows_per_fragment=rows)).tasks == 0

    @rule()
    def clean_up(self) -> None:
        kept = self.dataset.version
        self.table.cleanup(older_than=timedelta(0), orphan_age=timedelta(0))
        assert self.dataset.version == kept
        self.floor = kept

    @rule()
    def look(self) -> None:
        assert all(index.problem is None for index in self.table.health().indexes)

    @rule(seed=st.integers(0, 9))
    def verify(self, seed: int) -> None:
        assert self.table.verify(samples=2, seed=seed).findings == ()

    @rule()
    def branch_off(self) -> None:
        self.branches += 1
        name = f"side{self.branches}"
        branch = self.dataset.create_branch(name)
        lance.write_dataset(busy_rows(range(9_000, 9_010), 1), branch, mode="append")
        side = lw.open(self.uri, branch=name, progress=False)
        side.refresh()
        assert all(info.coverage.is_complete for info in side.indexes())
        assert self.problems(lance.dataset(side.name)) == []

    # --- what holds after every step ---

    @invariant()
    def every_index_answers_like_a_scan(self) -> None:
        assert self.problems(self.dataset) == []
        table = self.table
        for predicate in ("number < 20", "other = 3", "number = 12 OR other = 5"):
            assert table.scan(predicate).count() == len(self.scan(self.dataset, predicate))

    def problems(self, dataset: lance.LanceDataset) -> list[str]:
        found = []
        for column, kind, _ in self.indexes:
            if kind in PLUGINS_ASKED:
                for where in PLUGINS_ASKED[kind]:
                    assert_equal_to_a_full_scan(dataset.uri, where)
                continue
            case = Case(kind, column)
            if kind == "inverted":
                found += wrong_answers(dataset.uri, case)
                assert_finds_every_text(dataset.uri)
                continue
            asked = OTHER if column == "other" else predicates(case)
            found += [
                one for one in asked if self.scan(dataset, one) != self.scan(dataset, one, use_index=True)
            ]
        return found

    @staticmethod
    def scan(dataset: lance.LanceDataset, predicate: str, *, use_index: bool = False) -> list[int]:
        rows = dataset.to_table(columns=["id"], filter=predicate, use_scalar_index=use_index)
        return sorted(rows["id"].to_pylist())

    def assert_current(self) -> None:
        plan = plan_refresh(table_ref(self.uri))
        assert all(index.is_current for index in plan.indexes), plan.indexes

    def ids(self, first: int, count: int) -> list[int]:
        rows = self.dataset.to_table(columns=["id"], filter=f"id BETWEEN {first} AND {first + count}")
        return rows["id"].to_pylist()

    def teardown(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def run_sequences(machine: type[Upkeep], count: int, steps: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=max(1, count),
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.generate],
        ),
    )


@pytest.mark.slow
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("world", WORLDS)
def test_indexes_answer_like_a_scan_whatever_happens(world: str, stable: bool) -> None:
    machine = type("Upkeep", (Upkeep,), {"world": world, "stable": stable})

    run_sequences(machine, SEQUENCES // (2 * len(WORLDS)), STEPS)


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket whose address and credentials are in the environment, where Lance and its object store look."""
    with s3_server() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield f"s3://{BUCKET}"


@pytest.mark.slow
@pytest.mark.parametrize("world", list(WORLDS) if SEQUENCES_ON_S3 > 1 else ["postings"])
def test_indexes_on_an_object_store_answer_like_a_scan_whatever_happens(lake: str, world: str) -> None:
    machine = type("Upkeep", (Upkeep,), {"world": world, "root": lake})

    run_sequences(machine, SEQUENCES_ON_S3, STEPS_ON_S3)
