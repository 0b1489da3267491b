"""What a build learns of the commits that came in between."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from lancewright.table.history import History, read_history
from lancewright.table.location import table_ref
from support.busy_table import append, busy_rows, busy_table, compact, delete, rewrite_column, update_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def history(uri: str, *acts: Callable[[str], object]) -> History:
    before = lance.dataset(uri).version
    for act in acts:
        act(uri)
    return read_history(table_ref(uri), before, lance.dataset(uri).version)


@pytest.fixture(params=[False, True], ids=["addresses", "stable"])
def uri(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    return str(busy_table(str(tmp_path / "table"), stable_row_ids=request.param).uri)


def test_nothing_is_learnt_where_nothing_happened(uri: str) -> None:
    assert history(uri) == History()


def test_appends_deletes_and_indexes_change_nothing_for_a_build(uri: str) -> None:
    def index(uri: str) -> None:
        lance.dataset(uri).create_scalar_index("number", "BTREE")

    assert history(uri, append, delete, index) == History()


def test_a_compaction_tells_what_became_what_also_when_it_remapped_an_index(uri: str) -> None:
    learnt = history(uri, lambda uri: compact(uri, [2, 3]), lambda uri: compact(uri, [5, 6, 7]))

    assert [(set(one.old), set(one.new)) for one in learnt.rewrites] == [({2, 3}, {8}), ({5, 6, 7}, {9})]
    assert (learnt.rows_moved, learnt.columns_rewritten, learnt.complete) == (False, False, True)


def test_an_update_of_rows_moves_them(uri: str) -> None:
    learnt = history(uri, lambda uri: update_rows(uri, 10, 20))

    assert (learnt.rows_moved, learnt.columns_rewritten, learnt.complete) == (True, False, True)


def test_values_changed_in_place_and_new_columns_are_told(uri: str) -> None:
    def add(uri: str) -> None:
        lance.dataset(uri).add_columns({"more": "id + 1"})

    assert history(uri, lambda uri: rewrite_column(uri, "labels", 2)).columns_rewritten
    assert history(uri, add).columns_rewritten


@pytest.mark.parametrize("act", ["overwrite", "restore"])
def test_where_the_table_was_replaced_or_put_back_nothing_is_known(uri: str, act: str) -> None:
    def replace(uri: str) -> None:
        if act == "overwrite":
            lance.write_dataset(busy_rows(range(10)), uri, mode="overwrite")
        else:
            lance.dataset(uri, version=1).restore()

    learnt = history(uri, lambda uri: compact(uri, [2, 3]), replace)

    assert learnt == History(rows_moved=True, columns_rewritten=True, complete=False, rewritten_fields=None)


def test_where_a_version_was_cleaned_up_nothing_is_known(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"id": [1]}), uri)
    for _ in range(3):
        lance.write_dataset(pa.table({"id": [1]}), uri, mode="append")
    lance.dataset(uri).cleanup_old_versions(older_than=timedelta(0))

    assert not read_history(table_ref(uri), 1, 4).complete


def test_the_commits_of_a_branch_are_those_of_the_branch(tmp_path: Path) -> None:
    uri = str(busy_table(str(tmp_path / "table")).uri)
    lance.dataset(uri).create_branch("dev")
    branch = f"{uri}/tree/dev"
    before = lance.dataset(branch).version
    append(uri)
    update_rows(branch, 10, 20)

    learnt = read_history(table_ref(uri, branch="dev"), before, lance.dataset(branch).version)

    assert (learnt.rows_moved, learnt.complete) == (True, True)
