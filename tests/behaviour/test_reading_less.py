"""Planning reads little of an index: of a B-tree's pages where they begin, and that is enough to know how many a value needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.indices import IndexConfig

import lancewright as lw
from lancewright.query.resolve import ScanRequest, plan_scan, resolve_scan
from lancewright.query.run import count_scan
from lancewright.runtime.local_runner import LocalRunner
from lancewright.table.location import table_ref

ROWS = 400_000
PAGE_ROWS = 64


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = str(tmp_path_factory.mktemp("keys") / "t")
    keys = np.random.default_rng(1).permutation(ROWS).astype("f8") * 10
    rows = pa.table({"k": pa.array(keys, mask=np.arange(ROWS) % 10 == 0)})
    lance.write_dataset(rows, uri, max_rows_per_file=ROWS // 4)
    lance.dataset(uri).create_scalar_index("k", IndexConfig("btree", {"zone_size": PAGE_ROWS}), name="by_k")
    return uri


def test_planning_reads_about_half_of_the_table_of_pages_and_only_once(uri: str) -> None:
    (lookup,) = Path(uri, "_indices").glob("*/page_lookup.lance")
    table = lw.open(uri, progress=False)

    first = table.explain("k = 70", analyze=True).measured
    second = table.explain("k = 80", analyze=True).measured

    assert first is not None
    assert second is not None
    assert 0 < first.root_bytes < lookup.stat().st_size * 0.6
    assert second.root_bytes == 0


@pytest.mark.parametrize(
    ("where", "pages"),
    [
        ("k = 70", 1),
        ("k = 75", 1),
        ("k < 0", 0),
        (f"k = {ROWS * 10 + 1}", 0),
        ("k IN (70, 2000000)", 2),
        ("k >= 0 AND k < 200000", 20_000 * 0.9 / PAGE_ROWS),
        ("k IS NULL", ROWS / 10 / PAGE_ROWS),
    ],
)
def test_an_estimate_is_right_by_two_pages(uri: str, where: str, pages: float) -> None:
    (line,) = lw.open(uri, progress=False).explain(where).indexes

    assert line.pages_estimated is not None
    assert pages - 2 <= line.pages_estimated <= pages + 2


def test_rows_that_an_index_names_are_counted_through_it_also_where_reading_them_would_take_a_scan(
    uri: str,
) -> None:
    where = f"k < {ROWS}"
    request = ScanRequest(where=where)

    reading = plan_scan(table_ref(uri), request, 2).plan
    counting = resolve_scan(plan_scan(table_ref(uri), replace(request, counting=True), 2))

    assert reading.probed == ()
    assert all(task.filter is None for task in counting.tasks)
    assert counting.answers[0].rows is not None
    whole = lance.dataset(uri).count_rows(where)
    assert lw.open(uri, progress=False).scan(where).count() == whole == count_scan(counting, LocalRunner())
    with pytest.raises(lw.InvalidRequestError, match="'nobody' is not in the table"):
        lw.open(uri, progress=False).scan(where, columns=["nobody"]).count()


def test_a_column_of_which_most_is_null_is_looked_up_through_its_index(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    rows = pa.table({"k": pa.array(np.arange(ROWS), mask=np.arange(ROWS) % 50 > 0)})
    lance.write_dataset(rows, uri)
    table = lw.open(uri, progress=False)
    table.create_index("k", kind="btree", name="by_k", page_rows=PAGE_ROWS)

    assert table.explain("k = 50").indexes[0].reason == "USED"
    assert table.scan("k IN (50, 51, 100)").count() == 2
