"""A name stands for one index: given, taken, replaced or left alone as the caller says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pytest

import lancewright as lw
from lancewright.observe.events import StageStarted
from lancewright.observe.sinks import MemorySink
from support.folders import list_files
from support.tables import append_rows, ids, plan_uses_index, write_table

if TYPE_CHECKING:
    from pathlib import Path

FILTER = "number BETWEEN 20 AND 300"


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    """Eight fragments with a B-tree called ``ix`` on ``number``, and a ninth it does not cover."""
    uri = str(tmp_path / "table.lance")
    write_table(uri, rows_per_fragment=100, delete="id % 11 = 3")
    table = lw.open(uri, progress=False)
    table.create_index("number", kind="btree", name="ix", segments=3)
    append_rows(uri, 100)
    return table


def test_an_index_has_the_name_it_was_given(table: lw.Table) -> None:
    """Two indexes on one column live side by side under different names."""
    table.create_index("number", kind="bitmap", name="the other one")

    kinds = {info.name: info.kind for info in table.indexes()}
    assert kinds == {"ix": "btree", "the other one": "bitmap"}


def test_a_name_that_exists_is_refused_and_the_table_left_as_it_was(table: lw.Table) -> None:
    """The error names both ways out."""
    before = _files(table)

    with pytest.raises(lw.InvalidRequestError, match=r"already exists.*replace=True.*if_not_exists=True"):
        table.create_index("number", kind="btree", name="ix")

    assert _files(table) == before


def test_two_requests_of_one_call_cannot_share_a_name(table: lw.Table) -> None:
    """Nothing of the call is built."""
    requests = [lw.IndexRequest(column="number", kind=kind, name="twin") for kind in ("btree", "bitmap")]

    with pytest.raises(lw.InvalidRequestError, match="twin"):
        table.create_indexes(requests)

    assert [info.name for info in table.indexes()] == ["ix"]


def test_replace_puts_a_whole_new_index_in_place_of_the_old_one_in_one_commit(table: lw.Table) -> None:
    """All old segments are gone, what was appended since is covered, and no version was without the index."""
    before = table.snapshot()
    old = {segment.uuid for segment in before.segments_named("ix")}

    receipt = table.create_index("number", kind="btree", name="ix", replace=True, segments=2)

    after = table.snapshot()
    assert len(old) == 3
    assert len(after.segments_named("ix")) == 2
    assert old.isdisjoint(segment.uuid for segment in after.segments)
    assert receipt.version == after.version == before.version + 1
    assert table.indexes()[0].coverage.is_complete
    _require_right_answers(table)


@pytest.mark.parametrize(
    ("column", "kind", "filter_"),
    [
        ("number", "bitmap", FILTER),
        ("category", "bitmap", "category = 'beta'"),
        ("category", "btree", "category < 'c'"),
    ],
)
def test_replace_may_change_kind_and_column(table: lw.Table, column: str, kind: str, filter_: str) -> None:
    """The name stays, everything else is new."""
    table.create_index(column, kind=kind, name="ix", replace=True)

    (info,) = table.indexes()
    assert (info.name, info.kind, info.columns) == ("ix", kind, (column,))
    _require_right_answers(table, filter_)


def test_replace_creates_what_is_not_there_yet(table: lw.Table) -> None:
    """So a job that is run every night needs no first-night exception."""
    receipt = table.create_index("category", kind="bitmap", name="new", replace=True)

    assert [entry.created for entry in receipt.indexes] == [True]


def test_if_not_exists_leaves_an_existing_index_alone(table: lw.Table) -> None:
    """No task runs, no file is written, and the receipt says that nothing was created."""
    before = _files(table)
    sink = MemorySink()
    again = lw.open(table.snapshot().uri, sink=sink, progress=False)

    receipt = again.create_index("number", kind="btree", name="ix", if_not_exists=True)

    assert [(entry.name, entry.created) for entry in receipt.indexes] == [("ix", False)]
    assert sink.of(StageStarted) == ()
    assert _files(table) == before


def test_if_not_exists_builds_only_the_missing_ones_of_a_call(table: lw.Table) -> None:
    """The receipt lists both."""
    requests = [
        lw.IndexRequest(column="number", kind="btree", name="ix", if_not_exists=True),
        lw.IndexRequest(column="category", kind="bitmap", name="new", if_not_exists=True),
    ]

    receipt = table.create_indexes(requests)

    assert {entry.name: entry.created for entry in receipt.indexes} == {"ix": False, "new": True}
    assert {info.name for info in table.indexes()} == {"ix", "new"}


def test_a_dropped_name_can_be_used_again(table: lw.Table) -> None:
    """For an index of another kind."""
    table.drop_index("ix")

    table.create_index("number", kind="zonemap", name="ix")

    assert [(info.name, info.kind) for info in table.indexes()] == [("ix", "zonemap")]
    _require_right_answers(table)


def _require_right_answers(table: lw.Table, filter_: str = FILTER) -> None:
    dataset = lance.dataset(table.snapshot().uri)
    assert plan_uses_index(dataset, filter_)
    assert ids(dataset, filter_, use_index=True) == ids(dataset, filter_, use_index=False) != []


def _files(table: lw.Table) -> dict[str, int]:
    return list_files(table.snapshot().uri)
