"""Indexes of our own kinds are built by executors and answer Spark scans and searches as a full scan does."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancewright as lw
from lancewright.kinds.plugins import PLUGINS
from lancewright.query.prefilter import FilterRequest, choose_prefilter
from lancewright.query.search.request import RowsPrefilter
from lancewright.table.location import table_ref

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ROWS = 200_000


def orders(folder: Path, *, stable_row_ids: bool) -> str:
    random = np.random.default_rng(3)
    uri = str(folder / "orders")
    rows = pa.table(
        {
            "tenant": pa.array(random.integers(0, 50, ROWS), pa.int32()),
            "at": pa.array(np.sort(random.integers(0, 10**12, ROWS)), pa.timestamp("us")),
            "code": pa.array([f"order-{number}" for number in random.permutation(ROWS)]),
            "amount": pa.array(random.normal(size=ROWS)),
            "vector": pa.FixedSizeListArray.from_arrays(
                pa.array(random.normal(size=ROWS * 4), pa.float32()), 4
            ),
        }
    )
    lance.write_dataset(rows, uri, max_rows_per_file=ROWS // 8, enable_stable_row_ids=stable_row_ids)
    return uri


@pytest.mark.parametrize("stable_row_ids", [False, True])
def test_executors_build_what_a_spark_scan_asks(
    spark: SparkSession, tmp_path: Path, stable_row_ids: bool
) -> None:
    table = lw.open(orders(tmp_path, stable_row_ids=stable_row_ids), spark=spark, progress=False)
    table.create_index(["tenant", "at"], kind="composite")
    table.create_index("code", kind="key")
    asked = "tenant = 7 AND at < timestamp '1970-01-01 06:00:00'"

    found = table.scan(asked).to_spark()

    explained = table.explain(asked, analyze=True)
    assert [line.reason for line in explained.indexes if line.index == "tenant_at_idx"] == ["USED"]
    assert sorted(row.code for row in found.collect()) == sorted(
        table.scan(asked, use_indexes=False).to_arrow()["code"].to_pylist()
    )
    assert table.scan("code IN ('order-5', 'order-77')").to_spark().count() == 2


def test_executors_evaluate_what_an_expression_index_answers(spark: SparkSession, tmp_path: Path) -> None:
    uri = orders(tmp_path, stable_row_ids=False)
    table = lw.open(uri, spark=spark, progress=False)
    table.create_index("upper(code)", kind="key")
    table.create_index(["date_trunc('hour', at)", "tenant"], kind="composite", name="hours")
    hour = "date_trunc('hour', at) = '1970-01-02 03:00:00' AND tenant = 7"

    found = {where: table.scan(where).to_spark() for where in ("upper(code) = 'ORDER-77'", hour)}

    assert [row.code for row in found["upper(code) = 'ORDER-77'"].collect()] == ["order-77"]
    explained = table.explain(hour, analyze=True)
    assert [line.reason for line in explained.indexes if line.index == "hours"] == ["USED"]
    assert sorted(row.code for row in found[hour].collect()) == sorted(
        lance.dataset(uri).to_table(filter=hour, columns=["code"])["code"].to_pylist()
    )


def test_executors_return_rows_out_of_the_files_of_an_index(spark: SparkSession, tmp_path: Path) -> None:
    uri = orders(tmp_path, stable_row_ids=True)
    table = lw.open(uri, spark=spark, progress=False)
    table.create_index(["tenant", "at"], kind="composite", name="kept", include=["amount", "code"])
    where, columns = "tenant = 7 AND at < timestamp '1970-01-01 06:00:00' AND amount > 0", ["code", "amount"]
    expected = lance.dataset(uri).to_table(filter=where, columns=columns)
    frame = table.scan(where, columns=columns).to_spark()
    assert table.explain(where, columns=columns).index_only == ("kept",)

    for file in Path(uri, "data").iterdir():
        file.unlink()

    assert sorted((row.code, row.amount) for row in frame.collect()) == sorted(
        zip(expected["code"].to_pylist(), expected["amount"].to_pylist(), strict=True)
    )


def test_a_composite_index_prefilters_a_vector_search_exactly(spark: SparkSession, tmp_path: Path) -> None:
    uri = orders(tmp_path, stable_row_ids=False)
    table = lw.open(uri, spark=spark, progress=False)
    table.create_index(["tenant", "at"], kind="composite")
    asked = "tenant = 7 AND at < timestamp '1970-01-01 06:00:00'"
    query = [0.1, 0.2, 0.3, 0.4]

    pinned = table_ref(uri).pinned(table.snapshot().version)
    assert isinstance(choose_prefilter(FilterRequest(table=pinned, where=asked)), RowsPrefilter)
    nearest = table.search(query, column="vector", k=5, where=asked, columns=["code"]).to_arrow()

    rows = table.scan(asked, columns=["code", "vector"], use_indexes=False).to_arrow()
    distances = ((np.stack(rows["vector"].to_numpy()) - np.array(query)) ** 2).sum(axis=1)
    expected = [rows["code"][int(place)].as_py() for place in np.argsort(distances)[:5]]
    assert nearest["code"].to_pylist() == expected


@pytest.mark.parametrize("stable_row_ids", [False, True])
def test_executors_keep_the_first_rows_in_an_order(
    spark: SparkSession, tmp_path: Path, stable_row_ids: bool
) -> None:
    uri = orders(tmp_path, stable_row_ids=stable_row_ids)
    table = lw.open(uri, spark=spark, progress=False)
    table.create_index(["tenant", "at"], kind="composite", segments=2)
    rows = lance.dataset(uri).to_table(filter="tenant = 7", columns=["at", "code"])

    for order in ("at", "at DESC", "code DESC"):
        asked = table.scan("tenant = 7", columns=["at", "code"], order_by=order, limit=9)
        column, _, word = order.partition(" ")
        wanted = sorted(rows[column].to_pylist(), reverse=bool(word))[:9]
        assert asked.to_arrow()[column].to_pylist() == wanted
        assert asked.to_spark().toArrow()[column].to_pylist() == wanted


def test_a_kind_that_executors_do_not_have_is_refused_before_the_build(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text(
        "from lancewright.testing.toys import ShelfKind\n\n\nclass OnlyHere(ShelfKind):\n    name = 'only_here'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    lw.register_kind(importlib.import_module("only_here").OnlyHere)
    uri = orders(tmp_path, stable_row_ids=False)

    try:
        with pytest.raises(lw.UnsupportedError, match="'only_here' cannot be used on this worker"):
            lw.open(uri, spark=spark, progress=False).create_index("amount", kind="only_here")
    finally:
        PLUGINS.unregister("only_here")

    assert not lw.open(uri).indexes()
