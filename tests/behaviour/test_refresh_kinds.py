"""A refresh keeps indexes of plugins' kinds up like Lance's own: it builds what is not covered, and they answer like a scan."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pytest
from pyroaring import FrozenBitMap

import lancewright as lw
from lancewright.build.kind_merge_worker import merge_kind_segments
from lancewright.build.rounds import BuildOptions
from lancewright.kinds.key.kind import KeyKind
from lancewright.kinds.plugins import PLUGINS, register_kind
from lancewright.maintain.evidence import Past
from lancewright.maintain.gaps import GapCause
from lancewright.maintain.kind_judgement import inherit_kind_request, judge
from lancewright.maintain.merge import merge_indexes
from lancewright.maintain.merge_plan import MergeRules
from lancewright.maintain.refresh import refresh_indexes
from lancewright.model.segment_details import details_from_bytes
from lancewright.observe.events import IndexCommitted, TaskFinished
from lancewright.observe.sinks import MemorySink
from lancewright.runtime.local_runner import LocalRunner
from lancewright.table.commit import IndexChange, commit_segments
from lancewright.table.location import table_ref
from support.busy_table import append, busy_table, delete, rewrite_column, update_rows
from support.eager_scans import asked_indexes, assert_equal_to_a_full_scan
from support.runners import MERGE, BusyRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lancewright.kinds.contract import IndexKind
    from lancewright.maintain.refresh import RefreshReceipt

NO_WAIT = BuildOptions(sleep=lambda _seconds: None, poll_s=0.05)
WHERE = {
    "composite": (
        "number = 3 AND text > 'b'",
        "number = 20",
        "number BETWEEN 18 AND 25",
        "NOT (number < 30)",
    ),
    "key": ("id IN (1, 150, 205, 333, 411, 10007)", "id = 10059"),
    "expression": ("lower(text) >= 'z'", "lower(text) < 'beta'"),
}


@pytest.fixture(scope="module", params=[False, True], ids=["addresses", "stable"])
def built_table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "table"
    busy_table(str(folder), stable_row_ids=request.param).drop_index("theirs")
    lw.open(str(folder), progress=False).create_indexes(
        [
            lw.IndexRequest(
                column=column,
                kind=kind,
                name=name,
                segments=2,
                parameters={"include": ["other"]} if keeps else {},
            )
            for name, column, kind, keeps in (
                ("composite", ["number", "text"], "composite", True),
                ("key", "id", "key", False),
                ("expression", "lower(text)", "composite", False),
            )
        ]
    )
    return folder


@pytest.fixture
def table(built_table: Path, tmp_path: Path) -> lw.Table:
    shutil.copytree(built_table, tmp_path / "table")
    return lw.open(str(tmp_path / "table"), progress=False)


def refresh(
    table: lw.Table, runner: LocalRunner | None = None, names: list[str] | None = None
) -> tuple[RefreshReceipt, MemorySink]:
    sink = MemorySink()
    receipt = refresh_indexes(table_ref(table.name), runner or LocalRunner(), sink, NO_WAIT, names)
    assert [index.problem for index in receipt.indexes] == [None] * len(receipt.indexes)
    return receipt, sink


def built(sink: MemorySink) -> dict[str, set[int]]:
    """By index, the fragments whose rows were read."""
    found: dict[str, set[int]] = {}
    for event in sink.events:
        if isinstance(event, TaskFinished) and event.stage == "build":
            found.setdefault(event.index, set()).update(event.fragments)
    return found


def assert_true(table: lw.Table) -> None:
    """Nothing is scanned, every index is asked, answers are those of a scan, and nothing is left to do."""
    for name, filters in WHERE.items():
        if table.snapshot().index(name) is None:
            continue
        for where in filters:
            scan = assert_equal_to_a_full_scan(table.name, where)
            assert asked_indexes(scan) == {name}, where
            assert all(portion.probe is not None for portion in scan.planned.plan.portions), where
    assert all(index.gap_rows == 0 for index in table.health().indexes)
    again, sink = refresh(table)
    assert again.rounds == 0
    assert not sink.events


def gaps(table: lw.Table) -> dict[str, set[int]]:
    return {
        index.name: found
        for index in table.health().indexes
        if (found := {fragment for gap in index.gaps for fragment in gap.fragments})
    }


def compact_plainly(uri: str) -> None:
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=350)


HAPPENINGS: dict[str, Callable[[str], object]] = {
    "append": append,
    "delete and append": lambda uri: (delete(uri), append(uri)),
    "update": lambda uri: update_rows(uri, 150, 220),
    "rewrite in place": lambda uri: rewrite_column(uri, "number", 2),
    "rewrite in place and append": lambda uri: (rewrite_column(uri, "text", 2), append(uri)),
    "compaction": compact_plainly,
    "rewrite, append, compaction": lambda uri: (
        rewrite_column(uri, "number", 3),
        append(uri),
        compact_plainly(uri),
    ),
    "update and compaction": lambda uri: (update_rows(uri, 150, 220), compact_plainly(uri)),
    "all of a segment deleted": lambda uri: (delete(uri, "id < 400"), append(uri)),
}


@pytest.mark.parametrize("happening", HAPPENINGS)
def test_only_what_is_not_covered_is_built_and_answers_are_those_of_a_scan(
    table: lw.Table, happening: str
) -> None:
    HAPPENINGS[happening](table.name)
    due = gaps(table)
    advised = {
        name for advice in table.health().advice if advice.verb == "refresh" for name in advice.indexes
    }

    receipt, sink = refresh(table)

    assert built(sink) == due
    assert advised >= set(due)
    assert len({event.version for event in sink.events if isinstance(event, IndexCommitted)}) <= 1
    assert receipt.rounds == (1 if due or advised else 0)
    assert_true(table)


def test_a_refresh_of_an_index_of_lance_and_one_of_a_plugin_is_one_job_and_one_commit(
    table: lw.Table,
) -> None:
    table.create_index("other", kind="bitmap", name="bitmap")
    append(table.name)

    receipt, sink = refresh(table)

    assert receipt.rounds == 1
    committed = [event for event in sink.events if isinstance(event, IndexCommitted)]
    assert {event.index for event in committed} == {"composite", "key", "expression", "bitmap"}
    assert len({event.version for event in committed}) == 1
    assert_true(table)


def test_what_is_built_later_keeps_what_was_declared(table: lw.Table) -> None:
    append(table.name)
    refresh(table)

    for name in ("composite", "key", "expression"):
        details = [details_from_bytes(one.details) for one in table.snapshot().segments_named(name)]
        assert len(details) == 3
        assert len({(one.parameters, one.format, one.values) for one in details}) == 1
        assert len({tuple(replace(key, nulls=0) for key in one.keys) for one in details}) == 1


def test_a_refresh_keeps_what_it_built_when_others_write_meanwhile(table: lw.Table) -> None:
    append(table.name)
    fresh = max(fragment.id for fragment in table.snapshot().fragments)
    runner = BusyRunner([lambda: (append(table.name, 20_000), rewrite_column(table.name, "number", fresh))])

    _, sink = refresh(table, runner)
    read = [
        (event.index, fragment)
        for event in sink.events
        if isinstance(event, TaskFinished) and event.stage == "build"
        for fragment in event.fragments
    ]

    assert read.count(("composite", fresh)) == 2
    assert read.count(("key", fresh)) == read.count(("expression", fresh)) == 1
    assert_true(table)


def test_segments_that_claim_what_nothing_leads_to_are_built_anew(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    busy_table(uri).drop_index("theirs")
    table = lw.open(uri, progress=False)
    table.create_index("id", kind="key", name="key", segments=2)
    snapshot = table.snapshot()
    first, second = snapshot.segments_named("key")
    append(uri)
    stranger = max(fragment.id for fragment in table.snapshot().fragments)
    forged = replace(first, fragments=FrozenBitMap([*first.covered, stranger]))
    commit_segments(table_ref(uri), table.snapshot(), IndexChange(add=(forged,), remove=(first,)))

    (key,) = [index for index in table.health().indexes if index.name == "key"]
    receipt, sink = refresh(table, names=["key"])

    assert [gap.fragments for gap in key.gaps] == [(stranger,)]
    assert receipt.indexes[0].rebuilt == 1
    assert built(sink) == {"key": set(forged.covered)}
    assert second.uuid in {segment.uuid for segment in table.snapshot().segments_named("key")}
    assert_true(table)


def test_damaged_segments_are_told_of_and_built_anew(table: lw.Table) -> None:
    segment = table.snapshot().segments_named("key")[0]
    header = next(file for file in segment.files or () if "header" in file.path)
    Path(table.name, "_indices", segment.uuid, header.path).write_bytes(b"\0" * header.size_bytes)

    (key,) = [index for index in table.health().indexes if index.name == "key"]
    receipt, sink = refresh(table)

    assert [(gap.cause, set(gap.fragments)) for gap in key.gaps] == [(GapCause.DAMAGED, set(segment.covered))]
    assert built(sink) == {"key": set(segment.covered)}
    assert receipt.rounds == 1
    assert_true(table)


def add_segments(table: lw.Table, count: int) -> None:
    for start in range(20_000, 20_000 + 100 * count, 100):
        append(table.name, start)
        refresh(table)


def test_merged_segments_answer_like_a_scan(table: lw.Table) -> None:
    add_segments(table, 3)
    delete(table.name)
    update_rows(table.name, 150, 220)
    refresh(table)
    sink = MemorySink()

    receipt = merge_indexes(table_ref(table.name), LocalRunner(), sink, NO_WAIT, rules=MergeRules(segments=1))

    assert {index.name: index.segments_after for index in receipt.indexes} == dict.fromkeys(
        ("composite", "key", "expression"), 1
    )
    assert len({event.version for event in sink.events if isinstance(event, IndexCommitted)}) == 1
    assert {len(table.snapshot().segments_named(index.name)) for index in receipt.indexes} == {1}
    assert_true(table)
    delete(table.name, "id BETWEEN 20000 AND 20010")
    update_rows(table.name, 300, 320)
    refresh(table)
    assert_true(table)


def test_a_kind_that_merges_is_merged_without_reading_the_table(table: lw.Table) -> None:
    add_segments(table, 1)
    ref, snapshot = table_ref(table.name), table.snapshot()
    index = snapshot.index("key")
    assert index is not None
    judgement = judge(ref, snapshot, index, Past(ref, snapshot))
    pinned = ref.pinned(snapshot.version)
    spec = inherit_kind_request(pinned, snapshot, judgement).spec
    for file in Path(table.name, "data").iterdir():
        file.unlink()

    merged = merge_kind_segments(pinned, spec, index.segments, sorted(snapshot.fragments_by_id))

    assert merged.covered == FrozenBitMap(snapshot.fragments_by_id)


def test_neighbours_of_one_size_are_merged_by_tiers(table: lw.Table) -> None:
    add_segments(table, 2)
    assert any(advice.verb == "merge" for advice in table.health().advice)

    table.merge()

    assert {len(index.segments) for index in table.health().indexes} == {1}
    assert_true(table)


def test_a_merge_leaves_what_another_writer_rewrote_meanwhile(table: lw.Table) -> None:
    add_segments(table, 1)
    runner = BusyRunner([lambda: rewrite_column(table.name, "number", 1)], stage=MERGE)

    merge_indexes(table_ref(table.name), runner, MemorySink(), NO_WAIT, rules=MergeRules(segments=1))
    refresh(table)

    assert_true(table)


def test_what_a_deferred_compaction_moved_is_written_anew_and_the_notes_go(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    busy_table(uri).drop_index("theirs")
    table = lw.open(uri, progress=False)
    table.create_index(["number", "text"], kind="composite", name="composite")
    table.create_index("id", kind="key", name="key", segments=2)
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=350, defer_index_remap=True)
    assert table.snapshot().deferred
    assert all(segment.is_waiting for index in table.health().indexes for segment in index.segments)
    (advice,) = table.health().advice

    receipt = table.catch_up()

    assert (advice.verb, set(advice.indexes)) == ("catch_up", {"composite", "key"})
    assert receipt.trimmed
    assert not table.snapshot().deferred
    assert_true(table)


@pytest.fixture
def registry() -> Iterator[None]:
    yield
    PLUGINS.unregister("key")


@pytest.mark.usefixtures("registry")
def test_a_kind_with_a_new_format_builds_older_segments_anew_only_when_there_is_more_to_build(
    table: lw.Table,
) -> None:
    class Newer(KeyKind):
        writes = 2
        reads = frozenset({1, 2})

    register_kind(Newer, replace=True)
    before, _ = refresh(table, names=["key"])
    append(table.name)
    _, sink = refresh(table, names=["key"])

    assert before.rounds == 0
    assert built(sink) == {"key": {fragment.id for fragment in table.snapshot().fragments}}
    refresh(table)
    assert_true(table)


@pytest.mark.usefixtures("registry")
def test_what_a_later_release_wrote_stays_and_is_told_of(table: lw.Table) -> None:
    class Later(KeyKind):
        writes = 2
        reads = frozenset({1, 2})

    register_kind(Later, replace=True)
    append(table.name)
    refresh(table, names=["key"])
    PLUGINS.unregister("key")
    before = table.snapshot().segments_named("key")

    (key,) = [index for index in table.health().indexes if index.name == "key"]
    receipt, _ = refresh(table, names=["key"])

    assert {gap.cause for gap in key.gaps} == {GapCause.UNSUPPORTED}
    assert receipt.rounds == 0
    assert table.snapshot().segments_named("key") == before


@pytest.mark.usefixtures("registry")
def test_an_index_whose_plugin_fails_is_told_of_and_left_alone(table: lw.Table) -> None:
    class Broken(KeyKind):
        api = (99, 0)

    broken: type[IndexKind] = Broken
    register_kind(broken, replace=True)
    append(table.name)

    found: Any = {index.name: index for index in table.refresh().indexes}

    assert "99.0" in (found["key"].problem or "")
    assert found["composite"].problem is None
    assert next(index for index in table.health().indexes if index.name == "key").problem is not None
