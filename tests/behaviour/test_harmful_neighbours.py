"""A range-sorted B-tree and the kinds its protection would harm never end up on one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pytest

import lancewright as lw
from support.tables import write_table

if TYPE_CHECKING:
    from pathlib import Path

KEY = "lance.compaction.defer_index_remap"
HARMED: list[tuple[str, str, dict[str, Any]]] = [
    ("fm", "text", {}),
    ("ivf_hnsw_flat", "vector", {}),
    ("json", "document", {"path": "word", "target_index_type": "fm", "target_data_type": "Utf8"}),
]
RANGED = lw.IndexRequest(column="number", kind="btree", parameters={"layout": "range", "ranges": 2})


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    return lw.open(write_table(str(tmp_path / "t"), fragments=4, rows_per_fragment=100).uri, progress=False)


def requests(kind: str, column: str, parameters: dict[str, Any]) -> lw.IndexRequest:
    return lw.IndexRequest(column=column, kind=kind, name="harmed", parameters=parameters)


@pytest.mark.parametrize(("kind", "column", "parameters"), HARMED, ids=lambda value: str(value)[:20])
def test_together_in_one_call_the_ranges_end_plain(
    table: lw.Table, kind: str, column: str, parameters: dict[str, Any]
) -> None:
    table.create_indexes([RANGED, requests(kind, column, parameters)])

    files = [
        file.path for info in table.indexes() if info.kind == "btree" for file in info.segments[0].files or ()
    ]
    assert "page_data.lance" in files
    assert KEY not in table.snapshot().config


@pytest.mark.parametrize(("kind", "column", "parameters"), HARMED, ids=lambda value: str(value)[:20])
def test_after_the_ranges_the_other_is_refused_with_the_way_out(
    table: lw.Table, kind: str, column: str, parameters: dict[str, Any]
) -> None:
    table.create_indexes([RANGED])

    with pytest.raises(lw.UnsupportedError, match="deferred remap") as caught:
        table.create_indexes([requests(kind, column, parameters)])

    assert KEY in caught.value.remedy
    assert len(table.indexes()) == 1


def test_after_an_fm_index_the_ranges_end_plain_and_both_survive_a_compaction(table: lw.Table) -> None:
    table.create_index("text", kind="fm")
    table.create_indexes([RANGED])
    dataset = lance.dataset(table.name)
    dataset.delete("id % 3 = 0")
    dataset.optimize.compact_files()

    dataset = lance.dataset(table.name)
    for predicate in ("contains(text, 'alpha')", "number = 7"):
        scan = dataset.scanner(filter=predicate, use_scalar_index=False).to_table()
        assert dataset.to_table(filter=predicate).num_rows == scan.num_rows


def test_replacing_under_one_name_may_change_the_column(table: lw.Table) -> None:
    table.create_index("number", kind="btree", name="one")

    table.create_index("category", kind="bitmap", name="one", replace=True)

    (info,) = table.indexes()
    assert (info.kind, info.columns) == ("bitmap", ("category",))


def test_a_relative_path_means_the_place_where_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("a", "b"):
        write_table(str(tmp_path / folder / "t"), fragments=1, rows_per_fragment=50)
    monkeypatch.chdir(tmp_path / "a")
    table = lw.open("t", progress=False)
    monkeypatch.chdir(tmp_path / "b")

    table.create_index("number", kind="btree")

    assert lance.dataset(str(tmp_path / "a" / "t")).describe_indices()
    assert not lance.dataset(str(tmp_path / "b" / "t")).describe_indices()


def test_a_field_inside_a_list_is_refused_before_any_task(table: lw.Table) -> None:
    with pytest.raises(lw.InvalidRequestError, match="inside a list"):
        table.create_index("tags.item", kind="btree")


def test_a_receipt_tells_the_kind_that_is_there(table: lw.Table) -> None:
    table.create_index("number", kind="btree", name="one")

    receipt = table.create_index("text", kind="ngram", name="one", if_not_exists=True)

    assert [(entry.kind, entry.created) for entry in receipt.indexes] == [("btree", False)]


def test_a_secret_in_an_endpoint_is_shown_nowhere() -> None:
    options = {
        "endpoint": "https://user:HIDDENWORD@127.0.0.1:1",
        "aws_access_key_id": "AKIAEXAMPLE",
        "aws_secret_access_key": "k" * 20,
        "region": "x",
        "client_max_retries": "0",
        "timeout": "2s",
    }

    with pytest.raises(lw.LancewrightError) as caught:
        lw.open("s3://bucket/x", storage_options=options)

    assert "HIDDENWORD" not in str(caught.value)
    assert "HIDDENWORD" not in str(caught.value.__cause__)
