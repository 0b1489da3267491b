"""Kind ``spatial``: points in two columns of floats, or geometries in a column of WKB, found by where they are.

Of points, boxes given by comparisons are answered exactly; functions of geometries name the rows whose boxes fit, which
are checked. 20 bytes for a point, 36 for another geometry.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lancewright.errors import InvalidRequestError
from lancewright.kinds.contract import (
    ROW_COLUMN,
    Answer,
    Built,
    Cost,
    IndexKind,
    Probe,
    Reader,
    row_numbers,
)
from lancewright.kinds.key_types import check_no_parameters
from lancewright.kinds.spatial.boxes import shares, united, wheres_from_bytes, wheres_to_bytes
from lancewright.kinds.spatial.conditions import read_wheres
from lancewright.kinds.spatial.geometry import require_shapely, wkb_boxes
from lancewright.kinds.spatial.nearest import NEAR, find_nearest, origin_of, plan_nearest
from lancewright.kinds.spatial.tiles import BOX, POINT, TILE, TileFiles, are_points, tile_order, write_tiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import ClassVar

    from numpy.typing import NDArray

    from lancewright.kinds.contract import Atom, Hits, Key, Part, RowNumbers, SearchProbe, Spec, Store

LAYOUT_FILE = "layout"
_POINT_KEYS = 2
# Boxes in the summary, each with as many entries: enough to estimate by.
_CHUNKS_MAX = 64
_EXTENSION = "ARROW:extension:name"
_WKB = {None, "geoarrow.wkb", "ogc.wkb"}


class SpatialKind(IndexKind):
    """Where things are."""

    name: ClassVar[str] = "spatial"
    rows_max: ClassVar[int] = 32_000_000
    doc: ClassVar[str] = (
        "Boxes, intersects, within, distance and nearest, of points in two columns or geometries in WKB."
    )

    def validate(self, keys: Sequence[Key], parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Take x and y, or longitude and latitude, as floats; or one column of WKB."""
        if len(keys) == _POINT_KEYS:
            wrong = next((key for key in keys if not _is_float(key.type)), None)
            remedy = "Choose two columns of float or double: x and y, or longitude and latitude."
        elif len(keys) == 1:
            wrong = next((key for key in keys if not _is_wkb(key)), None)
            remedy = "Choose a column of binary that holds WKB, or two columns of float or double."
        else:
            raise InvalidRequestError(
                f"Kind {self.name!r} was given {len(keys)} columns",
                "It takes one column of WKB, or two of floats: x and y, or longitude and latitude.",
            )
        if wrong is not None:
            raise InvalidRequestError(
                f"Kind {self.name!r} cannot index {wrong.name}, which is {wrong.type}", remedy
            )
        if len(keys) == 1:
            require_shapely()
        return check_no_parameters(self.name, parameters)

    def build(self, spec: Spec, rows: Iterable[pa.RecordBatch], out: Store) -> Built:
        """Find the box of each row, sort them into tiles, write; 120 bytes of memory a row."""
        read = _point_boxes if len(spec.keys) > 1 else _geometry_boxes
        boxes, numbers, unkeyed = [], [], []
        for batch in rows:
            found, sound = read(batch)
            whole = batch.column(ROW_COLUMN).to_numpy()
            if not sound.all():
                unkeyed.append(whole[~sound])
                found, whole = found[sound], whole[sound]
            boxes.append(found)
            numbers.append(whole)
        if not boxes:
            boxes.append(np.zeros((0, 4)))
        return _write(boxes, numbers, unkeyed, out)

    def merge(self, spec: Spec, parts: Sequence[Part], out: Store) -> Built:
        """Put the entries of all parts together, under their new numbers; rows without a box are not among them."""
        del spec
        boxes, numbers = [], []
        for part in parts:
            if not isinstance(part.reader, SpatialReader):
                raise InvalidRequestError(
                    "A segment of another kind was given to merge()", "Merge segments of one kind."
                )
            found, rows = part.reader.entries()
            renumbered = part.renumber[rows]
            boxes.append(np.hstack([found[:, :2], found[:, -2:]])[renumbered >= 0])
            numbers.append(renumbered[renumbered >= 0].astype(np.uint32))
        return _write([np.zeros((0, 4)), *boxes], numbers, [], out)

    def plan(self, spec: Spec, group: Sequence[Atom]) -> Probe | None:
        """Answer comparisons of both columns, and functions."""
        wheres, consumed, exact = read_wheres(spec, group)
        if not wheres:
            return None
        return Probe(
            consumed=consumed,
            answer=Answer.EXACT if exact else Answer.AT_MOST,
            payload=wheres_to_bytes(wheres),
        )

    def skip(self, spec: Spec, probe: Probe, summary: bytes) -> bool:
        """See whether any of the boxes in the summary touches what is asked."""
        del spec
        chunks = _chunks(json.loads(summary))
        touched = [where.touched(chunks) for where in wheres_from_bytes(probe.payload)]
        return not np.logical_and.reduce(touched).any()

    def cost(self, spec: Spec, probe: Probe, summary: bytes, rows: int) -> Cost:
        """As if the entries of each box in the summary were spread evenly over it."""
        del spec, rows
        known = json.loads(summary)
        chunks, keyed = _chunks(known), known["keyed"]
        parts = [shares(chunks, where) for where in wheres_from_bytes(probe.payload)]
        found = keyed * float(np.minimum.reduce(parts).mean()) if len(chunks) else 0.0
        tiles = -(-keyed // TILE)
        # What is wanted has a border, whose tiles are read too.
        read = min(tiles, found / TILE + 2 * (found / TILE) ** 0.5 + 1)
        width = (POINT if known["points"] else BOX).itemsize
        return Cost(rows=found, bytes=read * TILE * width + tiles * 16)

    def plan_search(self, spec: Spec, query: Mapping[str, Any]) -> SearchProbe | None:
        """Rank points by how far they are from ``{"near": (longitude, latitude)}``, in metres."""
        return plan_nearest(query) if len(spec.keys) == _POINT_KEYS and set(query) == {NEAR} else None

    def score(self, spec: Spec, probe: SearchProbe, rows: pa.RecordBatch) -> NDArray[np.float64]:
        """How far points are."""
        del spec
        points, sound = _point_boxes(rows)
        return np.where(sound, origin_of(probe).distances(points[:, 0], points[:, 1]), np.nan)

    def open(self, spec: Spec, store: Store) -> Reader:
        """Open the segment."""
        del spec
        return SpatialReader(store)


class SpatialReader(Reader):
    """One segment."""

    def __init__(self, store: Store) -> None:
        """Read nothing yet."""
        self._store = store

    def lookup(self, probe: Probe) -> RowNumbers:
        """The rows whose boxes are where they must be."""
        return row_numbers(self._tiles()[0].find(wheres_from_bytes(probe.payload)))

    def search(
        self, probe: SearchProbe, statistics: Sequence[bytes], k: int, allow: RowNumbers | None
    ) -> Hits:
        """The nearest points."""
        del statistics
        return find_nearest(self._tiles()[0], origin_of(probe), k, allow)

    def entries(self) -> tuple[NDArray[np.float64], NDArray[np.uint32]]:
        """The boxes of everything, and the rows."""
        tiles, count = self._tiles()
        return tiles.read(0, count)

    def _tiles(self) -> tuple[TileFiles, int]:
        file = self._store.open(LAYOUT_FILE)
        layout = json.loads(bytes(file.read(0, file.size)))
        return TileFiles(self._store, layout["keyed"], points=layout["points"]), layout["keyed"]


def _is_float(type_: pa.DataType) -> bool:
    return bool(pa.types.is_float32(type_) or pa.types.is_float64(type_))


def _is_wkb(key: Key) -> bool:
    binary = pa.types.is_binary(key.type) or pa.types.is_large_binary(key.type)
    return bool(binary) and dict(key.metadata).get(_EXTENSION) in _WKB


def _point_boxes(batch: pa.RecordBatch) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    x, y = (batch.column(name).to_numpy().astype(np.float64) for name in ("k0", "k1"))
    return np.stack([x, y], axis=1), np.isfinite(x) & np.isfinite(y)


def _geometry_boxes(batch: pa.RecordBatch) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    return wkb_boxes(batch.column("k0"))


def _write(
    boxes: list[NDArray[np.float64]],
    numbers: list[NDArray[np.uint32]],
    unkeyed: list[NDArray[np.uint32]],
    out: Store,
) -> Built:
    nothing = np.zeros(0, dtype=np.uint32)
    whole, rows = np.concatenate(boxes), np.concatenate([nothing, *numbers])
    order = tile_order(whole)
    whole, rows = whole[order], rows[order]
    tiles = write_tiles(out, whole, rows)
    points = are_points(whole)
    with out.create(LAYOUT_FILE) as file:
        file.write(json.dumps({"keyed": len(rows), "points": points}).encode())
    step = max(1, -(-len(tiles) // _CHUNKS_MAX))
    chunks = united(tiles.astype(np.float64), np.arange(0, len(tiles), step)).astype("<f4")
    summary = {"keyed": len(rows), "points": points, "chunks": base64.b64encode(chunks.tobytes()).decode()}
    return Built(
        keyed=len(rows),
        unkeyed=row_numbers(np.concatenate([nothing, *unkeyed])),
        summary=json.dumps(summary).encode(),
    )


def _chunks(summary: dict[str, Any]) -> NDArray[np.float32]:  # Any: it is JSON
    return np.frombuffer(base64.b64decode(summary["chunks"]), "<f4").reshape(-1, 4)
