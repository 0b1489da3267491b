"""``lookup`` finds the rows of many keys at once, through an index where there is one, and beside it by scanning."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lancewright as lw
from lancewright.kinds.key.kind import KeyReader
from lancewright.kinds.segment.store import BLOCKS
from lancewright.query import prefilter
from lancewright.query.lookup import lookup as lookup_module
from lancewright.query.resolve import ScanRequest
from lancewright.query.search.open_segments import SEGMENTS
from support.eager_scans import EAGER

if TYPE_CHECKING:
    from collections.abc import Sequence

ROWS = 400
TEXTS = ["", "a", "ab", "É", "zz" * 300, "b%c"]
FLOATS = [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 2.25]


def rows(random: np.random.Generator, first: int, count: int) -> pa.Table:
    """Rows with keys of several types, each of which comes often and may be NULL."""

    def holes(values: Any, type_: pa.DataType) -> pa.Array:
        return pa.array(values, type_, mask=random.random(count) < 0.05)

    return pa.table(
        {
            "id": range(first, first + count),
            "n": holes(random.integers(-40, 40, count), pa.int32()),
            "t": holes(random.choice(TEXTS, count), pa.string()),
            "f": holes(random.choice(FLOATS, count), pa.float64()),
            "at": holes(random.integers(0, 30, count), pa.timestamp("us")),
            "m": holes(random.integers(0, 99, count), pa.int64()).cast(pa.decimal128(30, 2)),
        }
    )


def write(folder: Path, *, stable: bool = False, seed: int = 1) -> str:
    uri = str(folder / "table.lance")
    table = rows(np.random.default_rng(seed), 0, ROWS)
    lance.write_dataset(table, uri, max_rows_per_file=ROWS // 4, enable_stable_row_ids=stable)
    return uri


def spelled(value: Any) -> Any:
    """A value as something that Python compares as Lance does."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


def expected(uri: str, keys: pa.Table, on: Sequence[str]) -> list[tuple[int, int]]:
    """Place of the key and id of the row, by comparing everything with everything."""
    table = lance.dataset(uri).to_table(with_row_id=True, use_scalar_index=False)
    by_key: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for row in table.to_pylist():
        key = tuple(spelled(row[name]) for name in on)
        by_key.setdefault(key, []).append((row["_rowid"], row["id"]))
    found = []
    for place, row in enumerate(keys.to_pylist()):
        key = tuple(spelled(row[name]) for name in on)
        if None not in key:
            found += [(place, id_) for _, id_ in sorted(by_key.get(key, []))]
    return found


def pairs(found: pa.Table) -> list[tuple[int, int]]:
    return list(zip(found["key_index"].to_pylist(), found["id"].to_pylist(), strict=True))


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("kind", ["key", "composite", None])
@pytest.mark.parametrize("on", [("n",), ("t", "n"), ("f",), ("at", "f", "t"), ("m",)], ids=",".join)
def test_every_pair_of_a_key_and_an_equal_row_is_found(
    tmp_path: Path, kind: str | None, on: tuple[str, ...], stable: bool
) -> None:
    uri = write(tmp_path, stable=stable)
    table = lw.open(uri, progress=False)
    if kind is not None:
        # The order of the columns of an index is its own.
        table.create_index(list(reversed(on)) if len(on) > 1 else on[0], kind=kind, name="keys", segments=2)
    random = np.random.default_rng(9)
    lance.write_dataset(rows(random, 1000, 60), uri, mode="append")
    lance.dataset(uri).delete("id % 7 = 0")
    lance.dataset(uri).update({"n": "n + 1"}, where="id % 11 = 0")
    if stable:
        lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=150)
    else:
        lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=150, defer_index_remap=True)
    keys = rows(random, 0, 50).select(on)

    lookup = table.lookup(keys, columns=["id"])

    assert pairs(lookup.to_arrow()) == expected(uri, keys, on)
    assert ("one probe each" in lookup.explain().to_text()) is (kind is not None)


