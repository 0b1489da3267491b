"""``train=False`` makes an index that is there by name and covers nothing: everything is scanned, answers are right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pytest

import lancewright as lw
from support.kind_cases import CASES, FRAGMENTS, KindCase, change_after_build, write_kind_table, wrong_filters
from support.tables import DIMENSION, rows
from support.vectors import nearest

if TYPE_CHECKING:
    from pathlib import Path

VECTOR_KINDS = ("ivf_flat", "ivf_pq", "ivf_sq", "ivf_rq", "ivf_hnsw_flat", "ivf_hnsw_pq", "ivf_hnsw_sq")
# Lance makes no empty JSON index over bitmaps.
EMPTY_CASES = tuple(case for case in CASES if case.name != "json_bitmap")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> lw.Table:
    """An empty index of every kind on a table that has rows, and got more afterwards."""
    uri = str(tmp_path_factory.mktemp("untrained") / "table.lance")
    write_kind_table(uri, vector_columns=VECTOR_KINDS)
    table = lw.open(uri, progress=False)
    vectors = [_request(kind, kind, {"num_partitions": 4}) for kind in VECTOR_KINDS]
    table.create_indexes(
        [*(_request(case.name, case.kind, case.parameters) for case in EMPTY_CASES), *vectors]
    )
    change_after_build(uri)
    return table


def test_every_kind_can_be_made_empty(table: lw.Table) -> None:
    """One segment each, so that the name and the kind can be seen, and no fragment covered."""
    indexes = table.indexes()

    assert len(indexes) == len(EMPTY_CASES) + len(VECTOR_KINDS)
    for info in indexes:
        assert len(info.segments) == 1, info.name
        assert len(info.coverage.covered) == 0, info.name
        assert len(info.coverage.gaps) == FRAGMENTS + 1, info.name


# contains_tokens over an empty index of whole words fails inside Lance: test_upstream_limits.py.
@pytest.mark.parametrize(
    "case", [case for case in EMPTY_CASES if case.served and case.name != "words"], ids=lambda case: case.name
)
def test_filters_on_an_untrained_column_answer_as_a_scan(table: lw.Table, case: KindCase) -> None:
    """An empty index claims no fragment, so none is skipped."""
    wrong = wrong_filters(_dataset(table), [*case.served, *case.unserved])

    assert wrong == []


def test_words_are_found_without_a_trained_index(table: lw.Table) -> None:
    """Full text search scans what the index does not cover."""
    dataset = _dataset(table)

    search = {"query": "alpha", "columns": ["inverted"]}
    found = dataset.to_table(columns=["id", "_score"], full_text_query=search, limit=10_000)
    scanned = dataset.to_table(columns=["id"], filter="contains(inverted, 'alpha')", use_scalar_index=False)

    assert sorted(found["id"].to_pylist()) == sorted(scanned["id"].to_pylist()) != []


@pytest.mark.parametrize("kind", VECTOR_KINDS)
def test_neighbours_are_found_without_a_trained_index(table: lw.Table, kind: str) -> None:
    """Exactly, because all of them are compared."""
    queries = np.random.default_rng(5).normal(size=(5, DIMENSION)).astype("f4")

    found = nearest(_dataset(table), kind, queries)
    exact = nearest(_dataset(table), kind, queries, use_index=False)

    assert found["id"].to_pylist() == exact["id"].to_pylist()


def test_an_untrained_json_index_over_bitmaps_is_refused(tmp_path: Path) -> None:
    """Lance cannot make one; the table is left as it was."""
    dataset = write_kind_table(str(tmp_path / "table.lance"))
    table = lw.open(dataset.uri, progress=False)

    with pytest.raises(lw.LancewrightError, match="bitmap"):
        table.create_index("json_bitmap", kind="json", path="a", target_index_type="bitmap", train=False)

    assert table.snapshot().version == dataset.version


def test_an_untrained_index_can_be_made_on_an_empty_table_and_trained_when_rows_are_there(
    tmp_path: Path,
) -> None:
    """The usual order of a table's life: schema, indexes, rows."""
    uri = str(tmp_path / "table.lance")
    lance.write_dataset(rows(500).slice(0, 0), uri)
    table = lw.open(uri, progress=False)
    requests = [_request("number", "btree", {}), _request("vector", "ivf_flat", {"num_partitions": 4})]

    table.create_indexes(requests)
    lance.write_dataset(rows(500), uri, mode="append", max_rows_per_file=100)
    table.create_index("number", kind="btree", replace=True)

    covered = {info.name: len(info.coverage.covered) for info in table.indexes()}
    assert covered == {"number_idx": 5, "vector_idx": 0}


def _request(column: str, kind: str, parameters: dict[str, Any]) -> lw.IndexRequest:
    return lw.IndexRequest(column=column, kind=kind, parameters=parameters, train=False)


def _dataset(table: lw.Table) -> lance.LanceDataset:
    return lance.dataset(table.snapshot().uri)
