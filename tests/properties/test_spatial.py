"""A spatial index names every row that is where the filter says, and exactly those where it says so."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

import lancewright as lw
from lancewright.errors import CorruptIndexError, InvalidRequestError, UnsupportedError
from lancewright.kinds.contract import Answer, Atom, Key, Operator, Part, Spec
from lancewright.kinds.segment.store import WritingStore
from lancewright.kinds.spatial.kind import SpatialKind
from lancewright.kinds.spatial.tiles import TILE
from lancewright.query.plan import Reason
from lancewright.query.prefilter import FilterRequest, choose_prefilter
from lancewright.query.run import count_scan, run_scan
from lancewright.query.search.request import RowsPrefilter
from lancewright.runtime.local_runner import LocalRunner
from lancewright.table.location import table_ref
from lancewright.testing.stores import PlainStore
from support.eager_scans import asked_indexes, assert_equal_to_a_full_scan, reasons, resolve_eagerly
from support.memory_place import MemoryPlace, build_in_memory

if TYPE_CHECKING:
    from pathlib import Path

KIND = SpatialKind()
POINTS = Spec(
    name="p", kind="spatial", keys=(Key(name="x", type=pa.float64()), Key(name="y", type=pa.float64()))
)
SHAPES = Spec(name="g", kind="spatial", keys=(Key(name="g", type=pa.binary()),))
NUMBERS = [
    -math.inf,
    -1e308,
    -180.0,
    -1.5,
    -0.0,
    0.0,
    5e-324,
    1.0,
    1.5,
    90.0,
    1e300,
    math.inf,
    math.nan,
    -math.nan,
]
COMPARISONS = {
    Operator.EQUAL: np.equal,
    Operator.LESS: np.less,
    Operator.LESS_EQUAL: np.less_equal,
    Operator.GREATER: np.greater,
    Operator.GREATER_EQUAL: np.greater_equal,
}
SQUARE = "POLYGON((0 0,2 0,2 2,0 2,0 0))"
ODD = {
    "no WKB": b"hello",
    "nothing": b"",
    "cut short": struct.pack("<BIdd", 1, 1, 1.0, 1.0)[:10],
    "claims four thousand million points": struct.pack("<BII", 1, 2, 4_000_000_000),
    "unknown type": struct.pack("<BIdd", 1, 77, 1.0, 1.0),
    "ring that is not closed": struct.pack("<BIII6d", 1, 3, 1, 3, 0, 0, 2, 0, 2, 2),
    "point of NaN": struct.pack("<BIdd", 1, 1, math.nan, math.nan),
    "point with one NaN": struct.pack("<BIdd", 1, 1, math.nan, 1.0),
    "line with a NaN": struct.pack("<BIIdddd", 1, 2, 2, 1.0, 1.0, math.nan, 2.0),
    "infinite": struct.pack("<BIdd", 1, 1, math.inf, 1.0),
    **{
        wkt: shapely.to_wkb(shapely.from_wkt(wkt))
        for wkt in (
            "POINT EMPTY",
            "POLYGON EMPTY",
            "GEOMETRYCOLLECTION EMPTY",
            "GEOMETRYCOLLECTION (POLYGON EMPTY, POINT (100 100))",
            "GEOMETRYCOLLECTION (GEOMETRYCOLLECTION (POINT (1 1)))",
        )
    },
}


def function(name: str, *values: Any, keys: tuple[int, ...] = (0,)) -> Atom:
    return Atom(operator=Operator.FUNCTION, keys=keys, values=tuple(map(pa.scalar, values)), function=name)


def order(values: np.ndarray) -> np.ndarray:
    """Lance's order of floats as numbers: NaN above infinity, or below minus infinity."""
    return np.where(np.isnan(values), np.copysign(math.inf, values), values)


