"""Verify finds what is wrong with an index and in which segment, finds nothing in a sound one, and mends no more than is wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pytest

import lancewright as lw
from lancewright.cli.app import main
from lancewright.maintain.checks.findings import Fault
from lancewright.observe.events import IndexCommitted, SegmentFoundWrong
from lancewright.observe.sinks import MemorySink
from support.busy_table import (
    CASES,
    append,
    busy_table,
    compact,
    delete,
    rewrite_column,
    update_rows,
    wrong_answers,
)
from support.folders import list_files
from support.planted import (
    add_again,
    claim,
    empty_a_range,
    faulty_key_kind,
    flip,
    folder,
    merge_quantizers,
    rewrite_unnoticed,
    segments,
    truncate,
)
from support.runners import BusyRunner

if TYPE_CHECKING:
    from pathlib import Path

    from lancewright.maintain.checks.findings import Finding

# What one table can have side by side: an index for each column.
SETS: dict[str, tuple[tuple[Any, str, dict[str, Any]], ...]] = {
    "postings": (
        ("number", "btree", {"layout": "fragment"}),
        ("other", "bitmap", {}),
        ("labels", "label_list", {}),
        ("text", "ngram", {}),
    ),
    "zones": (
        ("number", "zonemap", {"rows_per_zone": 16}),
        ("other", "bloomfilter", {"number_of_items": 16}),
        ("text", "inverted", CASES["inverted"].parameters),
        ("vector", "ivf_flat", CASES["ivf_flat"].parameters),
    ),
    "ours": (
        (["number", "other"], "composite", {}),
        (["text", "number"], "key", {}),
        (["id", "number"], "interval", {}),
        (["lower(text)"], "composite", {}),
    ),
    "others": (
        ("number", "btree", {"layout": "range", "ranges": 3}),
        ("text", "fm", {}),
        ("vector", "ivf_sq", CASES["ivf_sq"].parameters),
    ),
}


def make(folder_: Path, *, stable: bool = False, fragments: int = 6) -> str:
    uri = busy_table(str(folder_ / "table"), stable_row_ids=stable, fragments=fragments).uri
    lance.dataset(uri).drop_index("theirs")
    return uri


def build(uri: str, kind: str, **options: Any) -> lw.Table:
    table = lw.open(uri, progress=False)
    case = CASES[kind]
    table.create_index(case.column, kind=kind, name="ours", **{**case.parameters, **options})
    return table


def found(table: lw.Table, **options: Any) -> dict[tuple[str, Fault], Finding]:
    return {(finding.segment, finding.fault): finding for finding in table.verify(**options).findings}


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("chosen", SETS)
def test_sound_indexes_are_found_sound_whatever_the_table_went_through(
    tmp_path: Path, chosen: str, stable: bool
) -> None:
    uri = make(tmp_path, stable=stable)
    table = lw.open(uri, progress=False)
    table.create_indexes(
        [
            lw.IndexRequest(column=column, kind=kind, name=f"index{place}", parameters=parameters)
            for place, (column, kind, parameters) in enumerate(SETS[chosen])
        ]
    )
    before = list_files(uri)

    assert table.verify(thorough=True).is_sound

    assert list_files(uri) == before
    delete(uri)
    append(uri)
    update_rows(uri, 20, 60)
    rewrite_column(uri, "number", 3)
    assert table.verify(samples=8).findings == ()
    table.refresh()
    table.compact(rows_per_fragment=250)
    report = table.verify(samples=16, thorough=True)
    assert report.findings == ()
    looked = [segment.questions for index in report.indexes for segment in index.segments]
    assert all(looked)


@pytest.mark.parametrize("kind", ["btree", "zonemap", "inverted", "ivf_flat"])
def test_rows_that_a_segment_claims_and_does_not_have_are_missing(tmp_path: Path, kind: str) -> None:
    uri = make(tmp_path)
    table = build(uri, kind, segments=2)
    left, right = segments(uri)
    keeper = min(left.covered)
    claimed = claim(uri, left, [*left.covered, *right.covered], remove=[right])

    findings = found(table)

    finding = findings[claimed, Fault.MISSING]
    assert finding.rows > 0
    assert all(address >> 32 in right.covered for address in finding.addresses)
    assert {uuid for uuid, _ in findings} == {claimed}
    assert keeper not in {address >> 32 for address in finding.addresses}
    assert table.verify(repair=True).is_sound
    assert found(table, thorough=True) == {}


@pytest.mark.parametrize("kind", ["btree", "bitmap"])
def test_only_the_wrong_segment_is_built_anew(tmp_path: Path, kind: str) -> None:
    uri = make(tmp_path)
    build(uri, kind, segments=3)
    append(uri)
    left, middle, right = segments(uri)
    wrong = claim(uri, left, [*left.covered, *middle.covered], remove=[middle])
    sink = MemorySink()

    report = lw.open(uri, sink=sink, progress=False).verify(repair=True)

    assert report.is_sound
    (mended,) = report.mended
    assert (mended.segments, mended.rewritten, mended.problem) == (1, 0, None)
    assert {finding.segment for finding in mended.findings} == {wrong}
    assert mended.fragments == len(left.covered) + len(middle.covered)
    assert right.uuid in {segment.uuid for segment in segments(uri)}
    assert not any(6 in segment.covered for segment in segments(uri)), "what was not covered stays so"
    assert len(sink.of(IndexCommitted)) == 1
    assert {event.segment for event in sink.of(SegmentFoundWrong)} == {wrong}


def test_old_values_of_a_column_that_was_rewritten_unnoticed_are_stale(tmp_path: Path) -> None:
    uri = make(tmp_path)
    table = build(uri, "btree", segments=2)
    rewrite_unnoticed(uri, "number", 1)
    (wrong,) = [segment for segment in segments(uri) if 1 in segment.covered]

    findings = found(table, thorough=True)

    stale = findings[wrong.uuid, Fault.STALE]
    assert {address >> 32 for address in stale.addresses} == {1}
    assert any("number" in text for text in stale.asked)
    assert {uuid for uuid, _ in findings} == {wrong.uuid}


@pytest.mark.parametrize("kind", ["bitmap", "label_list", "inverted"])
def test_old_values_beside_new_ones_are_found_in_the_older_segment(tmp_path: Path, kind: str) -> None:
    """On a table with stable row ids Lance's own refresh leaves the value before an update in the older segment."""
    uri = make(tmp_path, stable=True)
    table = build(uri, kind, segments=1)
    (older,) = segments(uri)
    update_rows(uri, 100, 300)
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0, index_names=["ours"])

    findings = found(table)

    assert findings[older.uuid, Fault.STALE].rows > 0
    assert {uuid for uuid, _ in findings} == {older.uuid}
    assert table.verify(repair=True).is_sound


