"""Lists over one column are joined before Lance joins them: Lance 14 forgets what NULL is compared with two lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from lancewright.model.predicate import parse_predicate, simplify, to_lance_sql, to_negation_normal_form
from lancewright.table.location import table_ref
from lancewright.table.snapshot_reader import read_snapshot

if TYPE_CHECKING:
    from pathlib import Path

FILTERS = {
    "NOT (i IN (1, 2) AND i IN (3, 4))": [1, 2, 3],
    "i NOT IN (1) OR i NOT IN (3)": [1, 2, 3],
    "i NOT IN (1, 2) OR i NOT IN (3, 4)": [1, 2, 3],
    "i NOT IN (1, 2) OR i NOT IN (2, 3)": [1, 3],
    "NOT (i IN (1) AND NOT (i IN (1)))": [1, 2, 3],
    "i IN (1, 2) AND i IN (2, 3)": [2],
    "i IN (1, 2) AND i IN (3, 4)": [],
    "i = 1 AND i IN (1, 2)": [1],
    "i IN (1, 2) OR NOT (i IN (1, 2))": [1, 2, 3],
}


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("lists") / "t"
    lance.write_dataset(pa.table({"i": pa.array([None, 1, 2, 3])}), path)
    return str(path)


@pytest.mark.parametrize("sql", FILTERS)
def test_null_is_in_no_list_and_out_of_none(uri: str, sql: str) -> None:
    columns = read_snapshot(table_ref(uri)).columns
    predicate = simplify(to_negation_normal_form(parse_predicate(sql, columns)))

    found = lance.dataset(uri).to_table(filter=to_lance_sql(predicate))["i"].to_pylist()

    assert found == FILTERS[sql]


def test_lance_itself_forgets_the_nulls(uri: str) -> None:
    """When this fails, Lance has learnt it and the joining may go."""
    assert None in lance.dataset(uri).to_table(filter="i NOT IN (1) OR i NOT IN (3)")["i"].to_pylist()