def test_a_lookup_says_of_every_index_what_it_does_and_what_it_took(tmp_path: Path) -> None:
    uri = write(tmp_path)
    table = lw.open(uri, progress=False)
    table.create_index("n", kind="key", name="keys", segments=2)
    table.create_index("n", kind="btree", name="sorted")
    table.create_index("t", kind="btree", name="texts")
    lance.write_dataset(rows(np.random.default_rng(4), 1000, 60), uri, mode="append")
    BLOCKS.clear()
    SEGMENTS.clear()

    lookup = table.lookup(pa.table({"n": [1, 2]}), columns=["id"])
    told = lookup.explain(analyze=True)
    none = table.lookup(pa.table({"n": pa.array([], pa.int32())}), columns=["id"]).explain(analyze=True)

    assert {line.index: line.reason for line in told.indexes} == {
        "keys": "USED",
        "sorted": "OTHER_INDEX_CHOSEN",
        "texts": "COLUMN_NOT_ASKED",
    }
    assert [(task.way, task.rows) for task in told.tasks] == [
        ("by index", 200),
        ("by index", 200),
        ("scanned", 60),
    ]
    assert all(task.measured is not None and task.measured.read_bytes > 0 for task in told.tasks)
    assert told.measured is not None
    assert told.measured.rows == len(lookup.to_arrow())
    assert {note.reason.value for note in told.notes} == {"NOT_COVERED"}
    assert "look up 2 keys of n" in told.to_text()
    assert none.tasks == ()
    table.drop_index("keys")
    unindexed = table.lookup(pa.table({"n": range(5_000)}), columns=["id"]).explain()
    (texts,) = (line for line in unindexed.indexes if line.index == "texts")
    assert texts.explanation == "the lookup is on just n"
    assert len(unindexed.to_text()) < 2_000
    assert not any(line.used for line in none.indexes)


def test_keys_are_asked_of_a_segment_in_one_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = write(tmp_path)
    table = lw.open(uri, progress=False)
    table.create_index("n", kind="key", segments=2)
    asked: list[int] = []
    plain = KeyReader.lookup_many

    def counted(self: KeyReader, keys: pa.RecordBatch) -> Any:
        asked.append(len(keys))
        return plain(self, keys)

    monkeypatch.setattr(KeyReader, "lookup_many", counted)

    found = table.lookup(pa.table({"n": pa.array(range(-500, 500), pa.int64())}), columns=["id"]).to_arrow()

    assert asked == [1000, 1000]
    assert len(found) == lance.dataset(uri).count_rows("n IS NOT NULL")


@pytest.mark.parametrize("column", ["n", "t"])
def test_rows_that_a_btree_names_are_the_only_ones_read(
    tmp_path: Path, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefilter, "ScanRequest", partial(ScanRequest, settings=EAGER))
    uri = write(tmp_path)
    table = lw.open(uri, progress=False)
    table.create_index(column, kind="btree")
    lance.dataset(uri).delete("id % 5 = 0")
    keys = rows(np.random.default_rng(3), 0, 9).select([column])

    lookup = table.lookup(keys, columns=["id"])

    told = lookup.explain(analyze=True)
    assert "indexes named the" in told.to_text()
    assert [(line.kind, line.used) for line in told.indexes] == [("btree", True)]
    assert told.measured is not None
    assert told.measured.rows == len(lookup.to_arrow())
    assert told.measured.index_bytes > 0
    assert {task.way for task in told.tasks} == {"by index"}
    assert pairs(lookup.to_arrow()) == expected(uri, keys, [column])
    lance.write_dataset(rows(np.random.default_rng(4), 1000, 60), uri, mode="append")
    beside = table.lookup(keys, columns=["id"])
    assert pairs(beside.to_arrow()) == expected(uri, keys, [column])


def test_the_answer_has_the_columns_asked_for_and_is_known_before(tmp_path: Path) -> None:
    uri = write(tmp_path)
    table = lw.open(uri, progress=False)
    table.create_index(["t", "n"], kind="key", name="both")
    keys = pd.DataFrame({"t": ["a", "ab"], "n": [3, 4], "wanted": [1, 2]})

    lookup = table.lookup(keys, index="both", columns=["_rowid", "f", "id"])

    assert lookup.schema() == lookup.to_arrow().schema
    assert lookup.schema().names == ["key_index", "_rowid", "f", "id"]
    assert table.lookup(keys, on=["t", "n"]).to_arrow().column_names[1:] == ["id", "n", "t", "f", "at", "m"]
    assert pairs(pa.Table.from_pandas(lookup.to_pandas())) == expected(
        uri, pa.Table.from_pandas(keys), ["t", "n"]
    )
    (line,) = lookup.explain().indexes
    assert (line.index, line.kind, line.used, line.reason, line.role) == (
        "both",
        "key",
        True,
        "USED",
        "lookup",
    )
    assert repr(lookup).startswith("Lookup of 2 keys of t, n in")


