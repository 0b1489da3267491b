"""What a composite index is asked for: values of the first keys, then a range of the next. As a value, and as bytes. Pure."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from lancewright.kinds.composite.codes import as_bytes
from lancewright.kinds.contract import Operator
from lancewright.kinds.key_types import is_text
from lancewright.kinds.whole_numbers import is_fixed, whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lancewright.kinds.contract import Atom, Spec

    Value: TypeAlias = int | bytes

# So many combinations of IN lists are looked up one by one.
COMBINATIONS_MAX = 100_000
_LOWER = {Operator.GREATER: False, Operator.GREATER_EQUAL: True}
_UPPER = {Operator.LESS: False, Operator.LESS_EQUAL: True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Values between two bounds; one that is None is open. Neither end is NULL, so NULL is outside."""

    low: Value | None = None
    low_included: bool = True
    high: Value | None = None
    high_included: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The values of each of the first keys, and the range of the key after them."""

    values: tuple[tuple[Value, ...], ...] = ()
    range: Range | None = None

    def to_bytes(self) -> bytes:
        """As a probe carries it."""
        bounds = self.range
        return json.dumps(
            {
                "values": [[_to_json(value) for value in values] for values in self.values],
                "range": None
                if bounds is None
                else [_to_json(bounds.low), bounds.low_included, _to_json(bounds.high), bounds.high_included],
            }
        ).encode()


def conditions_from_bytes(payload: bytes) -> Conditions:
    """The conditions as they were."""
    content = json.loads(payload)
    bounds = content["range"]
    return Conditions(
        values=tuple(tuple(_from_json(value) for value in values) for values in content["values"]),
        range=None
        if bounds is None
        else Range(
            low=_from_json(bounds[0]),
            low_included=bounds[1],
            high=_from_json(bounds[2]),
            high_included=bounds[3],
        ),
    )


def read_conditions(spec: Spec, group: Sequence[Atom]) -> tuple[Conditions, frozenset[int]]:
    """What of an AND group a composite index answers, and the places of the atoms that says."""
    values: list[tuple[Value, ...]] = []
    consumed: set[int] = set()
    combinations = 1
    for key in range(len(spec.keys)):
        place = _find(group, key, {Operator.EQUAL, Operator.IN})
        if place is None or combinations * len(group[place].values) > COMBINATIONS_MAX:
            bounds, places = _range_of(group, key)
            return Conditions(values=tuple(values), range=bounds), frozenset(consumed | places)
        values.append(tuple(dict.fromkeys(_value(scalar) for scalar in group[place].values)))
        combinations *= len(values[-1])
        consumed.add(place)
    return Conditions(values=tuple(values)), frozenset(consumed)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadOf:
    """The first or last rows of one run of the order: that of the conditions, or everything."""

    conditions: Conditions | None
    descending: bool

    def to_bytes(self) -> bytes:
        """As a probe carries it."""
        conditions = None if self.conditions is None else self.conditions.to_bytes().decode()
        return json.dumps([conditions, self.descending]).encode()


def head_from_bytes(payload: bytes) -> HeadOf:
    """The head as it was."""
    conditions, descending = json.loads(payload)
    found = None if conditions is None else conditions_from_bytes(conditions.encode())
    return HeadOf(conditions=found, descending=bool(descending))


def read_head(spec: Spec, order: Sequence[tuple[int, bool]], group: Sequence[Atom]) -> HeadOf | None:
    """The head that has the rows of an AND group in an order of keys; None when the index has them in another order.

    Keys that are compared with one value are the same in all these rows. The others must follow, in the order of the index, all
    ascending or all descending.
    """
    conditions, consumed = read_conditions(spec, group)
    if len(consumed) < len(group) or any(len(values) > 1 for values in conditions.values):
        return None
    constant = len(conditions.values)
    varying = [(key, descending) for key, descending in order if key >= constant]
    directions = {descending for _, descending in varying}
    if [key for key, _ in varying] != list(range(constant, constant + len(varying))) or len(directions) > 1:
        return None
    return HeadOf(conditions=conditions if group else None, descending=directions == {True})


def _range_of(group: Sequence[Atom], key: int) -> tuple[Range | None, set[int]]:
    prefix = _find(group, key, {Operator.PREFIX})
    if prefix is not None:
        text = _value(group[prefix].values[0])
        end = _after_prefix(text)
        return Range(low=text, high=end, high_included=False), {prefix}
    low, high = _find(group, key, set(_LOWER)), _find(group, key, set(_UPPER))
    if low is None and high is None:
        return None, set()
    bounds = Range(
        low=None if low is None else _value(group[low].values[0]),
        low_included=low is None or _LOWER[group[low].operator],
        high=None if high is None else _value(group[high].values[0]),
        high_included=high is None or _UPPER[group[high].operator],
    )
    return bounds, {place for place in (low, high) if place is not None}


def _find(group: Sequence[Atom], key: int, operators: set[Operator]) -> int | None:
    return next(
        (place for place, atom in enumerate(group) if atom.keys == (key,) and atom.operator in operators),
        None,
    )


def _value(scalar: pa.Scalar) -> Value:
    if is_fixed(scalar.type):
        return whole_number(scalar)
    if is_text(scalar.type):
        return str(scalar.as_py()).encode()
    (value,) = as_bytes(pa.array([scalar.as_py()], scalar.type)).to_pylist()
    return bytes(value)


def _after_prefix(prefix: Value) -> bytes | None:
    """The least byte string above all that begin so; None when there is none."""
    text = bytes(prefix) if isinstance(prefix, bytes) else b""
    kept = text.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def _to_json(value: Value | None) -> Any:  # Any: it is JSON
    return [base64.b64encode(value).decode()] if isinstance(value, bytes) else value


def _from_json(value: Any) -> Any:  # Any: as above
    return base64.b64decode(value[0]) if isinstance(value, list) else value
