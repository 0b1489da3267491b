"""Whatever the table went through, a ranked search through a kind of ours finds what looking at every row finds.

``LANCEWRIGHT_RANKED_WORLDS`` sets the number of tables (4).
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from lancewright.kinds.contract import Hits, IndexKind, SearchProbe
from lancewright.kinds.plugins import PLUGINS, register_kind
from lancewright.testing.toys import NearestKind, NearestReader
from support.ranked_worlds import RankedWorld, best_rows, found_rows, true_metres

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import lancewright as lw
    from lancewright.kinds.contract import Reader, RowNumbers, Spec, Store

WORLDS = int(os.environ.get("LANCEWRIGHT_RANKED_WORLDS", "4"))
STEPS = 4
WHERES = (None, None, "g = 3", "g < 4 AND id % 3 = 1", "id < 0", "lat > 20")


class UnscoredNearest(NearestKind):
    """Cannot rank a row that is in no segment."""

    score = IndexKind.score


class FarFromTheMean(NearestKind):
    """Ranks the numbers by how far they are from the mean of all, the farthest first: every segment must know of all."""

    name = "outliers"

    def plan_search(self, _spec: Spec, query: Mapping[str, Any]) -> SearchProbe | None:
        if set(query) != {"outliers"}:
            return None
        return SearchProbe(payload=b"", descending=True, exact=True, needs_statistics=True)

    def open(self, _spec: Spec, store: Store) -> Reader:
        return MeanReader(store)


class MeanReader(NearestReader):
    def statistics(self, _probe: SearchProbe) -> bytes:
        finite = self.values[np.isfinite(self.values)]
        return json.dumps([float(finite.sum()), len(finite)]).encode()

    def search(
        self, _probe: SearchProbe, statistics: Sequence[bytes], k: int, allow: RowNumbers | None
    ) -> Hits:
        sums, counts = zip(*map(json.loads, statistics), strict=True)
        far = np.abs(self.values - sum(sums) / max(1, sum(counts)))
        may = self.allowed(allow)
        order = np.lexsort((self.numbers[may], -far[may]))[:k]
        return Hits(rows=self.numbers[may][order], scores=far[may][order])


@pytest.fixture
def toys() -> Iterator[None]:
    for kind in (UnscoredNearest, FarFromTheMean):
        register_kind(kind, replace=True)
    yield
    for kind in (UnscoredNearest, FarFromTheMean):
        PLUGINS.unregister(kind.name)


@pytest.mark.parametrize("seed", range(WORLDS))
def test_a_ranked_search_finds_what_looking_at_every_row_finds(tmp_path: Any, seed: int, toys: None) -> None:
    world = RankedWorld(tmp_path, seed)
    world.index(["lon", "lat"], "spatial", "places")
    world.index("number", "nearest", "numbers")
    world.index("vector", "hnsw", "graph")

    for _ in range(STEPS):
        world.change()
        table = world.table
        for _ in range(5):
            check_places(world, table)
            check_numbers(world, table)
            check_vectors(world, table)


def check_places(world: RankedWorld, table: lw.Table) -> None:
    random = world.random
    place = (float(random.integers(-36, 37) * 5), float(random.uniform(-90, 90)))
    k, where = int(random.choice([1, 3, 40, 1000])), str(random.choice(np.array(WHERES, dtype=object)))
    where = None if where == "None" else where
    rows = world.rows(where)

    search = table.search(near=place, column=["lon", "lat"], k=k, where=where, columns=["id"])
    found = found_rows(search.to_arrow())

    expected = best_rows(rows, true_metres(rows, place), k)
    said = (world.history, place, k, where, search.explain().to_text())
    np.testing.assert_allclose([far for _, far in found], [far for _, far in expected], rtol=1e-9, atol=1e-3)
    assert [id_ for id_, _ in found] == [id_ for id_, _ in expected], said
    unindexed = table.search(
        near=place, column=["lon", "lat"], k=k, where=where, columns=["id"], use_index=False
    ).to_arrow()
    assert found_rows(unindexed) == found, said


def check_numbers(world: RankedWorld, table: lw.Table) -> None:
    random = world.random
    wanted, k = float(random.integers(-5, 5)), int(random.choice([1, 4, 30]))
    rows = world.rows()
    values = rows["number"].to_numpy(zero_copy_only=False).astype("f8")
    far = np.where(np.isnan(values), np.nan, np.abs(values - wanted))

    found = table.search(query={"near": wanted}, index="numbers", k=k, columns=["id"]).to_arrow()

    assert found_rows(found) == best_rows(rows, far, k), (world.history, wanted, k)


def check_vectors(world: RankedWorld, table: lw.Table) -> None:
    """A walk that goes as far as there are rows misses none; which of equally far ones come last is open."""
    random = world.random
    query, k = random.integers(-8, 8, 4).astype("f4"), int(random.choice([1, 5, 50, 1000]))
    where = str(random.choice(np.array(WHERES[2:], dtype=object)))
    rows = world.rows(where)
    rows = rows.filter(rows["vector"].is_valid())
    vectors = rows["vector"].combine_chunks().flatten().to_numpy().reshape(-1, 4)
    far = dict(zip(rows["id"].to_pylist(), ((vectors - query) ** 2).sum(axis=1).tolist(), strict=True))

    found = table.search(query, index="graph", k=k, where=where, ef=1000, columns=["id"]).to_arrow()

    ids = found["id"].to_pylist()
    assert found["_distance"].to_pylist() == sorted(far.values())[:k], (world.history, query, k, where)
    assert [far[id_] for id_ in ids] == found["_distance"].to_pylist()
    assert len(set(ids)) == len(ids)


def test_segments_that_must_know_of_each_other_are_asked_twice(tmp_path: Any, toys: None) -> None:
    world = RankedWorld(tmp_path, 2)
    world.index("number", "outliers", "outliers")
    world._append()
    rows = world.rows()
    values = rows["number"].to_numpy(zero_copy_only=False).astype("f8")
    far = np.abs(values - values[np.isfinite(values)].mean())

    search = world.table.search(query={"outliers": 1}, k=12, columns=["id"])

    found = search.to_arrow()
    assert [id_ for id_, _ in found_rows(found, "_score")] == [
        id_ for id_, _ in best_rows(rows, far, 12, descending=True)
    ]
    assert "indexed in memory for this search" in search.explain().to_text()
