"""The places nearest to one on the sphere: tiles in the order of how near they can be, until none can be nearer.

The distance is that of ``st_distancesphere``: great circles, in metres. Latitudes beyond the poles are no places on earth, but the
formula gives most of them a distance, and so does this.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lancewright.errors import InvalidRequestError
from lancewright.kinds.contract import Hits, SearchProbe
from lancewright.kinds.spatial.tiles import TILE
from lancewright.model.predicate.places import EARTH_RADIUS_METRES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from lancewright.kinds.contract import RowNumbers
    from lancewright.kinds.spatial.boxes import Boxes
    from lancewright.kinds.spatial.tiles import TileFiles

    Numbers = NDArray[np.float64]

NEAR = "near"
_POLE = 90.0
_TURN = 360.0
# How far a bound is lowered, so that rounding never leaves the nearest row out: a thousandth of a millimetre and a part of 1e-9.
_SLACK_METRES = 1e-6
_SLACK = 1e-9
_TILES_FIRST = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The place from which distances are measured, in degrees."""

    longitude: float
    latitude: float

    def distances(self, longitudes: Numbers, latitudes: Numbers) -> Numbers:
        """Metres on the sphere; NaN where the formula has no value."""
        with np.errstate(invalid="ignore"):
            chord = self._chord_squared(
                np.radians((longitudes - self.longitude) / 2),
                np.radians((latitudes - self.latitude) / 2),
                np.cos(np.radians(latitudes)),
            )
            # Rounding may take the chord of opposite places beyond the diameter.
            found: Numbers = 2 * EARTH_RADIUS_METRES * np.arcsin(np.sqrt(np.minimum(chord, 1.0)))
        return found

    def lower_bounds(self, boxes: Boxes) -> Numbers:
        """Metres that everything in each box is away at least."""
        low_x, low_y, high_x, high_y = (boxes[:, column].astype(np.float64) for column in range(4))
        earthly = np.isfinite(boxes).all(axis=1) & (low_y >= -_POLE) & (high_y <= _POLE)
        with np.errstate(invalid="ignore"):
            up = np.maximum(0.0, np.maximum(low_y - self.latitude, self.latitude - high_y))
            # From the western edge eastwards to the origin: within the box, or beyond its eastern edge, or short of the western.
            east = np.mod(self.longitude - low_x, _TURN)
            width = high_x - low_x
            aside = np.where(east <= width, 0.0, np.minimum(east - width, _TURN - east))
            least = np.minimum(np.cos(np.radians(low_y)), np.cos(np.radians(high_y)))
            chord = self._chord_squared(np.radians(aside / 2), np.radians(up / 2), np.maximum(least, 0.0))
            metres = 2 * EARTH_RADIUS_METRES * np.arcsin(np.sqrt(np.clip(chord, 0.0, 1.0)))
        return np.where(earthly, np.maximum(0.0, metres * (1 - _SLACK) - _SLACK_METRES), 0.0)

    def _chord_squared(self, half_across: Numbers, half_up: Numbers, cosines: Numbers) -> Numbers:
        """The haversine: sin² of half the angle between two places, from half their differences."""
        across: Numbers = cosines * math.cos(math.radians(self.latitude)) * np.sin(half_across) ** 2
        return np.sin(half_up) ** 2 + across


def plan_nearest(query: Mapping[str, Any]) -> SearchProbe:  # Any: as a caller wrote it
    """A probe for the rows nearest to a place."""
    origin = read_origin(query[NEAR])
    return SearchProbe(
        payload=json.dumps([origin.longitude, origin.latitude]).encode(),
        descending=False,
        exact=True,
        text=f"nearest to longitude {origin.longitude:g}, latitude {origin.latitude:g}",
    )


def read_origin(place: object) -> Origin:
    """A place as a caller wrote it: longitude and latitude in degrees."""
    numbers = list(place) if isinstance(place, list | tuple | np.ndarray) else []
    sound = len(numbers) == 2 and all(
        isinstance(one, int | float | np.number) and not isinstance(one, bool) and math.isfinite(one)
        for one in numbers
    )
    if not sound or abs(numbers[0]) > 1.5 * _TURN or abs(numbers[1]) > _POLE:
        raise InvalidRequestError(
            f"near={place!r} is no place", "Pass (longitude, latitude) in degrees, latitude from -90 to 90."
        )
    return Origin(longitude=float(numbers[0]), latitude=float(numbers[1]))


def origin_of(probe: SearchProbe) -> Origin:
    """The place that a probe asks for."""
    longitude, latitude = json.loads(probe.payload)
    return Origin(longitude=longitude, latitude=latitude)


def find_nearest(tiles: TileFiles, origin: Origin, k: int, allow: RowNumbers | None) -> Hits:
    """The ``k`` nearest rows allowed, equally near ones by row; reads tiles until no other can have one of them."""
    boxes = tiles.boxes()
    bounds = origin.lower_bounds(boxes)
    order = np.argsort(bounds, kind="stable")
    allowed = None if allow is None else np.frombuffer(allow.to_array(), dtype=np.uint32)
    rows, distances = np.zeros(0, dtype=np.uint32), np.zeros(0)
    done, many = 0, max(_TILES_FIRST, -(-k // TILE))
    while done < len(order) and k and (len(rows) < k or bounds[order[done]] <= distances[-1]):
        here = np.sort(order[done : done + many])
        found, far = _measure(tiles.read_tiles(here), origin, allowed)
        rows, distances = np.concatenate([rows, found]), np.concatenate([distances, far])
        best = np.lexsort((rows, distances))[:k]
        rows, distances = rows[best], distances[best]
        done, many = done + many, many * 2
    return Hits(rows=rows, scores=distances)


def _measure(
    parts: Iterable[tuple[Boxes, NDArray[np.uint32]]], origin: Origin, allowed: NDArray[np.uint32] | None
) -> tuple[NDArray[np.uint32], Numbers]:
    rows, distances = [np.zeros(0, dtype=np.uint32)], [np.zeros(0)]
    for boxes, numbers in parts:
        far = origin.distances(boxes[:, 0], boxes[:, 1])
        may = ~np.isnan(far)
        if allowed is not None:
            places = np.minimum(np.searchsorted(allowed, numbers), max(0, len(allowed) - 1))
            may &= allowed[places] == numbers if len(allowed) else False
        rows.append(numbers[may])
        distances.append(far[may])
    return np.concatenate(rows), np.concatenate(distances)
