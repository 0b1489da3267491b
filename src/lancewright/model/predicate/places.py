"""Functions of geometries: those that an index may answer, and those that are written out, because Lance does not have them.

``st_dwithin(a, b, d)`` is ``st_distance(a, b) <= d``. ``st_distancesphere`` of two points, in metres between longitudes and
latitudes in degrees, is the haversine formula. Lance evaluates both as it does any other expression.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from lancewright.errors import InvalidRequestError
from lancewright.model.predicate import syntax as syn
from lancewright.model.predicate.constants import Known, find_constant
from lancewright.model.predicate.tree import Call, Literal, Opaque, Operator

if TYPE_CHECKING:
    from lancewright.model.predicate.casting import Compared
    from lancewright.model.predicate.syntax import Syntax
    from lancewright.model.predicate.tree import Argument

PLACES = frozenset({"st_intersects", "st_within", "st_dwithin"})
EARTH_RADIUS_METRES = 6_371_008.7714
"""The mean radius of WGS 84."""
# What a comparison of a distance with a number is called in the tree.
_NEAR = {
    ("st_distance", Operator.LESS_EQUAL): "st_dwithin",
    ("st_distance", Operator.LESS): "st_distance_below",
    ("st_distancesphere", Operator.LESS_EQUAL): "st_dwithinsphere",
    ("st_distancesphere", Operator.LESS): "st_distancesphere_below",
}
_EITHER_WAY = frozenset({"st_intersects", *_NEAR.values()})
_POINTS = frozenset({"st_point", "st_makepoint"})
_DWITHIN_ARGUMENTS = 3


class Names(Protocol):
    """What knows the columns of the table."""

    def subject(self, node: Syntax) -> Compared | None:
        """The column that a condition is on, or the expression, if an index has it as a key."""

    def text(self, node: Syntax) -> tuple[str, tuple[str, ...]]:
        """The expression as SQL, and the columns in it."""


def bind_place(names: Names, node: Syntax, function: str, arguments: tuple[Syntax, ...]) -> Call | None:
    """A condition on where a geometry is, or None when no index knows such."""
    first, second, *rest = arguments
    distance = None
    if rest:
        known = find_constant(rest[0])
        distance = None if known is None else _number(known)
        if distance is None:
            return None
    return _place(names, function, first, second, distance, names.text(node)[0])


def bind_near(
    names: Names, node: syn.Binary, call: syn.Function, operator: Operator, known: Known
) -> Call | None:
    """A distance compared with a number, when that is for being near, under a name of its own; or None."""
    function = _NEAR.get((call.name, operator))
    distance = _number(known)
    if function is None or distance is None or len(call.arguments) != 2:
        return None
    return _place(names, function, *call.arguments, distance, names.text(node)[0])


def expand(call: syn.Function) -> Syntax:
    """The same with functions that Lance has."""
    if call.name == "st_dwithin":
        if len(call.arguments) != _DWITHIN_ARGUMENTS:
            raise InvalidRequestError(
                f"st_dwithin has {len(call.arguments)} arguments",
                "Write st_dwithin(geometry, geometry, distance).",
            )
        first, second, distance = call.arguments
        return syn.Binary("<=", syn.Function("st_distance", (first, second)), distance)
    points = [_coordinates(one) for one in call.arguments]
    if len(points) != 2 or points[0] is None or points[1] is None:
        raise InvalidRequestError(
            "st_distancesphere takes two points, each written with its longitude and latitude",
            "Write st_distancesphere(st_point(lon, lat), st_point(4.9, 52.37)) <= 1000.",
        )
    return _haversine(*points[0], *points[1])


def _place(
    names: Names, function: str, first: Syntax, second: Syntax, distance: float | None, sql: str
) -> Call | None:
    columns, other = _columns(names, first), second
    if not columns and function in _EITHER_WAY:
        columns, other = _columns(names, second), first
    constant = _constant(names, other)
    if not columns or constant is None:
        return None
    limits = () if distance is None else (Literal(value=distance, type=pa.float64()),)
    return Call(
        function=function,
        column=columns[0],
        more_columns=columns[1:],
        arguments=(constant, *limits),
        sql=sql,
    )


def _columns(names: Names, node: Syntax) -> tuple[str, ...]:
    """A column that is a geometry, or those that a point is made of."""
    if isinstance(node, syn.Name):
        return _path(names, node)
    x, y = _coordinates(node) or (node, node)
    return (*_path(names, x), *_path(names, y)) if _path(names, x) and _path(names, y) else ()


def _path(names: Names, node: Syntax) -> tuple[str, ...]:
    found = names.subject(node) if isinstance(node, syn.Name) else None
    return () if found is None else (found.path,)


def _constant(names: Names, node: Syntax) -> Argument | None:
    """A geometry written out, as WKT or WKB; or as text when only Lance knows what it is."""
    match node:
        case syn.Function(name="st_geomfromtext", arguments=(syn.Text(value=text),)):
            return Literal(value=text, type=pa.string())
        case syn.Function(name="st_geomfromwkb", arguments=(syn.Value(value=bytes(content)),)):
            return Literal(value=content, type=pa.binary())
    parts = _coordinates(node)
    numbers = [None if known is None else _number(known) for known in map(find_constant, parts or ())]
    if len(numbers) == 2 and None not in numbers:
        return Literal(value=f"POINT ({numbers[0]!r} {numbers[1]!r})", type=pa.string())
    sql, columns = names.text(node)
    return None if columns else Opaque(sql=sql, columns=())


def _coordinates(node: Syntax) -> tuple[Syntax, Syntax] | None:
    if isinstance(node, syn.Function) and node.name in _POINTS and len(node.arguments) == 2:
        return node.arguments[0], node.arguments[1]
    return None


def _number(known: Known) -> float | None:
    if known.is_null or isinstance(known.value, str | bytes | bool):
        return None
    try:
        return float(known.value)
    except (TypeError, ValueError, OverflowError):
        return None


def _haversine(
    longitude: Syntax, latitude: Syntax, other_longitude: Syntax, other_latitude: Syntax
) -> Syntax:
    def half_sine(one: Syntax, other: Syntax) -> Syntax:
        half = syn.Binary("/", syn.Binary("-", _double(one), _double(other)), syn.Number("2"))
        return syn.Function(
            "power", (syn.Function("sin", (syn.Function("radians", (half,)),)), syn.Number("2"))
        )

    def cosine(one: Syntax) -> Syntax:
        return syn.Function("cos", (syn.Function("radians", (_double(one),)),))

    across = syn.Binary(
        "*", syn.Binary("*", cosine(latitude), cosine(other_latitude)), half_sine(longitude, other_longitude)
    )
    chord = syn.Function("sqrt", (syn.Binary("+", half_sine(latitude, other_latitude), across),))
    return syn.Binary("*", syn.Number(repr(2 * EARTH_RADIUS_METRES)), syn.Function("asin", (chord,)))


def _double(node: Syntax) -> Syntax:
    # The functions of a 32-bit column would be computed in 32 bits.
    return syn.Cast(node, pa.float64(), "DOUBLE")
