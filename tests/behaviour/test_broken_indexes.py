"""An index that cannot be used costs a scan: the query still answers, explain says why, and strict says it loudly."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancewright as lw
from lancewright.table.commit import IndexChange, commit_segments
from lancewright.table.location import table_ref
from lancewright.table.snapshot_reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 60_000
FILES = {"btree": "page_data.lance", "bitmap": "bitmap_page_lookup.lance", "zonemap": "zonemap.lance"}
ROOTS = {"btree": "page_lookup.lance", "bitmap": "bitmap_page_lookup.lance", "zonemap": "zonemap.lance"}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    lance.write_dataset(
        pa.table({"k": np.arange(ROWS), "text": [f"word{i % 50}" for i in range(ROWS)]}),
        path,
        max_rows_per_file=ROWS // 4,
    )
    return path


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip_the_end(path: Path) -> None:
    """Lance's files have no checksum: what is flipped inside of a value passes, what is flipped in their structure shows."""
    content = bytearray(path.read_bytes())
    content[-40:] = bytes(byte ^ 0xFF for byte in content[-40:])
    path.write_bytes(content)


def build(uri: str, kind: str) -> None:
    options = {"layout": "fragment"} if kind == "btree" else {}
    lw.open(uri, progress=False).create_index("k", kind=kind, name="ix", segments=1, **options)


def index_file(uri: str, name: str) -> Path:
    (segment,) = read_snapshot(table_ref(uri)).segments
    return Path(uri) / "_indices" / segment.uuid / name


@pytest.mark.parametrize("damage", [truncate, remove, empty, flip_the_end])
@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("files", [FILES, ROOTS], ids=["data", "root"])
def test_a_damaged_file_costs_a_scan_and_is_named(
    uri: str, kind: str, damage: Callable[[Path], None], files: dict[str, str]
) -> None:
    build(uri, kind)
    damage(index_file(uri, files[kind]))
    table = lw.open(uri, progress=False)

    found = table.scan("k = 4711").to_arrow()["k"].to_pylist()
    (line,) = table.explain("k = 4711", analyze=True).indexes

    assert found == [4711]
    assert not line.used
    assert line.reason == "BROKEN_SEGMENT"
    assert line.explanation
    with pytest.raises(lw.CorruptIndexError, match="ix"):
        table.scan("k = 4711", strict=True).to_arrow()


def test_an_index_that_only_lance_reads_in_tasks_may_break_too(uri: str) -> None:
    table = lw.open(uri, progress=False)
    table.create_index("text", kind="ngram", name="ix")
    assert table.explain("contains(text, 'word49')").indexes[0].reason == "USED_IN_TASKS"
    truncate(index_file(uri, "ngram_postings.lance"))

    assert table.scan("contains(text, 'word49')").count() == ROWS // 50
    assert table.scan("contains(text, 'word49')").to_arrow().num_rows == ROWS // 50
    (line,) = table.explain("contains(text, 'word49')", analyze=True).indexes
    assert (line.used, line.reason) == (False, "BROKEN_SEGMENT")
    strict = table.scan("contains(text, 'word49')", strict=True)
    for ask in (strict.count, strict.to_arrow, lambda: strict.explain(analyze=True)):
        with pytest.raises(lw.CorruptIndexError, match="cannot be read"):
            ask()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"type_url": "/example.GeohashIndexDetails"}, "NO_PLUGIN"),
        ({"index_version": 99}, "FORMAT_TOO_NEW"),
    ],
)
def test_a_segment_that_is_not_understood_is_passed_over(
    uri: str, change: dict[str, object], reason: str
) -> None:
    build(uri, "btree")
    ref = table_ref(uri)
    snapshot = read_snapshot(ref)
    (segment,) = snapshot.segments
    strange = replace(segment, uuid=str(uuid.uuid4()), **change)
    commit_segments(ref, snapshot, IndexChange(add=(strange,), remove=(segment,)))
    table = lw.open(uri, progress=False)

    (line,) = table.explain("k = 4711").indexes

    assert table.scan("k = 4711").to_arrow()["k"].to_pylist() == [4711]
    assert (line.used, line.reason) == (False, reason)
    assert (line.segments, line.segments_skipped) == (0, 1)
    with pytest.raises(lw.UnsupportedError, match="'ix'"):
        table.scan("k = 4711", strict=True).to_arrow()
    assert table.scan("text = 'word3'", strict=True).count() == ROWS // 50


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("btree", {"type_url": "/example.GeohashIndexDetails"}),
        ("bitmap", {"type_url": "/example.GeohashIndexDetails"}),
        ("bitmap", {"index_version": 99}),
        ("zonemap", {"index_version": 99}),
        ("ngram", {"type_url": "/example.GeohashIndexDetails"}),
        ("ngram", {"index_version": 99}),
    ],
)
def test_beside_a_segment_that_is_not_understood_the_others_answer(
    uri: str, kind: str, change: dict[str, object]
) -> None:
    column, where = ("text", "contains(text, 'word7')") if kind == "ngram" else ("k", "k IN (7, 59999)")
    options = {"layout": "fragment"} if kind == "btree" else {}
    lw.open(uri, progress=False).create_index(column, kind=kind, name="ix", segments=2, **options)
    ref = table_ref(uri)
    snapshot = read_snapshot(ref)
    old = snapshot.segments[0]
    strange = replace(old, uuid=str(uuid.uuid4()), **change)
    commit_segments(ref, snapshot, IndexChange(add=(strange,), remove=(old,)))
    table = lw.open(uri, progress=False)

    explanation = table.explain(where, analyze=True)

    assert table.scan(where).count() == (ROWS // 50 if kind == "ngram" else 2)
    assert table.scan(where).to_arrow().num_rows == table.scan(where).count()
    (line,) = explanation.indexes
    assert (line.segments, line.segments_skipped) == (1, 1)
    assert "1 of its segments cannot be read" in line.explanation
    if line.reason == "USED":
        assert explanation.scanned_because == ("2 of segments of ix that cannot be read",)
    with pytest.raises(lw.UnsupportedError, match="'ix'"):
        table.scan(where, strict=True).to_arrow()


@pytest.mark.parametrize(
    "where", ["k IN (1, 2) AND NOT (k IN (1, 2))", "k = 1 AND k = 2", "k IN (1) AND k IN (2)"]
)
def test_a_condition_that_lance_folds_away_is_no_damage(uri: str, where: str) -> None:
    build(uri, "btree")

    scan = lw.open(uri, progress=False).scan(where, strict=True)

    assert scan.count() == 0
    assert scan.explain(analyze=True).indexes[0].reason != "BROKEN_SEGMENT"


def test_a_healthy_index_beside_one_on_the_same_column_is_not_called_damaged(uri: str) -> None:
    """Lance chooses between two indexes on a column; where it would not ask ours, that costs a scan and is no error."""
    table = lw.open(uri, progress=False)
    for kind in ("bitmap", "btree", "zonemap"):
        table.create_index("k", kind=kind, name=kind, **({"layout": "fragment"} if kind == "btree" else {}))

    scan = table.scan("k = 4711", strict=True)

    assert scan.to_arrow()["k"].to_pylist() == [4711]
    assert "BROKEN_SEGMENT" not in scan.explain(analyze=True).to_text()


def test_a_healthy_index_is_used(uri: str) -> None:
    build(uri, "btree")

    explanation = lw.open(uri, progress=False).explain("k = 4711", analyze=True)

    assert explanation.indexes[0].used
    assert explanation.measured is not None
    assert explanation.measured.rows == 1
    assert explanation.measured.tasks == 1
