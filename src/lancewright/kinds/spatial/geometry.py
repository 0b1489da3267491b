"""What a geometry covers: the boxes of WKB values, of constants in a filter, and of a circle on the sphere.

Needs shapely, which the extra ``spatial`` brings; points in two columns do not need it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lancewright.errors import UnsupportedError
from lancewright.model.predicate.places import EARTH_RADIUS_METRES
from lancewright.table.column_reader import plain_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lancewright.kinds.spatial.boxes import Box

# A box is made larger by this part of its coordinates, so that rounding, ours or Lance's, leaves no row outside.
_SLACK = 1e-12
_DISTANCE_SLACK = 1e-9
# Near a distance of zero and near the antipode the formula loses digits; this is 0.6 m.
_ANGLE_SLACK = 1e-7
_FIRST_MULTIPLE = 4
_POLE = 90.0
_TURN_AND_HALF = 540.0
_WORLD: Box = (-math.inf, -math.inf, math.inf, math.inf)


def require_shapely() -> Any:  # Any: it is optional, so nothing is known of it
    """The library; raises UnsupportedError that names the extra when it is missing."""
    try:
        import shapely
    except ImportError as error:
        raise UnsupportedError(
            f"Geometries need the package shapely, which cannot be imported: {error}",
            "Install lancewright[spatial], on the driver and on every executor.",
        ) from error
    return shapely


def wkb_boxes(values: pa.Array) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The box of each value, and which values have one. Not NULLs.

    Without are: bytes that are no WKB, empty geometries and parts, coordinates that are not finite, collections in collections.
    What a function says of those is not for an index to foresee.
    """
    shapely = require_shapely()
    raw = np.asarray(values.to_numpy(zero_copy_only=False), dtype=object)
    with np.errstate(invalid="ignore"):  # a NaN is seen below
        geometries = shapely.from_wkb(raw, on_invalid="ignore")
    boxes: NDArray[np.float64] = shapely.bounds(geometries).reshape(-1, 4)
    sound = np.array(np.isfinite(boxes).all(axis=1))
    coordinates, owners = shapely.get_coordinates(geometries, return_index=True)
    sound[owners[~np.isfinite(coordinates).all(axis=1)]] = False
    several = np.flatnonzero(shapely.get_type_id(geometries) >= _FIRST_MULTIPLE)
    parts, part_owners = shapely.get_parts(geometries[several], return_index=True)
    odd = shapely.is_empty(parts) | (shapely.get_type_id(parts) >= _FIRST_MULTIPLE)
    sound[several[part_owners[odd]]] = False
    return boxes, sound


def constant_box(value: pa.Scalar) -> Box | None:
    """The box of a geometry written in a filter, as WKT or WKB; None when it has none or is neither."""
    shapely = require_shapely()
    content = value.as_py()
    read = shapely.from_wkb if isinstance(content, bytes) else shapely.from_wkt
    found = read(content, on_invalid="ignore")
    if found is None or shapely.is_empty(found) or not np.isfinite(shapely.get_coordinates(found)).all():
        return None
    low_x, low_y, high_x, high_y = (float(one) for one in shapely.bounds(found))
    return widened((low_x, low_y, high_x, high_y), 0.0)


def widened(box: Box, distance: float) -> Box:
    """The box and what is so far from it."""
    far = distance * (1 + _DISTANCE_SLACK)
    low_x, low_y, high_x, high_y = box
    return (
        low_x - far - abs(low_x) * _SLACK,
        low_y - far - abs(low_y) * _SLACK,
        high_x + far + abs(high_x) * _SLACK,
        high_y + far + abs(high_y) * _SLACK,
    )


def circle_boxes(longitude: float, latitude: float, metres: float) -> tuple[Box, ...]:
    """Boxes around all longitudes and latitudes, in degrees, that are at most so far on the sphere.

    Longitudes repeat every 360 degrees. Beyond a pole, or one and a half turns, everything is named.
    """
    if abs(longitude) > _TURN_AND_HALF or abs(latitude) > _POLE:
        return (_WORLD,)
    angle = metres / EARTH_RADIUS_METRES * (1 + _DISTANCE_SLACK) + _ANGLE_SLACK
    low, high = latitude - math.degrees(angle), latitude + math.degrees(angle)
    if low <= -_POLE or high >= _POLE:
        return ((-math.inf, low, math.inf, high), *_beyond())
    aside = math.degrees(math.asin(min(1.0, math.sin(angle) / math.cos(math.radians(latitude)))))
    aside += math.degrees(_ANGLE_SLACK)
    turns = (longitude + 360.0 * turn for turn in range(-3, 4))
    boxes = [(one - aside, low, one + aside, high) for one in turns if abs(one) <= _TURN_AND_HALF + aside]
    return (*boxes, *_beyond())


def _beyond() -> tuple[Box, ...]:
    """Where no place on earth is; the formula gives a distance there all the same."""
    return (
        (-math.inf, -math.inf, math.inf, -_POLE),
        (-math.inf, _POLE, math.inf, math.inf),
        (-math.inf, -math.inf, -_TURN_AND_HALF, math.inf),
        (_TURN_AND_HALF, -math.inf, math.inf, math.inf),
    )


def readable(*columns: pa.Array) -> NDArray[np.bool_]:
    """Which rows of a column of WKB, or of the two columns of points, are NULL or a geometry that functions can be asked of."""
    if len(columns) > 1:
        return np.array(~np.logical_or.reduce([_is_nan(column) for column in columns]))
    values = plain_values(columns[0])
    if not (pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)):
        return np.ones(len(values), dtype=np.bool_)  # points as Lance has them itself
    shapely = require_shapely()
    raw = np.asarray(values.to_numpy(zero_copy_only=False), dtype=object)
    with np.errstate(invalid="ignore"):
        geometries = shapely.from_wkb(raw, on_invalid="fix")
    found = np.array(~(shapely.is_missing(geometries) | shapely.is_empty(geometries)))
    coordinates, owners = shapely.get_coordinates(geometries, return_index=True)
    found[owners[np.isnan(coordinates).any(axis=1)]] = False
    several = np.flatnonzero(shapely.get_type_id(geometries) >= _FIRST_MULTIPLE)
    parts, part_owners = shapely.get_parts(geometries[several], return_index=True)
    found[several[part_owners[shapely.is_empty(parts)]]] = False
    return np.array(found | values.is_null().to_numpy(zero_copy_only=False))


def _is_nan(column: pa.Array) -> Any:  # Any: numpy's arithmetic
    numbers = column.cast(pa.float64(), safe=False)
    return np.isnan(numbers.to_numpy(zero_copy_only=False)) & numbers.is_valid().to_numpy(
        zero_copy_only=False
    )
