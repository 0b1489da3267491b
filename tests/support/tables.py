"""Builds small Lance tables in words: a column for every index kind, NULLs, deleted rows, fragments."""

from __future__ import annotations

import json
import struct
from typing import Any

import lance
import numpy as np
import pyarrow as pa

WORDS = np.array(
    [
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "zeta",
        "eta",
        "theta",
        "iota",
        "kappa",
        "lambda",
        "sigma",
        "omega",
    ]
)
DIMENSION = 16
GEOMETRY = pa.field("shape", pa.binary(), metadata={"ARROW:extension:name": "geoarrow.wkb"})


def rows(count: int, *, start: int = 0, seed: int = 0) -> pa.Table:
    """Rows with a column for every kind of index; about one in twenty scalar values is NULL."""
    random = np.random.default_rng(seed + start)
    numbers = np.arange(start, start + count)

    def holes(values: Any, type_: pa.DataType) -> pa.Array:
        return pa.array(values, type_, mask=random.random(count) < 0.05)

    texts = [" ".join(random.choice(WORDS, 6)) + f" doc{number}" for number in numbers]
    tags = [
        None if random.random() < 0.05 else list(random.choice(WORDS, random.integers(0, 4))) for _ in numbers
    ]
    points = random.uniform(0, 10, (count, 2))
    vectors = random.normal(size=(count, DIMENSION)).astype("f4")
    table = pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "number": holes(numbers % 1000, pa.int64()),
            "amount": holes(random.normal(size=count), pa.float64()),
            "category": holes([str(WORDS[number % 10]) for number in numbers], pa.string()),
            "at": pa.array(numbers.astype("datetime64[s]"), pa.timestamp("us")),
            "tags": pa.array(tags, pa.list_(pa.string())),
            "text": holes(texts, pa.string()),
            "document": pa.array(
                [
                    json.dumps({"a": int(number % 20), "b": {"c": int(number % 7)}, "word": f"w{number % 9}"})
                    for number in numbers
                ],
                pa.json_(),
            ),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSION),
            "nested": pa.array([{"x": int(number % 50), "y": float(number)} for number in numbers]),
            "odd name-1": pa.array(numbers, pa.int64()),
        }
    )
    shapes = pa.array(
        [struct.pack("<BIdd", 1, 1, x, y) for x, y in points], pa.binary(), mask=random.random(count) < 0.05
    )
    return table.append_column(GEOMETRY, shapes)


def write_table(
    uri: str,
    *,
    fragments: int = 8,
    rows_per_fragment: int = 500,
    stable_row_ids: bool = False,
    delete: str | None = None,
) -> lance.LanceDataset:
    """Write a table of equal fragments; ``delete`` is a predicate for rows to delete afterwards."""
    dataset = lance.write_dataset(
        rows(fragments * rows_per_fragment),
        uri,
        max_rows_per_file=rows_per_fragment,
        enable_stable_row_ids=stable_row_ids,
    )
    if delete is not None:
        dataset.delete(delete)
    return lance.dataset(uri)


def append_rows(uri: str, count: int = 500) -> lance.LanceDataset:
    """Append one fragment that no index covers."""
    dataset = lance.dataset(uri)
    start = dataset.count_rows() + 100_000
    lance.write_dataset(rows(count, start=start), uri, mode="append")
    return lance.dataset(uri)


def ids(dataset: lance.LanceDataset, predicate: str, *, use_index: bool) -> list[int]:
    """The ids pylance's own scanner answers, with or without scalar indexes."""
    scanner = dataset.scanner(columns=["id"], filter=predicate, use_scalar_index=use_index)
    return sorted(scanner.to_table()["id"].to_pylist())


def plan_uses_index(dataset: lance.LanceDataset, predicate: str) -> bool:
    """True when pylance's plan for this predicate asks a scalar index."""
    plan = dataset.scanner(columns=["id"], filter=predicate).explain_plan()
    return "ScalarIndexQuery" in plan or "MaterializeIndex" in plan
