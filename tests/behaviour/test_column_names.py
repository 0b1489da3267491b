"""Columns are found by the names they have: inside structs, and with characters a filter has to quote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancewright as lw
from support.tables import ids, plan_uses_index, rows

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def dataset(tmp_path: Path) -> lance.LanceDataset:
    """Eight fragments: plain, quoted and nested columns, with NULLs inside and in place of structs."""
    plain = rows(800)
    parts = {
        "x": plain["number"],
        "full text": plain["text"],
        "tags": plain["tags"],
        "vector": plain["vector"],
    }
    struct = pa.StructArray.from_arrays(
        [column.combine_chunks() for column in parts.values()],
        fields=[pa.field(name, column.type) for name, column in parts.items()],
        mask=pa.array(np.arange(800) % 17 == 0),
    )
    table = pa.table(
        {
            "id": plain["id"],
            "nested": struct,
            "odd struct": struct,
            "odd name-1": plain["number"],
            "odd text": plain["text"],
            "odd vector": plain["vector"],
            "Größe": plain["number"],
            "order": plain["number"],
            "CamelCase": plain["number"],
        }
    )
    lance.write_dataset(table, str(tmp_path / "table.lance"), max_rows_per_file=100).delete("id % 11 = 3")
    return lance.dataset(str(tmp_path / "table.lance"))


@pytest.mark.parametrize("kind", ["btree", "bitmap", "zonemap"])
@pytest.mark.parametrize(
    ("column", "quoted"),
    [
        ("nested.x", "nested.x"),
        ("odd name-1", "`odd name-1`"),
        ("`odd name-1`", "`odd name-1`"),
        ("odd struct.x", "`odd struct`.x"),
        ("`odd struct`.`x`", "`odd struct`.x"),
        ("Größe", "`Größe`"),
        ("order", "`order`"),
        ("CamelCase", "`CamelCase`"),
        ("camelcase", "`CamelCase`"),
    ],
)
def test_a_column_is_indexed_under_its_name(
    dataset: lance.LanceDataset, column: str, quoted: str, kind: str
) -> None:
    """However the caller writes it: Lance answers filters on it from the index, and rightly."""
    table = lw.open(dataset.uri, progress=False)

    table.create_index(column, kind=kind, segments=3)

    indexed = lance.dataset(dataset.uri)
    for filter_ in (f"{quoted} = 7", f"{quoted} < 40", f"{quoted} IS NULL"):
        assert plan_uses_index(indexed, filter_)
        assert ids(indexed, filter_, use_index=True) == ids(indexed, filter_, use_index=False) != []


@pytest.mark.parametrize(
    ("column", "name"),
    [
        ("nested.x", "nested.x_idx"),
        ("`odd struct`.`x`", "odd struct.x_idx"),
        ("`odd name-1`", "odd name-1_idx"),
        ("camelcase", "CamelCase_idx"),
    ],
)
def test_an_index_without_a_name_is_called_after_its_column(
    dataset: lance.LanceDataset, column: str, name: str
) -> None:
    """The column's own name, not the caller's spelling of it."""
    table = lw.open(dataset.uri, progress=False)

    receipt = table.create_index(column, kind="btree")

    assert [entry.name for entry in receipt.indexes] == [name]
    assert [info.name for info in table.indexes()] == [name]


@pytest.mark.parametrize(
    ("column", "quoted"), [("odd text", "`odd text`"), ("nested.`full text`", "nested.`full text`")]
)
def test_text_with_an_odd_or_nested_name_is_searched(
    dataset: lance.LanceDataset, column: str, quoted: str
) -> None:
    """Every row with the word is found."""
    lw.open(dataset.uri, progress=False).create_index(column, kind="inverted", segments=3)

    search = {"query": "alpha", "columns": [quoted]}
    found = lance.dataset(dataset.uri).to_table(columns=["id", "_score"], full_text_query=search, limit=1000)

    assert sorted(found["id"].to_pylist()) == ids(dataset, f"contains({quoted}, 'alpha')", use_index=False)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [("ivf_flat", {}), ("ivf_pq", {"num_sub_vectors": 8, "num_bits": 4}), ("ivf_sq", {}), ("ivf_rq", {})],
)
@pytest.mark.parametrize("column", ["odd vector", "nested.vector", "odd struct.vector"])
def test_vectors_with_an_odd_or_nested_name_are_searched(
    dataset: lance.LanceDataset, column: str, kind: str, parameters: dict[str, Any]
) -> None:
    """The model is trained on the nested column as well, and the nearest rows are found."""
    lw.open(dataset.uri, progress=False).create_index(column, kind=kind, num_partitions=2, **parameters)
    indexed = lance.dataset(dataset.uri)
    quoted = column.replace("odd vector", "`odd vector`").replace("odd struct", "`odd struct`")
    # Refining as many rows as there are makes the answer exact, whatever the codes.
    search = {"column": quoted, "q": np.zeros(16, "f4"), "k": 10, "nprobes": 2, "refine_factor": 80}

    found = indexed.scanner(columns=["id", "_distance"], nearest=search)
    exact = indexed.scanner(columns=["id", "_distance"], nearest={**search, "use_index": False})

    assert "ANNSubIndex" in found.explain_plan()
    assert found.to_table()["id"].to_pylist() == exact.to_table()["id"].to_pylist()
