"""The first rows in an order are those of a sort of everything, whatever the index, the filter and the life of the table."""

from __future__ import annotations

import math
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancewright as lw
from lancewright.kinds.contract import row_numbers
from lancewright.query.ordered import find_head
from lancewright.query.ordering import OrderKey, cut_first, read_order
from lancewright.query.resolve import ScanRequest, plan_scan, resolve_scan
from lancewright.runtime.local_runner import LocalRunner
from lancewright.table.location import table_ref
from lancewright.testing import Case, usual_harness
from lancewright.testing.laboratory import Laboratory
from lancewright.testing.oracle import sort_keys

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema(
    [("id", pa.int64()), ("a", pa.int32()), ("b", pa.float64()), ("c", pa.string()), ("other", pa.int64())]
)
ORDERS = [
    ["a"],
    ["a DESC"],
    ["a", "b"],
    ["a DESC", "b desc", "c DESC"],
    ["a", "b", "c"],
    ["b", "c"],
    ["b DESC"],
    ["a", "b DESC"],
    ["c", "a"],
    ["other DESC", "id"],
]
FILTERS = [
    None,
    "a = 2",
    "a = 2 AND b = 0.0",
    "a = 2 AND b > -1.0",
    "a >= 2",
    "a IN (1, 2)",
    "other < 3",
    "a = 2 AND other < 3",
    "a IS NULL",
]


def rows(random: np.random.Generator, count: int, start: int) -> pa.Table:
    def pick(values: list[Any], type_: pa.DataType) -> pa.Array:
        chosen = [values[place] for place in random.integers(0, len(values), count)]
        return pa.array(chosen, type_, mask=random.random(count) < 0.2)

    return pa.table(
        [
            pa.array(range(start, start + count)),
            pick([*range(-2, 4)], pa.int32()),
            pick([math.nan, -math.inf, -1.5, -0.0, 0.0, 2.5, math.inf], pa.float64()),
            pick(["", "a", "ab", "É", "z" * 20], pa.string()),
            pa.array(random.integers(0, 6, count)),
        ],
        schema=SCHEMA,
    )


