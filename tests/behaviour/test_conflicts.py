"""When another writer takes the ground from under a build, it ends with one clear error and leaves nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pytest

import lancewright as lw
from lancewright.build.create import create_indexes
from lancewright.build.rounds import BuildOptions
from lancewright.observe.sinks import NullSink
from lancewright.table.location import table_ref
from support.busy_table import CASES, append, busy_table, compact, rewrite_column, wrong_answers
from support.runners import BusyRunner
from support.traces import scratch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lancewright.api import Receipt

BTREE = CASES["btree"]


@pytest.fixture(params=[False, True], ids=["addresses", "stable"])
def uri(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    return str(busy_table(str(tmp_path / "table"), stable_row_ids=request.param).uri)


def build(uri: str, *acts: Callable[[], object], column: str = "number", **options: Any) -> Receipt:
    table = lw.open(uri, runner=BusyRunner(acts), progress=False)
    return table.create_index(column, **{"kind": "btree", "name": "ours", **options})


def names(uri: str) -> set[str]:
    return {info.name for info in lw.open(uri, progress=False).indexes()}


def drop(uri: str, name: str) -> None:
    lance.dataset(uri).drop_index(name)


@pytest.mark.parametrize(
    "options", [{}, {"replace": True}, {"train": False}, {"kind": "bitmap", "segments": 3}]
)
def test_when_the_column_is_dropped_the_build_fails_and_no_entry_stays(
    uri: str, options: dict[str, Any]
) -> None:
    with pytest.raises(lw.ConflictError, match="Column 'number' was dropped"):
        build(uri, lambda: lance.dataset(uri).drop_columns(["number"]), **options)

    assert names(uri) == {"theirs"}
    assert scratch(uri) == []


def test_when_the_column_is_renamed_the_index_follows_it(uri: str) -> None:
    def rename() -> None:
        rewrite_column(uri, "number", 2)
        lance.dataset(uri).alter_columns({"path": "number", "name": "figure"})

    build(uri, rename)

    (info,) = [info for info in lw.open(uri, progress=False).indexes() if info.name == "ours"]
    assert info.columns == ("figure",)
    dataset = lance.dataset(uri)
    for predicate in ("figure = 20", "NOT (figure < 20)", "figure IS NULL"):
        answers = [
            dataset.count_rows(predicate),
            len(dataset.to_table(filter=predicate, use_scalar_index=False)),
        ]
        assert answers[0] == answers[1]


def test_when_another_writer_makes_an_index_of_this_name_theirs_stays(uri: str) -> None:
    with pytest.raises(lw.ConflictError, match="created an index named 'ours'"):
        build(uri, lambda: lance.dataset(uri).create_scalar_index("other", "BITMAP", name="ours"))

    (info,) = [info for info in lw.open(uri, progress=False).indexes() if info.name == "ours"]
    assert info.kind == "bitmap"
    assert scratch(uri) == []


def test_with_replace_an_index_of_this_name_made_meanwhile_is_replaced(uri: str) -> None:
    build(uri, lambda: lance.dataset(uri).create_scalar_index("other", "BITMAP", name="ours"), replace=True)

    (info,) = [info for info in lw.open(uri, progress=False).indexes() if info.name == "ours"]
    assert info.kind == "btree"
    assert wrong_answers(uri, BTREE) == []
    assert scratch(uri) == []


def test_with_if_not_exists_an_index_of_this_name_made_meanwhile_is_good_enough(uri: str) -> None:
    receipt = build(
        uri,
        lambda: lance.dataset(uri).create_scalar_index("number", "BITMAP", name="ours"),
        if_not_exists=True,
    )

    assert [index.created for index in receipt.indexes] == [False]
    assert receipt.indexes[0].fragments == 8
    assert scratch(uri) == []


def test_an_index_that_is_dropped_while_it_is_being_replaced_stays_dropped(uri: str) -> None:
    build(uri)

    with pytest.raises(lw.ConflictError, match="stays dropped"):
        build(uri, lambda: drop(uri, "ours"), replace=True)

    assert names(uri) == {"theirs"}
    assert scratch(uri) == []


def test_a_table_emptied_meanwhile_has_nothing_to_index(uri: str) -> None:
    def empty() -> None:
        schema = lance.dataset(uri).schema
        lance.write_dataset(schema.empty_table(), uri, mode="overwrite")

    with pytest.raises(lw.ConflictError, match="was emptied"):
        build(uri, empty)

    assert names(uri) == set()


def test_a_build_gives_up_when_others_never_stop_and_goes_on_where_it_was(uri: str) -> None:
    fragments = iter(range(8))
    options = BuildOptions(rounds_max=3, sleep=lambda _seconds: None)
    request = lw.IndexRequest(column="number", kind="btree", name="ours", segments=8)

    def change() -> None:
        rewrite_column(uri, "number", next(fragments))

    with pytest.raises(lw.ConflictError, match="gave up after 3 rounds"):
        create_indexes(table_ref(uri), [request], BusyRunner([change] * 3), NullSink(), options)
    assert names(uri) == {"theirs"}
    build(uri, segments=8)

    assert wrong_answers(uri, BTREE) == []
    assert scratch(uri) == []


def test_every_version_in_between_stays_readable(uri: str) -> None:
    def straddle() -> None:
        append(uri)
        lance.dataset(uri).optimize.optimize_indices(index_names=["theirs"], num_indices_to_merge=10)
        compact(uri, [7, 8], deferred=not lance.dataset(uri).has_stable_row_ids)

    build(uri, straddle)

    for version in lance.dataset(uri).versions():
        dataset = lance.dataset(uri, version=version["version"])
        assert dataset.count_rows("number >= 0") == len(
            dataset.to_table(filter="number >= 0", use_scalar_index=False)
        )


def test_indexes_built_in_one_call_are_published_together_or_not_at_all(uri: str) -> None:
    requests = [
        lw.IndexRequest(column="number", kind="btree", name="one"),
        lw.IndexRequest(column="labels", kind="label_list", name="two"),
    ]
    table = lw.open(
        uri, runner=BusyRunner([lambda: lance.dataset(uri).drop_columns(["labels"])]), progress=False
    )

    with pytest.raises(lw.ConflictError, match="'labels'"):
        table.create_indexes(requests)

    assert names(uri) == {"theirs"}
    assert scratch(uri) == []


def test_only_the_index_that_lost_fragments_is_built_again(uri: str) -> None:
    from lancewright.observe.events import TaskFinished
    from lancewright.observe.sinks import MemorySink

    requests = [
        lw.IndexRequest(column="number", kind="btree", name="one", segments=8),
        lw.IndexRequest(column="labels", kind="label_list", name="two", segments=8),
    ]
    sink = MemorySink()
    runner = BusyRunner([lambda: rewrite_column(uri, "labels", 5)])

    lw.open(uri, runner=runner, sink=sink, progress=False).create_indexes(requests)

    tasks = [event for event in sink.events if isinstance(event, TaskFinished) and event.stage == "build"]
    assert [(task.index, task.fragments) for task in tasks[16:]] == [("two", (5,))]
    assert wrong_answers(uri, BTREE) == []
    assert wrong_answers(uri, CASES["label_list"]) == []


def test_a_build_that_fails_after_a_part_was_visible_takes_that_part_back(tmp_path: Path) -> None:
    uri = str(busy_table(str(tmp_path / "table")).uri)

    def straddle() -> None:
        append(uri)
        lance.dataset(uri).optimize.optimize_indices(index_names=["theirs"], num_indices_to_merge=10)
        compact(uri, [7, 8], deferred=True)

    table = lw.open(uri, runner=BusyRunner([straddle], failing=[9]), progress=False)
    with pytest.raises(lw.TasksFailedError) as failure:
        table.create_index("number", kind="btree", name="ours", layout="fragment")
    assert failure.value.fragments == (9,)
    assert names(uri) == {"theirs"}

    build(uri, layout="fragment")

    assert wrong_answers(uri, BTREE) == []
    assert scratch(uri) == []
