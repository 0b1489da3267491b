"""Ranked searches and lookups of many keys: nearest places, a graph beside Lance's exact search, 100,000 keys in one probe.

    make bench-ranked ARGUMENTS="--rows 1000000 --vectors 50000 --keys 100000"

Every answer is compared with one that looks at every row, and medians of several runs are printed as JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa

import lancewright as lw

if TYPE_CHECKING:
    from collections.abc import Callable

_REPEATS = 7
_WIDTH = 128


def main() -> None:
    """Run all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--vectors", type=int, default=50_000)
    parser.add_argument("--keys", type=int, default=100_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lancewright-bench-") as folder:
        told = {
            "nearest places": bench_places(Path(folder), asked.rows),
            "graph": bench_graph(Path(folder), asked.vectors),
            "lookup": bench_lookup(Path(folder), asked.rows, asked.keys),
        }
    print(json.dumps(told, indent=2))


def bench_places(folder: Path, rows: int) -> dict[str, Any]:  # Any: numbers, for JSON
    """The ten nearest of points, half of them around 200 cities."""
    random = np.random.default_rng(1)
    cities = np.stack([random.uniform(-180, 180, 200), random.uniform(-70, 70, 200)], axis=1)
    near = cities[random.integers(0, 200, rows // 2)] + random.normal(0, 0.2, (rows // 2, 2))
    far = np.stack(
        [random.uniform(-180, 180, rows - rows // 2), random.uniform(-90, 90, rows - rows // 2)], axis=1
    )
    points = np.concatenate([near, far])
    uri = str(folder / "places.lance")
    lance.write_dataset(pa.table({"id": range(rows), "lon": points[:, 0], "lat": points[:, 1]}), uri)
    table = lw.open(uri, progress=False)
    built = timed(lambda: table.create_index(["lon", "lat"], kind="spatial"), 1)[0]
    place = (float(cities[0, 0]), float(cities[0, 1]))

    def search(*, use_index: bool, where: str | None = None) -> list[int]:
        found = table.search(near=place, k=10, columns=["id"], use_index=use_index, where=where)
        ids: list[int] = found.to_arrow()["id"].to_pylist()
        return ids

    indexed, one = timed(lambda: search(use_index=True))
    whole, other = timed(lambda: search(use_index=False), 3)
    filtered, third = timed(lambda: search(use_index=True, where="id % 10 = 3"), 3)
    assert one == other
    assert third == search(use_index=False, where="id % 10 = 3")
    return {
        "rows": rows,
        "build_s": built,
        "index_s": indexed,
        "every_row_s": whole,
        "filtered_s": filtered,
        "index_bytes_a_row": size_of(table, rows),
    }


def bench_graph(folder: Path, rows: int) -> dict[str, Any]:  # Any: as above
    """The ten nearest of vectors around 500 centres, beside Lance's exact search."""
    random = np.random.default_rng(2)
    centres = random.normal(size=(500, _WIDTH))
    vectors = (centres[random.integers(0, 500, rows)] + random.normal(0, 0.5, (rows, _WIDTH))).astype("f4")
    uri = str(folder / "vectors.lance")
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), _WIDTH)
    lance.write_dataset(pa.table({"id": range(rows), "vector": column}), uri)
    table = lw.open(uri, progress=False)
    built = timed(lambda: table.create_index("vector", kind="hnsw"), 1)[0]
    queries = vectors[:50] + random.normal(0, 0.1, (50, _WIDTH)).astype("f4")

    def search(query: Any, *, exact: bool) -> list[int]:  # Any: a vector
        found = table.search(query, k=10, columns=["id"], use_index=not exact).to_arrow()
        ids: list[int] = found["id"].to_pylist()
        return ids

    cold = timed(lambda: search(queries[0], exact=False), 1)[0]
    graph = timed(lambda: search(queries[1], exact=False))[0]
    exact = timed(lambda: search(queries[1], exact=True))[0]
    pairs = [(search(one, exact=False), search(one, exact=True)) for one in queries]
    recall = statistics.mean(len(set(found) & set(right)) / 10 for found, right in pairs)
    return {
        "rows": rows,
        "build_s": built,
        "first_s": cold,
        "graph_s": graph,
        "exact_s": exact,
        "recall_at_10": recall,
        "index_bytes_a_row": size_of(table, rows),
    }


def bench_lookup(folder: Path, rows: int, keys: int) -> dict[str, Any]:  # Any: as above
    """The rows of many keys, by index and by scanning."""
    random = np.random.default_rng(3)
    uri = str(folder / "orders.lance")
    codes = pa.array([f"order-{number:012d}" for number in random.permutation(rows)])
    lance.write_dataset(pa.table({"code": codes, "amount": random.normal(size=rows)}), uri)
    table = lw.open(uri, progress=False)
    half = keys // 2
    asked = pa.table(
        {"code": pa.concat_arrays([codes.slice(0, half), pa.array([f"no-{n}" for n in range(half)])])}
    )
    scanned, right = timed(lambda: table.lookup(asked, columns=["amount"]).to_arrow(), 3)
    told = {"rows": rows, "keys": 2 * half, "scan_s": scanned}
    for kind in ("key", "composite"):
        table.create_index("code", kind=kind, name="codes", replace=kind != "key")
        seconds, found = timed(lambda: table.lookup(asked, index="codes", columns=["amount"]).to_arrow())
        assert found == right
        told[f"{kind}_s"] = seconds
        few, _ = timed(lambda: table.lookup(asked.slice(0, 10), index="codes", columns=["amount"]).to_arrow())
        told[f"{kind}_10_keys_s"] = few
    return told


def timed(act: Callable[[], Any], repeats: int = _REPEATS) -> tuple[float, Any]:  # Any: what it gives
    """The median of several runs, and what the last one gave."""
    seconds, found = [], None
    for _ in range(repeats):
        started = time.perf_counter()
        found = act()
        seconds.append(time.perf_counter() - started)
    return round(statistics.median(seconds), 4), found


def size_of(table: lw.Table, rows: int) -> float:
    """Bytes of the table's indexes, by row."""
    return round(sum(index.state.size_bytes or 0 for index in table.indexes()) / rows, 1)


if __name__ == "__main__":
    main()