@pytest.fixture(scope="module", params=[False, True], ids=["addresses", "stable ids"])
def uri(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two segments over what was there first, then appended, deleted, updated and compacted."""
    random = np.random.default_rng(5)
    path = str(tmp_path_factory.mktemp("ordered") / "table.lance")
    lance.write_dataset(rows(random, 160, 0), path, max_rows_per_file=40, enable_stable_row_ids=request.param)
    table = lw.open(path, progress=False)
    table.create_index(["a", "b", "c"], kind="composite", name="abc", segments=2)
    lance.dataset(path).delete("id % 5 = 1 OR a = -2")
    lance.dataset(path).update({"a": "3"}, where="other = 4 AND id % 2 = 0")
    lance.write_dataset(rows(random, 30, 1000), path, mode="append")
    lance.dataset(path).update({"other": "0"}, where="id % 9 = 0")
    lance.dataset(path).optimize.compact_files(
        target_rows_per_fragment=90, **({} if request.param else {"defer_index_remap": True})
    )
    return path


@pytest.mark.parametrize("where", FILTERS, ids=str)
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_the_first_rows_are_those_of_a_sort_of_everything(
    uri: str, order: list[str], where: str | None
) -> None:
    table = lw.open(uri, progress=False)
    everything = table.scan(where, use_indexes=False, columns=["id", "a", "b", "c", "other"]).to_arrow()

    for limit in (1, 7, 500):
        found = table.scan(where, columns=["id", "b"], order_by=order, limit=limit, strict=True).to_arrow()

        assert found.schema.names == ["id", "b"]
        wanted = in_order(everything, order)[:limit]
        keys = keys_of(everything, order)
        # Rows that are equal in the order may change places, and stand in for each other at the end.
        assert [keys[row] for row in found["id"].to_pylist()] == [keys[row] for row in wanted]
        assert len(set(found["id"].to_pylist())) == len(wanted)


def in_order(table: pa.Table, order: list[str]) -> list[int]:
    keys = keys_of(table, order)
    directions = [-1 if one.lower().endswith("desc") else 1 for one in order]

    def compare(left: int, right: int) -> int:
        for mine, other, direction in zip(keys[left], keys[right], directions, strict=True):
            if mine != other:
                first = mine is None or (other is not None and mine < other)
                return -direction if first else direction
        return 0

    return sorted(keys, key=cmp_to_key(compare))


def keys_of(table: pa.Table, order: list[str]) -> dict[int, tuple[Any, ...]]:
    columns = [sort_keys(table[one.split()[0]].combine_chunks()) for one in order]
    return dict(zip(table["id"].to_pylist(), zip(*columns, strict=True), strict=True))


@pytest.mark.parametrize(
    ("order", "where", "by_head"),
    [
        (["a"], None, True),
        (["a DESC", "b DESC"], None, True),
        (["b"], "a = 2", True),
        (["a", "b DESC"], "a = 2", True),
        (["b", "c"], "a = 2 AND b > 0", True),
        (["b"], None, False),
        (["a", "b DESC"], None, False),
        (["b"], "a >= 2", False),
        (["b"], "a IN (1, 2)", False),
        (["a"], "other = 1", False),
    ],
)
def test_an_index_is_asked_for_its_head_when_it_has_the_rows_in_this_order(
    uri: str, order: list[str], where: str | None, by_head: bool
) -> None:
    keys = read_order(order)
    planned = plan_scan(table_ref(uri), ScanRequest(where=where, order_by=keys, limit=3), 2)

    assert (find_head(planned, keys) is not None) == by_head


def test_only_the_head_of_an_index_and_its_rows_are_read(tmp_path: Path) -> None:
    path = str(tmp_path / "table.lance")
    random = np.random.default_rng(1)
    count = 200_000
    table = pa.table({"k": random.permutation(count), "payload": random.normal(size=count)})
    lance.write_dataset(table, path, max_rows_per_file=count // 4)
    opened = lw.open(path, progress=False)
    opened.create_index(["k", "payload"], kind="composite", name="kp", segments=2)
    seen: list[int] = []

    class Watching(LocalRunner):
        def map(self, job: Any, tasks: Any, on_outcome: Any) -> None:
            seen.extend(task.rows for task in tasks)
            super().map(job, tasks, on_outcome)

    found = lw.open(path, runner=Watching(), progress=False).scan(order_by="k DESC", limit=10).to_arrow()

    assert found["k"].to_pylist() == list(range(count - 1, count - 11, -1))
    assert sum(seen) == 20


def test_a_damaged_index_costs_a_scan_and_is_an_error_when_strict(tmp_path: Path) -> None:
    path = str(tmp_path / "table.lance")
    lance.write_dataset(rows(np.random.default_rng(2), 100, 0), path)
    table = lw.open(path, progress=False)
    table.create_index(["a", "b"], kind="composite", name="ab")
    for file in (tmp_path / "table.lance" / "_indices").rglob("rows*"):
        file.write_bytes(bytes(byte ^ 0xFF for byte in file.read_bytes()))

    found = table.scan(order_by="a", limit=30).to_arrow()

    assert found["a"].to_pylist() == sorted(
        found["a"].to_pylist(), key=lambda one: (one is not None, one or 0)
    )
    assert found["a"].null_count
    with pytest.raises(lw.CorruptIndexError, match="ab"):
        table.scan(order_by="a", limit=30, strict=True).to_arrow()


@pytest.mark.parametrize(
    ("order", "limit", "problem"),
    [
        ("a", None, "without limit"),
        ([], 3, "no list of columns"),
        ([3], 3, "no list of columns"),
        ("nothing", 3, "nothing"),
        ("l", 3, "has no order"),
        ("s.x", 3, "a field of a struct"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused(
    tmp_path: Path, order: Any, limit: int | None, problem: str
) -> None:
    path = str(tmp_path / "table.lance")
    lance.write_dataset(pa.table({"a": [1], "l": [[1]], "s": [{"x": 1}]}), path)
    table = lw.open(path, progress=False)

    with pytest.raises(lw.InvalidRequestError, match=problem):
        table.scan(order_by=order, limit=limit).to_arrow()


def test_nothing_is_asked_for_no_rows(uri: str) -> None:
    assert lw.open(uri, progress=False).scan(order_by="a", limit=0).to_arrow().num_rows == 0
    assert lw.open(uri, progress=False).scan("a = 77", order_by="b", limit=5).to_arrow().num_rows == 0
    assert lw.open(uri, progress=False).scan(order_by="a", limit=5).count() == 5


def test_the_plan_of_an_ordered_scan_is_resolved_like_any_other(uri: str) -> None:
    planned = plan_scan(table_ref(uri), ScanRequest(where="a = 2", order_by=read_order("b"), limit=3), 2)

    assert resolve_scan(planned).tasks


@pytest.mark.parametrize("case", usual_harness("composite").cases, ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_the_head_of_a_segment_and_the_sort_of_its_rows_have_one_order(case: Case, descending: bool) -> None:
    laboratory = Laboratory(usual_harness("composite"), seed=4)
    columns = laboratory.rows(case, 150)
    built = laboratory.build(case, columns, deleted=range(0, 150, 7))
    order = [(key, descending) for key in range(len(columns))]
    keys = [OrderKey(column=f"k{key}", descending=descending) for key in range(len(columns))]
    values = list(zip(*map(sort_keys, columns), strict=True))
    alive = [row for row in range(150) if row % 7]
    wanted = [
        values[row] for row in sorted(alive, key=lambda row: nulls_first(values[row]), reverse=descending)
    ]

    probe = built.kind.plan_search(built.spec, {"order_by": order, "atoms": ()})
    assert probe is not None
    reader = built.opened().reader
    head = reader.search(probe, (), 40, None)
    some = reader.search(probe, (), 40, row_numbers(np.array(alive[::3], dtype=np.uint32)))
    table = pa.table(
        [*columns, pa.array(range(150), pa.uint64())], [*(key.column for key in keys), "_rowaddr"]
    )
    sort = cut_first(table.take(pa.array(alive)), [key.column for key in keys], keys, 40)

    assert [values[row] for row in head.rows.tolist()] == wanted[:40]
    assert [values[row] for row in sort["_rowaddr"].to_pylist()] == wanted[:40]
    allowed = sorted(alive[::3], key=lambda row: nulls_first(values[row]), reverse=descending)[:40]
    assert [values[row] for row in some.rows.tolist()] == [values[row] for row in allowed]


def nulls_first(values: tuple[Any, ...]) -> tuple[tuple[bool, Any], ...]:
    return tuple((value is not None, 0 if value is None else value) for value in values)
