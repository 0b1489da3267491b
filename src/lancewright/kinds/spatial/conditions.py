"""Turns conditions of a filter into what a spatial index is asked. Needs shapely where a geometry is written out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancewright.kinds.contract import Operator
from lancewright.kinds.spatial.boxes import Where
from lancewright.kinds.spatial.geometry import circle_boxes, constant_box, widened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lancewright.kinds.contract import Atom, Spec

_WITHIN = "st_within"
# The functions that are known, and how many constants each has. A distance below is not more than at most.
_ON_PLANE = {"st_intersects": 1, _WITHIN: 1, "st_dwithin": 2, "st_distance_below": 2}
_ON_SPHERE = {"st_dwithinsphere": 2, "st_distancesphere_below": 2}
_VALUES = {**_ON_PLANE, **_ON_SPHERE}
_LOWER = {Operator.GREATER, Operator.GREATER_EQUAL, Operator.EQUAL}
_UPPER = {Operator.LESS, Operator.LESS_EQUAL, Operator.EQUAL}


def read_wheres(spec: Spec, group: Sequence[Atom]) -> tuple[tuple[Where, ...], frozenset[int], bool]:
    """What of an AND group is asked, the places of those atoms, and whether the answer is exact."""
    functions = {
        place: where
        for place, atom in enumerate(group)
        if atom.operator is Operator.FUNCTION and (where := _function(spec, atom)) is not None
    }
    bounds, places = _bounds(group) if len(spec.keys) > 1 else (None, frozenset())
    wheres = (*functions.values(), *(() if bounds is None else (bounds,)))
    return wheres, places | functions.keys(), not functions


def _function(spec: Spec, atom: Atom) -> Where | None:
    """Where rows lie for which a function is TRUE; None when it is not known, or its constants are odd."""
    if atom.keys != tuple(range(len(spec.keys))) or len(atom.values) != _VALUES.get(atom.function or ""):
        return None
    distance = float(atom.values[1].as_py()) if len(atom.values) > 1 else 0.0
    box = constant_box(atom.values[0]) if math.isfinite(distance) and distance >= 0 else None
    if box is None:
        return None
    if atom.function in _ON_SPHERE:
        middle = (_middle(box[0], box[2]), _middle(box[1], box[3]))
        return Where(boxes=circle_boxes(*middle, distance))
    return Where(boxes=(widened(box, distance),), inside=atom.function == _WITHIN)


def _bounds(group: Sequence[Atom]) -> tuple[Where | None, frozenset[int]]:
    """The box that comparisons of the two columns leave. All points in the index are finite."""
    low, high, places = [-math.inf, -math.inf], [math.inf, math.inf], set()
    for place, atom in enumerate(group):
        if len(atom.keys) != 1 or atom.operator not in _LOWER | _UPPER:
            continue
        (key,) = atom.keys
        value = _number(atom.values[0])
        if atom.operator in _LOWER:
            low[key] = max(
                low[key], value if atom.operator is not Operator.GREATER else _next(atom, math.inf)
            )
        if atom.operator in _UPPER:
            high[key] = min(
                high[key], value if atom.operator is not Operator.LESS else _next(atom, -math.inf)
            )
        places.add(place)
    if not places:
        return None, frozenset()
    return Where(boxes=((low[0], low[1], high[0], high[1]),)), frozenset(places)


def _number(value: pa.Scalar) -> float:
    """A value among finite ones: in Lance's order a NaN is above infinity, or below minus infinity."""
    number = float(value.as_py())
    return math.copysign(math.inf, number) if math.isnan(number) else number


def _next(atom: Atom, towards: float) -> float:
    """The neighbour of a bound that is excluded, in the type of the column."""
    value = _number(atom.values[0])
    if math.isinf(value):
        return value
    type_ = np.float32 if pa.types.is_float32(atom.values[0].type) else np.float64
    return float(np.nextafter(type_(value), type_(towards)))


def _middle(low: float, high: float) -> float:
    return low / 2 + high / 2
