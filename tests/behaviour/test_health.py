"""Health says what an index covers and why not the rest, and what it advises makes the table well."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import lance
import pytest

import lancewright as lw
from lancewright.cli.app import main
from lancewright.maintain.gaps import GapCause
from support.busy_table import CASES, append, busy_table, compact, rewrite_column, update_rows

if TYPE_CHECKING:
    from pathlib import Path

    from lancewright.maintain.health import IndexHealth


def ours(table: lw.Table) -> IndexHealth:
    return next(index for index in table.health().indexes if index.name == "ours")


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    uri = busy_table(str(tmp_path / "table")).uri
    table = lw.open(uri, progress=False)
    lance.dataset(uri).drop_index("theirs")
    table.create_index("number", kind="btree", name="ours", segments=2)
    return table


def test_a_table_with_nothing_to_do_is_well(table: lw.Table) -> None:
    health = table.health()

    assert health.is_well
    assert ours(table).gaps == ()
    assert [segment.fate for segment in ours(table).segments] == ["keep", "keep"]


def test_each_gap_has_its_cause(table: lw.Table) -> None:
    append(table.name)
    append(table.name, 20_000)
    compact(table.name, [8, 9])
    append(table.name, 30_000)
    rewrite_column(table.name, "number", 2)

    causes = {gap.cause.value: gap.rows for gap in ours(table).gaps}

    assert causes.keys() == {"appended", "compacted", "column_rewritten"}
    assert (causes["appended"], causes["compacted"]) == (60, 120)


def test_segments_say_that_they_wait_for_a_deferred_compaction(table: lw.Table) -> None:
    lance.dataset(table.name).optimize.compact_files(target_rows_per_fragment=350, defer_index_remap=True)

    assert all(segment.is_waiting for segment in ours(table).segments)
    assert table.health().deferred_compactions == 2


def test_what_it_advises_makes_the_table_well(table: lw.Table) -> None:
    append(table.name)
    for start in range(20_000, 24_000, 1_000):
        append(table.name, start)
        table.refresh()
    append(table.name, 30_000)

    (refresh, merge) = table.health().advice

    assert (refresh.verb, refresh.indexes, refresh.rows) == ("refresh", ("ours",), 60)
    assert merge.verb == "merge"
    table.refresh()
    table.merge()
    assert table.health().is_well


def test_old_values_that_lance_answers_with_are_told(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table"), stable_row_ids=True).uri
    table = lw.open(uri, progress=False)
    table.create_index("number", kind="bitmap", name="ours")
    update_rows(uri, 150, 220)
    lance.dataset(uri).optimize.optimize_indices(index_names=["ours"], num_indices_to_merge=0)

    assert ours(table).is_stale
    assert any("old values" in advice.reason for advice in table.health().advice)
    table.refresh("ours")
    assert not ours(table).is_stale


def test_an_index_that_a_compaction_may_break_is_told(table: lw.Table) -> None:
    table.create_index("other", kind="btree", name="ranged", layout="range", ranges=3)
    lance.dataset(table.name).update_config({"lance.compaction.defer_index_remap": "false"})

    (index,) = [index for index in table.health().indexes if index.name == "ranged"]

    assert index.risk is not None
    assert "defer_index_remap" in table.health().advice[-1].call


def test_an_index_of_a_plugin_with_rows_to_scan_is_to_be_refreshed_as_well(table: lw.Table) -> None:
    table.create_index("number", kind="key", name="keys")
    append(table.name)

    health = table.health()

    (advice,) = health.advice
    assert (advice.verb, advice.indexes, advice.rows) == ("refresh", ("ours", "keys"), 120)
    keys = next(index for index in health.indexes if index.name == "keys")
    assert keys.problem is None
    assert [(gap.cause, gap.rows) for gap in keys.gaps] == [(GapCause.APPENDED, 60)]


def test_every_kind_is_judged(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    table = lw.open(uri, progress=False)
    for case in CASES.values():
        table.create_index(case.column, kind=case.kind, name=case.kind, **case.parameters)
    append(uri)

    health = table.health()

    assert {index.name for index in health.indexes} == {*CASES, "theirs"}
    assert all(index.problem is None and index.gap_rows == 60 for index in health.indexes)
    assert "refresh" in repr(health)


def test_the_command_exits_with_ten_when_something_is_to_be_done(
    table: lw.Table, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as well:
        main(["health", table.name])
    append(table.name)
    capsys.readouterr()
    with pytest.raises(SystemExit) as unwell:
        main(["health", table.name, "--json"])

    assert (well.value.code, unwell.value.code) == (0, 10)
    document = json.loads(capsys.readouterr().out)
    assert [advice["verb"] for advice in document["advice"]] == ["refresh"]


def test_the_commands_refresh_and_merge(table: lw.Table, capsys: pytest.CaptureFixture[str]) -> None:
    append(table.name)
    version = table.snapshot().version

    for arguments in (["refresh", "--dry-run"], ["merge", "--dry-run", "--segments", "1"]):
        with pytest.raises(SystemExit):
            main([arguments[0], table.name, *arguments[1:]])
    assert table.snapshot().version == version
    for arguments in (["refresh", "--index", "ours"], ["merge", "--segments", "1"]):
        with pytest.raises(SystemExit):
            main([arguments[0], table.name, "--local", *arguments[1:]])

    assert len(ours(table).segments) == 1
    assert ours(table).gap_rows == 0
    assert "Merged" in capsys.readouterr().out