@given(
    st.lists(st.tuples(*[st.sampled_from([*NUMBERS, None])] * 2), max_size=40),
    st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from(list(COMPARISONS)), st.sampled_from(NUMBERS)),
        min_size=1,
        max_size=4,
    ),
)
@settings(max_examples=80, deadline=None)
def test_boxes_of_points_are_answered_exactly_whatever_the_numbers(points: Any, conditions: Any) -> None:
    keys = [pa.array([point[key] for point in points], pa.float64()) for key in (0, 1)]
    opened, finished, _ = build_in_memory(KIND, POINTS, keys, 7)
    atoms = [Atom(operator=how, keys=(key,), values=(pa.scalar(value),)) for key, how, value in conditions]
    probe = KIND.plan(POINTS, atoms)
    assert probe is not None
    assert probe.answer is Answer.EXACT
    asked = frozenset(key for key, _, _ in conditions)

    named = set(opened.lookup(probe, asked))

    unseen = set(opened.masks.to_check(asked, stripped=True))
    values = [np.array([math.nan if one is None else one for one in key.to_pylist()]) for key in keys]
    sound = np.isfinite(values[0]) & np.isfinite(values[1])
    for key, how, value in conditions:
        sound &= COMPARISONS[how](values[key], order(np.array(value)))
    assert named - unseen == set(np.flatnonzero(sound).tolist())
    if sound.any():
        assert not KIND.skip(POINTS, probe, finished.details.summary)
    null = {row for key in asked for row, value in enumerate(keys[key].to_pylist()) if value is None}
    odd = {
        row for row, point in enumerate(points) if any(one is None or not math.isfinite(one) for one in point)
    }
    assert unseen == odd - null


@pytest.mark.parametrize("what", ODD)
def test_a_geometry_that_no_index_can_judge_is_left_to_be_checked(what: str) -> None:
    good = shapely.to_wkb(shapely.Point(1, 1))
    opened, finished, _ = build_in_memory(
        KIND, SHAPES, [pa.array([good, ODD[what], None, good], pa.binary())]
    )
    probe = KIND.plan(SHAPES, [function("st_intersects", "POINT (50 50)")])
    assert probe is not None

    assert set(opened.lookup(probe, {0})) == {1}
    assert finished.details.unkeyed == 1


def shapes(count: int, seed: int) -> list[Any]:
    """Points, lines, squares and groups of them, a few of them large."""
    random = np.random.default_rng(seed)
    x, y = random.uniform(-100, 100, count), random.normal(0, 30, count)
    size = random.choice([0.0, 0.1, 3.0, 80.0], count, p=[0.5, 0.3, 0.18, 0.02])
    squares = shapely.box(x, y, x + size, y + size / 2)
    lines = shapely.linestrings(np.stack([x, x + size], axis=1), np.stack([y, y + size], axis=1))
    pairs = [shapely.MultiPoint([(a, b), (a + c, b)]) for a, b, c in zip(x, y, size, strict=True)]
    points = shapely.points(x, y)
    choice = random.integers(0, 4, count)
    choice[size == 0] = 3
    return list(np.choose(choice, [squares, lines, np.array(pairs), points]))


@pytest.mark.parametrize("seed", range(3))
def test_lookups_name_what_shapely_finds_and_nothing_whose_box_is_elsewhere(seed: int) -> None:
    rows = shapes(3 * TILE + 17, seed)
    whole = np.array(rows)
    opened, finished, _ = build_in_memory(KIND, SHAPES, [pa.array(shapely.to_wkb(whole), pa.binary())], 1000)
    random = np.random.default_rng(seed + 100)
    for _ in range(15):
        other = shapes(1, int(random.integers(0, 10**6)))[0]
        distance = float(random.choice([0.0, 0.5, 10.0]))
        cases = {
            function("st_intersects", shapely.to_wkt(other, -1)): shapely.intersects(whole, other),
            function("st_within", shapely.to_wkb(other)): shapely.within(whole, other),
            function("st_dwithin", shapely.to_wkt(other, -1), distance): shapely.distance(whole, other)
            <= distance,
        }
        reach = other.buffer(distance * 1.5 + 1).envelope
        elsewhere = set(np.flatnonzero(~shapely.intersects(shapely.envelope(whole), reach)).tolist())
        for atom, true in cases.items():
            probe = KIND.plan(SHAPES, [atom])
            assert probe is not None
            assert probe.answer is Answer.AT_MOST
            named = set(opened.lookup(probe, {0}))
            assert set(np.flatnonzero(true).tolist()) <= named
            assert not named & elsewhere
            if named:
                assert not KIND.skip(SHAPES, probe, finished.details.summary)


