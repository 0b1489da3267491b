"""A range-sorted BTree is the same whoever sorts it, and a point lookup reads one page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

import lancewright as lw
from lancewright.errors import LancewrightError
from support.tables import ids

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS, FRAGMENTS, RANGES = 60_000, 7, 5
COLUMNS = ("number", "text", "amount", "at", "price", "flag", "group")
WAYS = ("local", "classic", "connect")
QUESTIONS = {
    "number": (
        "number = 5",
        "number IN (1, 2, 3)",
        "number BETWEEN 100 AND 130",
        "number != 7",
        "number IS NULL",
    ),
    "text": ("text = 'user-77'", "text LIKE 'user-12%'", "text >= 'user-99'", "text IS NOT NULL"),
    "amount": ("amount = 0.0", "amount < -2.5", "NOT (amount < 2.5)", "amount IS NULL"),
    "at": ("at >= timestamp '1970-01-01 16:00:00'", "at IS NULL"),
    "price": (
        "price = CAST('12' AS DECIMAL(21, 2))",
        "price > CAST('240' AS DECIMAL(21, 2)) OR price IS NULL",
    ),
    "flag": ("flag", "NOT flag", "flag IS NULL"),
    "group": ("`group` = 'b'", "`group` IN ('a', 'c')", "`group` IS NULL"),
}


def write_typed_table(uri: str) -> None:
    random = np.random.default_rng(8)
    numbers = random.zipf(1.4, ROWS) % 10_000

    def holes(values: Any, type_: pa.DataType | None = None) -> pa.Array:
        return pa.array(values, type_, mask=random.random(ROWS) < 0.2)

    amounts = np.where(
        random.random(ROWS) < 0.1, random.choice([0.0, -0.0, np.nan, np.inf], ROWS), random.normal(size=ROWS)
    )
    table = pa.table(
        {
            "id": pa.array(np.arange(ROWS)),
            "number": holes(numbers),
            "text": holes([f"user-{number}" for number in numbers]),
            "amount": holes(amounts),
            "at": holes(np.arange(ROWS), pa.timestamp("s")),
            "price": holes(numbers).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)),
            "flag": holes(numbers % 2 == 0),
            "group": pa.array(["a", "b", "c", None]).take(pa.array(numbers % 4)).dictionary_encode(),
        }
    )
    lance.write_dataset(table, uri, max_rows_per_file=-(-ROWS // FRAGMENTS)).delete("id % 13 = 4")


@pytest.fixture(scope="module")
def built(
    spark: SparkSession, connect: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """One table per way of running, with an index over every column."""
    sessions = {"local": None, "classic": spark, "connect": connect}
    uris = {way: str(tmp_path_factory.mktemp("range") / way) for way in WAYS}
    for way, uri in uris.items():
        write_typed_table(uri)
        table = lw.open(uri, spark=sessions[way], progress=False)
        for column in COLUMNS:
            table.create_index(column, kind="btree", layout="range", ranges=RANGES, page_rows=512)
    return uris


def sorted_content(uri: str, column: str) -> list[tuple[Any, int]]:
    """Values and row addresses of an index, part after part."""
    (info,) = [info for info in lw.open(uri, progress=False).indexes() if info.name == f"{column}_idx"]
    (segment,) = info.segments
    folder = Path(uri) / "_indices" / segment.uuid
    metadata = LanceFileReader(str(folder / "page_lookup.lance")).metadata().schema.metadata
    rows: list[tuple[Any, int]] = []
    for part_id, pages in json.loads(metadata[b"page_num_per_range_partition"]):
        table = LanceFileReader(str(folder / f"part_{part_id}_page_data.lance")).read_all().to_table()
        assert pages == -(-table.num_rows // 512)
        rows += zip(map(repr, table["values"].to_pylist()), table["ids"].to_pylist(), strict=True)
    return rows


@pytest.mark.parametrize("column", COLUMNS)
def test_every_way_of_running_sorts_the_rows_alike(built: dict[str, str], column: str) -> None:
    local, classic, connect = (sorted_content(built[way], column) for way in WAYS)

    assert len(local) == lance.dataset(built["local"]).count_rows()
    # How chunks were cut decides only the order of the addresses of one value.
    assert [value for value, _ in classic] == [value for value, _ in local]
    assert [value for value, _ in connect] == [value for value, _ in local]
    assert sorted(classic) == sorted(connect) == sorted(local)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("column", COLUMNS)
def test_every_way_of_running_answers_as_a_scan(built: dict[str, str], way: str, column: str) -> None:
    dataset = lance.dataset(built[way])

    wrong = [
        question
        for question in QUESTIONS[column]
        if ids(dataset, question, use_index=True) != ids(dataset, question, use_index=False)
    ]

    assert wrong == []


@pytest.mark.parametrize("way", WAYS)
def test_every_range_is_a_part_of_its_own(built: dict[str, str], way: str) -> None:
    parts = list((Path(built[way]) / "_indices").rglob("part_*_page_data.lance"))

    assert len(parts) == RANGES * len(COLUMNS)


def test_a_failing_gather_on_spark_leaves_no_file(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    type_ = pa.dictionary(pa.int8(), pa.string())
    for start in (0, 100, 200):  # 300 distinct values under one-byte numbers: no dictionary holds them all
        words = pa.array([f"word {start + number}" for number in range(100)])
        part = pa.table({"word": words.dictionary_encode().cast(type_)})
        lance.write_dataset(part, uri, mode="append" if start else "create")
    before = {path for path in Path(uri).rglob("*") if path.is_file()}

    with pytest.raises(LancewrightError, match="distinct values"):
        lw.open(uri, spark=spark, progress=False).create_index("word", kind="btree", layout="range", ranges=1)

    assert {path for path in Path(uri).rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("way", ["local", "classic"])
def test_a_point_lookup_reads_one_page(way: str, spark: SparkSession, tmp_path: Path) -> None:
    """With the lookup warm, one unique key costs one page of one part, not one of every segment."""
    uri = str(tmp_path / "table")
    keys = np.random.default_rng(2).permutation(100_000)
    lance.write_dataset(pa.table({"id": np.arange(100_000), "key": keys}), uri, max_rows_per_file=20_000)
    session = spark if way == "classic" else None
    lw.open(uri, spark=session, progress=False).create_index(
        "key", kind="btree", layout="range", ranges=4, page_rows=1_000
    )
    dataset = lance.dataset(uri)
    ask(dataset, "key = 1")  # warms the lookup

    stats = [ask(dataset, f"key = {key}") for key in (25_500, 61_234, 99_001)]

    assert [entry["parts_loaded"] for entry in stats] == [1, 1, 1]
    assert [entry["rows"] for entry in stats] == [1, 1, 1]
    # The same key again: its page is in the cache.
    assert ask(dataset, "key = 61234")["parts_loaded"] == 0


def test_the_count_of_pages_tells_segments_apart(tmp_path: Path) -> None:
    """The same lookup over five segments in the order of the rows costs five pages."""
    uri = str(tmp_path / "table")
    keys = np.random.default_rng(2).permutation(100_000)
    lance.write_dataset(pa.table({"id": np.arange(100_000), "key": keys}), uri, max_rows_per_file=20_000)
    lw.open(uri, progress=False).create_index("key", kind="btree", segments=5, page_rows=1_000)
    dataset = lance.dataset(uri)
    ask(dataset, "key = 50000")

    assert ask(dataset, "key = 25500")["parts_loaded"] == 5


def ask(dataset: lance.LanceDataset, question: str) -> dict[str, Any]:
    seen: list[Any] = []
    found = dataset.scanner(columns=["id"], filter=question, scan_stats_callback=seen.append).to_table()
    (stats,) = seen
    return {"parts_loaded": stats.parts_loaded, "rows": found.num_rows}