def test_segments_over_the_same_fragments_are_duplicates(tmp_path: Path) -> None:
    uri = make(tmp_path)
    table = build(uri, "btree", segments=2)
    first, second = segments(uri)
    again = add_again(uri, first)

    findings = found(table)

    assert findings.keys() == {(first.uuid, Fault.DUPLICATED), (again, Fault.DUPLICATED)}
    assert table.verify(repair=True).is_sound
    assert second.uuid in {segment.uuid for segment in segments(uri)}
    assert len(segments(uri)) == 2


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_wrong_row_numbers_of_a_kind_are_missing_and_stale(tmp_path: Path, stable: bool) -> None:
    uri = make(tmp_path, stable=stable)
    table = lw.open(uri, progress=False)
    with faulty_key_kind():
        table.create_index("id", kind="key", name="ours", segments=2)

    findings = found(table)

    assert {uuid for uuid, _ in findings} == {segment.uuid for segment in segments(uri)}
    assert {fault for _, fault in findings} == {Fault.MISSING, Fault.STALE}
    assert table.verify(repair=True).is_sound
    assert table.scan("id = 50").count() == 1


def test_quantizers_that_lance_merged_wrongly_are_low_recall(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    random = np.random.default_rng(1)
    parts = [random.normal(size=(300, 16)) * scale for scale in (0.02, 1.0, 50.0)]
    write_vectors(uri, parts)
    merge_quantizers(uri, "vector", "ours", num_partitions=1, ivf_centroids=np.zeros((1, 16), "f4"))
    table = lw.open(uri, progress=False)
    (wrong,) = segments(uri)

    report = table.verify()

    assert [finding.fault for finding in report.findings] == [Fault.LOW_RECALL]
    assert report.findings[0].segment == wrong.uuid
    assert (report.indexes[0].recall or 1) < 0.8
    assert not table.verify(repair=True).mended, "recall is a matter of choice"


def test_segments_below_the_recall_asked_for_are_found_and_rebuilt_on_request(tmp_path: Path) -> None:
    uri = make(tmp_path)
    table = build(uri, "ivf_pq", segments=2)

    report = table.verify(recall_min=0.99)

    assert {finding.fault for finding in report.findings} == {Fault.LOW_RECALL}
    assert table.verify().is_sound
    assert len(table.verify(recall_min=0.99, rebuild_low_recall=True).mended) > 0


def write_vectors(uri: str, parts: list[np.ndarray]) -> None:
    import pyarrow as pa

    for place, part in enumerate(parts):
        values = pa.FixedSizeListArray.from_arrays(pa.array(part.astype("f4").ravel()), part.shape[1])
        ids = pa.array(range(place * len(part), (place + 1) * len(part)))
        lance.write_dataset(
            pa.table({"id": ids, "vector": values}), uri, mode="append" if place else "create"
        )


def test_a_range_that_came_to_be_empty_is_found_and_mended(tmp_path: Path) -> None:
    uri = make(tmp_path)
    table = empty_a_range(uri)
    with pytest.raises(BaseException, match=r"Lance|range"):
        lance.dataset(uri).to_table(filter="number = 3")

    report = table.verify()

    assert [finding.fault for finding in report.findings] == [Fault.DAMAGED]
    assert "is empty" in report.findings[0].problem
    assert table.verify(repair=True).is_sound
    assert lance.dataset(uri).to_table(filter="number = 3").num_rows > 0
    assert all(
        file.path.startswith("part_") or file.path == "page_lookup.lance"
        for file in segments(uri)[0].files or ()
    )


@pytest.mark.parametrize("damage", [truncate, flip], ids=["cut", "flipped"])
def test_a_damaged_file_of_a_kind_of_ours_is_found_in_its_segment(tmp_path: Path, damage: Any) -> None:
    uri = make(tmp_path)
    table = lw.open(uri, progress=False)
    table.create_index("id", kind="key", name="ours", segments=2)
    wrong, sound = segments(uri)
    damage(folder(uri, wrong) / "rows")

    findings = found(table, thorough=True)

    assert findings.keys() == {(wrong.uuid, Fault.DAMAGED)}
    assert table.verify(repair=True).is_sound
    assert sound.uuid in {segment.uuid for segment in segments(uri)}


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        ("btree", "page_lookup.lance"),
        ("bitmap", "bitmap_page_lookup.lance"),
        ("inverted", "part_0_docs.lance"),
        ("ivf_flat", "auxiliary.idx"),
    ],
)
def test_a_cut_or_lost_file_of_lances_is_found_in_its_segment(tmp_path: Path, kind: str, file: str) -> None:
    uri = make(tmp_path)
    table = build(uri, kind, segments=2)
    cut, lost = segments(uri)
    truncate(folder(uri, cut) / file)

    assert found(table).keys() == {(cut.uuid, Fault.DAMAGED)}

    (folder(uri, lost) / file).unlink()
    assert found(table).keys() == {(cut.uuid, Fault.DAMAGED), (lost.uuid, Fault.DAMAGED)}