def test_merged_segments_of_points_and_of_shapes_name_what_each_named() -> None:
    points = np.array(shapes(50, 1))
    points = points[shapely.get_type_id(points) == 0]
    others = np.array(shapes(70, 2))
    opened = [
        build_in_memory(KIND, SHAPES, [pa.array(shapely.to_wkb(part), pa.binary())])[0]
        for part in (points, others)
    ]
    count = len(points) + len(others)
    moves = np.random.default_rng(3).permutation(count)
    moves[:5] = -1
    parts = [
        Part(reader=opened[0].reader, renumber=moves[: len(points)]),
        Part(reader=opened[1].reader, renumber=moves[len(points) :]),
    ]
    place = MemoryPlace()
    assert KIND.merge(SHAPES, parts, WritingStore(place)).keyed == count - 5
    probe = KIND.plan(SHAPES, [function("st_intersects", "POLYGON ((-60 -30, 60 -30, 60 30, -60 -30))")])
    assert probe is not None

    merged = KIND.open(SHAPES, PlainStore(place)).lookup(probe)

    named = [part.reader.lookup(probe) for part in opened]
    places = [*named[0], *(row + len(points) for row in named[1])]
    assert set(merged) == {int(moves[row]) for row in places if moves[row] >= 0}
    assert len(merged) > 5


def great_circle(x: np.ndarray, y: np.ndarray, x0: float, y0: float) -> np.ndarray:
    a, b = np.radians(y), math.radians(y0)
    chord = (
        np.sin((a - b) / 2) ** 2
        + np.cos(a) * math.cos(b) * np.sin((np.radians(x) - math.radians(x0)) / 2) ** 2
    )
    return 12_742_017.5428 * np.arcsin(np.sqrt(np.minimum(chord, 1)))