def test_keys_of_another_type_equal_rows_where_the_values_are_the_same(tmp_path: Path) -> None:
    uri = write(tmp_path)
    table = lw.open(uri, progress=False)
    table.create_index("n", kind="key")

    found = table.lookup(pa.table({"n": [3.0, 3.5, 2.0**40, None, -7.0]}), columns=["id", "n"]).to_arrow()

    assert set(zip(found["key_index"].to_pylist(), found["n"].to_pylist(), strict=True)) == {(0, 3), (4, -7)}
    assert len(table.lookup(pa.table({"n": pa.array([], pa.int8())}), columns=["id"]).to_arrow()) == 0
    assert len(table.lookup(pa.table({"n": pa.nulls(3)}), columns=["id"]).to_arrow()) == 0


def test_a_damaged_segment_is_scanned_around_unless_that_is_refused(tmp_path: Path) -> None:
    uri = write(tmp_path)
    table = lw.open(uri, progress=False)
    table.create_index("n", kind="key", segments=2)
    file = next(Path(uri, "_indices").glob("*/hashes"))
    file.write_bytes(file.read_bytes()[::-1])
    BLOCKS.clear()
    SEGMENTS.clear()
    keys = pa.table({"n": [1, 2, 3]})

    lookup = table.lookup(keys, columns=["id"])

    assert pairs(lookup.to_arrow()) == expected(uri, keys, ["n"])
    (line,) = lookup.explain().indexes
    assert (line.reason, line.used) == ("BROKEN_SEGMENT", True)
    with pytest.raises(lw.CorruptIndexError, match="cannot be asked"):
        table.lookup(keys, columns=["id"], strict=True).to_arrow()


def test_an_upsert_splits_rows_into_those_that_are_there_and_those_that_are_not(tmp_path: Path) -> None:
    uri = str(tmp_path / "table.lance")
    lance.write_dataset(pa.table({"id": range(1000), "v": [0] * 1000}), uri, enable_stable_row_ids=True)
    table = lw.open(uri, progress=False)
    table.create_index("id", kind="key")
    fresh = pa.table({"id": [5, 1005, 7, 1007], "v": [1, 1, 1, 1]})

    there = table.lookup(fresh, on="id", columns=["_rowid"]).to_arrow()

    assert there["key_index"].to_pylist() == [0, 2]
    new = np.setdiff1d(np.arange(4), there["key_index"].to_numpy())
    assert fresh.take(new)["id"].to_pylist() == [1005, 1007]


@pytest.mark.parametrize(
    ("keys", "options", "said"),
    [
        ({"n": ["3"]}, {}, "is string, the table's is int32"),
        ({"nothing": [3]}, {}, "not in the table"),
        ({"n": [3]}, {"on": "t"}, "are compared"),
        ({"n": [3]}, {"on": ["n", "n"]}, "names .* twice"),
        ({"n": [3]}, {"index": "no"}, "no such index"),
        ({"n": [3]}, {"index": "texts"}, "are compared"),
        ({"n": [3]}, {"on": "n", "index": "texts"}, "no such index"),
        ({"n": [3]}, {"columns": ["nothing"]}, "not in the table"),
        ([1, 2], {}, "keys= is a list"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(
    tmp_path: Path, keys: Any, options: dict[str, Any], said: str
) -> None:
    table = lw.open(write(tmp_path), progress=False)
    table.create_index("t", kind="key", name="texts")

    with pytest.raises(lw.InvalidRequestError, match=said):
        table.lookup(pa.table(keys) if isinstance(keys, dict) else keys, **options)


def test_more_keys_than_fit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lw.open(write(tmp_path), progress=False)
    monkeypatch.setattr(lookup_module, "KEYS_MAX", 2)

    with pytest.raises(lw.UnsupportedError, match="3 keys are more than"):
        table.lookup(pa.table({"n": [1, 2, 3]}))