@pytest.mark.parametrize("kind", ["btree", "bitmap"])
def test_a_damaged_index_of_lances_is_mended(tmp_path: Path, kind: str) -> None:
    uri = make(tmp_path)
    table = build(uri, kind, segments=2)
    wrong, sound = segments(uri)
    for file in folder(uri, wrong).iterdir():
        truncate(file)

    report = table.verify(repair=True)

    assert report.is_sound
    assert sound.uuid in {segment.uuid for segment in segments(uri)}


def test_equal_seeds_ask_for_equal_rows(tmp_path: Path) -> None:
    uri = make(tmp_path)
    table = build(uri, "btree", segments=2)
    rewrite_unnoticed(uri, "number", 1)

    assert table.verify(seed=5).indexes == table.verify(seed=5).indexes


def test_the_command_says_what_is_wrong_by_its_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = make(tmp_path)
    build(uri, "btree", segments=2)
    rewrite_unnoticed(uri, "number", 1)

    def run(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as end:
            main(["verify", uri, "--local", *arguments])
        return int(end.value.code or 0), capsys.readouterr().out

    code, text = run("--json")
    document = json.loads(text)
    assert code == 11
    assert document["is_sound"] is False
    told = [one for segment in document["indexes"][0]["segments"] for one in segment["findings"]]
    assert {one["fault"] for one in told} == {"missing", "stale"}
    code, text = run()
    assert code == 11
    assert "Found wrong" in text
    code, text = run("--repair", "--json")
    assert code == 0
    assert {one["fault"] for one in json.loads(text)["mended"][0]["findings"]} == {"missing", "stale"}
    assert json.loads(text)["mended"][0]["segments"] == 1
    assert run()[0] == 0


@pytest.mark.parametrize(
    "options", [{"samples": 0}, {"k": -1}, {"k": True}, {"recall_min": 2.0}, {"repair": "yes"}, {"seed": -1}]
)
def test_numbers_that_make_no_sense_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    uri = make(tmp_path)

    with pytest.raises(lw.InvalidRequestError):
        lw.open(uri, progress=False).verify(**options)


def test_an_index_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(lw.NotFoundError, match="nothing"):
        lw.open(make(tmp_path), progress=False).verify("nothing")


def test_a_compaction_that_was_deferred_is_no_fault(tmp_path: Path) -> None:
    uri = make(tmp_path, fragments=8)
    table = build(uri, "btree", segments=2)
    compact(uri, [0, 1], deferred=True)

    assert table.verify(thorough=True).findings == ()


@pytest.mark.parametrize("act", ["append", "compact", "delete", "refresh", "rebuild", "drop"])
def test_a_repair_beside_another_writer_leaves_what_is_right(tmp_path: Path, act: str) -> None:
    uri = make(tmp_path)
    build(uri, "btree", segments=2)
    left, right = segments(uri)
    wrong = claim(uri, left, [*left.covered, *right.covered], remove=[right])
    other = lw.open(uri, progress=False)
    acts = {
        "append": lambda: append(uri),
        "compact": lambda: lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=10_000),
        "delete": lambda: delete(uri),
        "refresh": lambda: (append(uri), other.refresh()),
        "rebuild": lambda: build(uri, "btree", segments=3, replace=True),
        "drop": lambda: other.drop_index("ours"),
    }

    report = lw.open(uri, runner=BusyRunner([acts[act]]), progress=False).verify(repair=True)

    assert report.is_sound
    assert wrong not in {segment.uuid for segment in segments(uri)}
    assert bool(segments(uri)) is (act != "drop")
    assert wrong_answers(uri, CASES["btree"]) == []
    assert other.verify(thorough=True).is_sound