@given(
    st.floats(-540, 540), st.floats(-90, 90), st.sampled_from([0.0, 1.0, 1e3, 1e5, 5e6, 1e7, 1.5e7, 2.1e7]), st.integers(0, 9)
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_circles_on_the_sphere_reach_over_poles_and_the_date_line(
    x0: float, y0: float, metres: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    spread = math.degrees(metres / 6.4e6)
    x = np.concatenate([random.uniform(-720, 720, 300), x0 + random.normal(0, spread + 1e-9, 300), [x0] * 3])
    y = np.concatenate(
        [random.uniform(-95, 95, 300), y0 + random.normal(0, spread + 1e-9, 300), [y0, 90, -90]]
    )
    x[:100] %= 360
    opened, _, _ = build_in_memory(KIND, POINTS, [pa.array(x), pa.array(y)])
    atom = function("st_dwithinsphere", f"POINT ({x0!r} {y0!r})", metres, keys=(0, 1))
    probe = KIND.plan(POINTS, [atom])
    assert probe is not None

    named = set(opened.lookup(probe, {0, 1}))

    assert set(np.flatnonzero(great_circle(x, y, x0, y0) <= metres).tolist()) <= named
    if metres <= 1e5 and abs(y0) < 80:
        near = great_circle(x, y, x0, y0) <= 3 * metres + 10
        assert named <= set(np.flatnonzero(near | (abs(y) >= 90) | (abs(x) >= 540)).tolist())


@pytest.mark.parametrize(
    "atom",
    [
        function("st_intersects", "no geometry"),
        function("st_intersects", "POLYGON EMPTY"),
        function("st_intersects", b"\x01"),
        function("st_dwithin", "POINT (1 1)", math.nan),
        function("st_dwithin", "POINT (1 1)", -1.0),
        function("st_touches", "POINT (1 1)"),
        function("st_intersects", "POINT (1 1)", 5.0),
    ],
)
def test_what_is_odd_in_a_filter_is_left_to_lance(atom: Atom) -> None:
    assert KIND.plan(SHAPES, [atom]) is None


def test_a_small_box_reads_little(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    keys = [pa.array(random.uniform(0, 100, 300_000)), pa.array(random.uniform(0, 100, 300_000))]
    opened, finished, place = build_in_memory(KIND, POINTS, keys, 50_000)
    atoms = [
        Atom(operator=how, keys=(key,), values=(pa.scalar(value),))
        for key in (0, 1)
        for how, value in ((Operator.GREATER_EQUAL, 40.0), (Operator.LESS, 41.0))
    ]
    probe = KIND.plan(POINTS, atoms)
    assert probe is not None
    place.bytes_read = 0

    named = opened.lookup(probe, {0, 1})

    assert place.bytes_read < sum(map(len, place.files.values())) / 10
    cost = KIND.cost(POINTS, probe, finished.details.summary, 300_000)
    assert len(named) / 3 < cost.rows < 3 * len(named)


def places(folder: Path, *, stable_row_ids: bool = False) -> str:
    """A table of places, as two columns, as 32-bit floats in a struct, and as WKB."""
    rows = 12_000
    random = np.random.default_rng(4)
    x, y = random.uniform(-180, 180, rows), random.uniform(-90, 90, rows)
    empty = random.random(rows) < 0.05
    table = pa.table(
        {
            "id": range(rows),
            "lon": pa.array(x, mask=random.random(rows) < 0.03),
            "lat": pa.array(y),
            "at": pa.StructArray.from_arrays(
                [pa.array(x, pa.float32()), pa.array(y, pa.float32())], ["x", "y"]
            ),
            "shape": pa.array(shapely.to_wkb(np.array(shapes(rows, 9))), pa.binary(), mask=empty),
        }
    )
    uri = str(folder / "places")
    lance.write_dataset(table, uri, max_rows_per_file=rows // 4, enable_stable_row_ids=stable_row_ids)
    return uri


POLYGON = "st_geomfromtext('POLYGON((-20 -20, 30 -10, 25 25, -15 20, -20 -20))')"
ASKED = {
    "lon BETWEEN -10 AND 10 AND lat > 20 AND lat <= 40.5": {"lon_lat"},
    "lon >= 170 AND NOT (lat < 80)": {"lon_lat"},
    "lat > 89 AND lon IS NULL": {"lon_lat"},
    "`at`.x > 100.5 AND `at`.x < 101 AND `at`.y <= 10": {"at_x_y"},
    "st_distancesphere(st_point(lon, lat), st_point(179.5, 10)) <= 900000": {"lon_lat"},
    "500000 > st_distancesphere(st_point(4.9, 89), st_point(lon, lat))": {"lon_lat"},
    "st_distancesphere(st_point(`at`.x, `at`.y), st_point(4.9, 52)) <= 300000 AND id % 2 = 1": {"at_x_y"},
    f"st_within(st_point(lon, lat), {POLYGON}) AND lat > 0": {"lon_lat"},
    "st_dwithin(st_point(lon, lat), st_point(4.9, 52.4), 5)": {"lon_lat"},
    f"st_intersects(shape, {POLYGON})": {"shape"},
    f"st_within(shape, {POLYGON}) OR st_dwithin(shape, st_point(-60.0, 10.0), 3)": {"shape"},
    f"st_distance({POLYGON}, shape) < 1.5 AND NOT (st_intersects(shape, {POLYGON}))": {"shape"},
    f"NOT st_dwithin(shape, {POLYGON}, 1.5)": set(),
}


@pytest.mark.parametrize("stable_row_ids", [False, True])
def test_scans_through_the_index_give_what_a_full_scan_gives_whatever_happened_to_the_table(
    tmp_path: Path, stable_row_ids: bool
) -> None:
    uri = places(tmp_path, stable_row_ids=stable_row_ids)
    table = lw.open(uri, progress=False)
    table.create_index(["lon", "lat"], kind="spatial", name="lon_lat", segments=2)
    table.create_index(["at.x", "at.y"], kind="spatial", name="at_x_y")
    table.create_index("shape", kind="spatial", name="shape", segments=3)
    lance.dataset(uri).delete("id % 13 = 3")
    lance.dataset(uri).update({"lat": "39.5"}, "id % 97 = 0")
    lance.write_dataset(lance.dataset(uri).to_table(filter="id % 1000 = 5"), uri, mode="append")

    for asked, indexes in ASKED.items():
        scan = resolve_and_compare(uri, asked)
        assert asked_indexes(scan) == indexes, asked


def resolve_and_compare(uri: str, asked: str) -> Any:
    """Functions that only this package knows are written out before Lance is asked."""
    scan = resolve_eagerly(uri, asked, strict=True)
    whole = lw.open(uri, progress=False).scan(asked, columns=["id"], use_indexes=False).to_arrow()
    found = sorted(run_scan(scan, LocalRunner())["id"].to_pylist())
    assert found == sorted(whole["id"].to_pylist()), asked
    if "dwithin" not in asked and "sphere" not in asked:
        assert_equal_to_a_full_scan(uri, asked)
    assert found, asked
    return scan


def test_what_lance_cannot_read_is_null_to_functions_with_and_without_an_index(tmp_path: Path) -> None:
    good = shapes(600, 3)
    values: list[Any] = [shapely.to_wkb(one) for one in good]
    fine = {"infinite", "ring that is not closed", "GEOMETRYCOLLECTION (GEOMETRYCOLLECTION (POINT (1 1)))"}
    unreadable = [what for what in ODD if what not in fine]
    for number, what in enumerate(unreadable):
        values[50 + 30 * number] = ODD[what]
    x, y = shapely.bounds(np.array(good))[:, :2].T
    x[7], y[8] = math.nan, math.nan
    x[9] = 1.0  # with the 0 that lies under its NULL, Lance takes it for a point inside
    hidden = np.arange(600) == 9
    table = pa.table(
        {"id": range(600), "shape": pa.array(values, pa.binary()), "x": x, "y": pa.array(y, mask=hidden)}
    )
    uri = str(tmp_path / "odd")
    lance.write_dataset(table, uri, max_rows_per_file=200)
    area = shapely.from_wkt("POLYGON((-60 -40, 60 -30, 50 40, -50 45, -60 -40))")
    sound = np.array([isinstance(one, bytes) and one not in ODD.values() for one in values])
    inside, near = shapely.intersects(np.array(good), area), shapely.distance(np.array(good), area) <= 5
    point_in = (
        shapely.intersects(shapely.points(np.nan_to_num(x, nan=999), np.nan_to_num(y, nan=999)), area)
        & ~hidden
    )
    written = f"st_geomfromtext('{area.wkt}')"
    fives = np.arange(600) % 5 == 0
    asked = {
        f"st_intersects(shape, {written})": inside & sound,
        f"st_dwithin(shape, {written}, 5.0) AND id % 5 = 0": near & sound & fives,
        f"st_intersects(shape, {written}) OR id % 5 = 0": inside & sound | fives,
        f"NOT st_intersects(shape, {written})": ~inside & sound,
        f"NOT (st_distance(shape, {written}) < 5)": ~near & sound,
        f"st_intersects(st_point(x, y), {written})": point_in,
        f"st_intersects(st_point(x, y), {written}) OR st_intersects(shape, {written}) OR id % 5 = 0": point_in
        | inside & sound
        | fives,
    }

    for indexed in (False, True):
        if indexed:
            lw.open(uri, progress=False).create_index("shape", kind="spatial", segments=2)
            lw.open(uri, progress=False).create_index(["x", "y"], kind="spatial")
        for where, true in asked.items():
            scan = resolve_eagerly(uri, where)
            found = run_scan(scan, LocalRunner())["id"].to_pylist()
            assert sorted(found) == np.flatnonzero(true).tolist(), (indexed, where)
            assert count_scan(scan, LocalRunner()) == len(found), where
            assert lw.open(uri, progress=False).scan(where, limit=20).to_arrow().num_rows == 20
            assert len(lw.open(uri, progress=False).explain(where, analyze=True).indexes) == 2 * indexed


def test_a_damaged_segment_is_scanned_around_and_named(tmp_path: Path) -> None:
    uri = places(tmp_path)
    lw.open(uri, progress=False).create_index("shape", kind="spatial")
    for path in (tmp_path / "places" / "_indices").rglob("tiles"):
        path.write_bytes(path.read_bytes()[:-3])
    asked = f"st_intersects(shape, {POLYGON})"

    scan = resolve_eagerly(uri, asked)

    assert reasons(scan) == {Reason.BROKEN_SEGMENT}
    whole = lance.dataset(uri).to_table(filter=asked, columns=["id"])
    assert sorted(run_scan(scan, LocalRunner())["id"].to_pylist()) == sorted(whole["id"].to_pylist())
    with pytest.raises(CorruptIndexError):
        resolve_eagerly(uri, asked, strict=True)


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (["id", "lat"], "id, which is int64"),
        ("lat", "lat, which is double"),
        (["lon", "lat", "id"], "3 columns"),
    ],
)
def test_columns_without_places_are_refused(tmp_path: Path, columns: Any, problem: str) -> None:
    with pytest.raises(InvalidRequestError, match=problem):
        lw.open(places(tmp_path), progress=False).create_index(columns, kind="spatial")


def test_without_shapely_geometries_are_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = places(tmp_path)
    table = lw.open(uri, progress=False)
    table.create_index("shape", kind="spatial", name="shape")
    monkeypatch.setitem(__import__("sys").modules, "shapely", None)

    with pytest.raises(UnsupportedError, match="shapely") as caught:
        table.create_index("shape", kind="spatial", name="again")
    scan = resolve_eagerly(uri, f"st_intersects(shape, {POLYGON})")

    assert "lancewright[spatial]" in caught.value.remedy
    (note,) = scan.planned.plan.notes
    assert note.reason is Reason.PLUGIN_FAILED
    assert "shapely" in note.explanation
    assert run_scan(scan, LocalRunner()).num_rows > 0
    table.create_index(["lon", "lat"], kind="spatial")
    assert asked_indexes(resolve_eagerly(uri, "lon > 170 AND lat > 80")) == {"lon_lat_idx"}


def test_a_box_prefilters_a_search_by_the_rows_themselves(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    count = 200_000
    table = pa.table(
        {
            "lon": random.uniform(-180, 180, count),
            "lat": random.uniform(-90, 90, count),
            "vector": pa.FixedSizeListArray.from_arrays(
                pa.array(random.normal(size=count * 4), pa.float32()), 4
            ),
        }
    )
    uri = str(tmp_path / "vectors")
    lance.write_dataset(table, uri, max_rows_per_file=count // 4)
    opened = lw.open(uri, progress=False)
    opened.create_index(["lon", "lat"], kind="spatial")
    where = "lon BETWEEN 4 AND 6 AND lat BETWEEN 50 AND 53"

    pinned = table_ref(uri).pinned(opened.snapshot().version)
    prefilter = choose_prefilter(FilterRequest(table=pinned, where=where))

    assert isinstance(prefilter, RowsPrefilter)
    expected = lance.dataset(uri).to_table(filter=where, columns=[], with_row_address=True)
    assert prefilter.rows.addresses().tolist() == sorted(expected["_rowaddr"].to_pylist()) != []
