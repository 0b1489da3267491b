"""What ``benchmarks.kinds`` asks of kinds ``spatial`` and ``interval``, and what answers beside them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import shapely

from benchmarks.kinds_duckdb import Asked, duckdb_beside

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

BATCH_ROWS = 1_000_000
_MOMENT = "timestamp '1995-06-01 12:00:00'"
_METRES = 12_742_017.5428
# More points than this are too many shapely objects for a machine with little memory; 20 million take 5 GB.
_TREE_ROWS_MAX = 20_000_000


@dataclass(frozen=True)
class Section:
    """A table, its indexes by name, its queries; and others that answer a query: how long it took, and the rows found.

    ``rows_per_second_and_core`` is what building must reach. ``reads_much``: queries that are not held to few bytes.
    """

    uri: str
    indexes: Mapping[str, tuple[str, Any]]  # Any: one column or several
    queries: Mapping[str, Any]  # Any: text or an expression
    beside: Mapping[str, Callable[[str], tuple[float, int] | None]] = field(default_factory=dict)
    rows_per_second_and_core: float | None = None
    reads_much: frozenset[str] = frozenset()


def spatial_section(folder: Path, rows: int, fragments: int) -> Section:
    """Points, half of them around 200 cities."""
    uri = write_rows(folder / f"places-{rows}.lance", rows, fragments, _places)
    queries = {
        "box of 0.02 degree": "lon BETWEEN 4.9 AND 4.92 AND lat BETWEEN 52.36 AND 52.38",
        "within 1 km": "st_distancesphere(st_point(lon, lat), st_point(4.9, 52.37)) <= 1000",
        "dwithin 0.01 degree": "st_dwithin(st_point(lon, lat), st_point(4.9, 52.37), 0.01)",
        "wide: box of 1 degree": "lon BETWEEN 4.5 AND 5.5 AND lat BETWEEN 52 AND 53",
    }
    asked = Asked(
        name=f"places-{rows}",
        uri=uri,
        columns=("id", "lon", "lat"),
        made=", ST_Point(lon, lat) AS place",
        index="USING RTREE (place)",
        extension="spatial",
        queries={
            "box of 0.02 degree": f"WHERE ST_Intersects(place, {_envelope(4.9, 52.36, 4.92, 52.38)})",
            "dwithin 0.01 degree": "WHERE ST_DWithin(place, ST_Point(4.9, 52.37), 0.01)"
            f" AND ST_Intersects(place, {_envelope(4.89, 52.36, 4.91, 52.38)})",
            "wide: box of 1 degree": f"WHERE ST_Intersects(place, {_envelope(4.5, 52, 5.5, 53)})",
        },
    )
    beside = duckdb_beside(folder, asked)
    if not beside and rows <= _TREE_ROWS_MAX:
        beside = {"STRtree": _tree_of(uri, rows)}
    return Section(
        uri=uri,
        indexes={"place": ("spatial", ["lon", "lat"])},
        queries=queries,
        beside=beside,
    )


def interval_section(folder: Path, rows: int, fragments: int) -> Section:
    """Stays of a minute to a year, in fifty years."""
    uri = write_rows(folder / f"stays-{rows}.lance", rows, fragments, _stays)
    return Section(
        uri=uri,
        indexes={"stay": ("interval", ["arrival", "departure"])},
        queries={
            "stab": f"arrival <= {_MOMENT} AND departure > {_MOMENT}",
            "overlap of an hour": "arrival <= timestamp '1970-01-01 01:00:00' AND departure >= timestamp '1970-01-01 00:00:00'",
        },
    )


def _envelope(west: float, south: float, east: float, north: float) -> str:
    return f"ST_MakeEnvelope({west}, {south}, {east}, {north})"


def _tree_of(uri: str, rows: int) -> Callable[[str], tuple[float, int]]:
    @cache
    def load() -> tuple[shapely.STRtree, np.ndarray]:
        table = lance.dataset(uri).to_table(columns=["lon", "lat"])
        points = np.stack([table["lon"].to_numpy(), table["lat"].to_numpy()], axis=1)
        started = time.perf_counter()
        tree = shapely.STRtree(shapely.points(points))
        tree.query(shapely.Point(0, 0))
        print(
            f"          an STRtree of {rows:,} points in memory takes {time.perf_counter() - started:.1f} s"
        )
        return tree, points

    def ask(query: str) -> tuple[float, int]:
        tree, points = load()
        started = time.perf_counter()
        if "box" in query:
            box = (4.9, 52.36, 4.92, 52.38) if "0.02" in query else (4.5, 52.0, 5.5, 53.0)
            found = len(tree.query(shapely.box(*box)))
        elif query.startswith("dwithin"):
            found = len(tree.query(shapely.Point(4.9, 52.37), predicate="dwithin", distance=0.01))
        else:
            near = points[tree.query(shapely.box(4.7, 52.3, 5.1, 52.44))]
            found = int((_great_circle(near, 4.9, 52.37) <= 1000).sum())
        return time.perf_counter() - started, found

    return ask


def _great_circle(points: np.ndarray, longitude: float, latitude: float) -> np.ndarray:
    x, y = np.radians(points).T
    x0, y0 = np.radians([longitude, latitude])
    chord = np.sin((y - y0) / 2) ** 2 + np.cos(y) * np.cos(y0) * np.sin((x - x0) / 2) ** 2
    return _METRES * np.arcsin(np.sqrt(chord))


def write_rows(path: Path, rows: int, fragments: int, batch: Callable[[int], pa.RecordBatch]) -> str:
    """Write a table from batches of a million rows, unless it is there."""
    if not path.exists():
        batches = (batch(number) for number in range(-(-rows // BATCH_ROWS)))
        lance.write_dataset(batches, str(path), schema=batch(0).schema, max_rows_per_file=rows // fragments)
    return str(path)


def _places(number: int) -> pa.RecordBatch:
    random = np.random.default_rng(number)
    cities = np.random.default_rng(0).uniform([-180, -60], [180, 70], (200, 2))
    cities[0] = (4.9, 52.37)
    near = cities[random.integers(0, 200, BATCH_ROWS // 2)] + random.normal(0, 0.5, (BATCH_ROWS // 2, 2))
    points = np.concatenate([near, random.uniform([-180, -80], [180, 80], (BATCH_ROWS // 2, 2))])
    points = points[random.permutation(BATCH_ROWS)]
    return pa.record_batch(
        [
            pa.array(np.arange(BATCH_ROWS) + number * BATCH_ROWS),
            pa.array(points[:, 0]),
            pa.array(points[:, 1]),
        ],
        names=["id", "lon", "lat"],
    )


def _stays(number: int) -> pa.RecordBatch:
    random = np.random.default_rng(number)
    arrival = random.integers(0, 50 * 365 * 86_400, BATCH_ROWS)
    length = np.exp(random.uniform(np.log(60), np.log(365 * 86_400), BATCH_ROWS)).astype(np.int64)
    length[random.random(BATCH_ROWS) < 0.999] %= 3600
    return pa.record_batch(
        [
            pa.array(np.arange(BATCH_ROWS) + number * BATCH_ROWS),
            pa.array(random.integers(0, 100, BATCH_ROWS)),
            pa.array(arrival, pa.timestamp("s")),
            pa.array(arrival + length, pa.timestamp("s")),
        ],
        names=["id", "kind", "arrival", "departure"],
    )
