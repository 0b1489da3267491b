"""What is known of a composite segment without opening a file: bounds of each key, and how many values there are. Pure."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lancewright.kinds.composite.codes import KeyValues
    from lancewright.kinds.composite.conditions import Conditions, Range, Value

# Longer texts are cut: what is left of the smallest is not larger, and a greatest that would be cut is not kept.
_TEXT_BYTES_MAX = 128
# What a range of texts is taken to leave.
_TEXT_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The smallest and greatest value of a key; None when unknown, ``empty`` when every row is NULL."""

    low: Value | None
    high: Value | None
    empty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Rows, bounds of each key, and how many different values the first key has, the first two together, and so on."""

    keyed: int
    bounds: tuple[Bounds, ...]
    prefixes: tuple[int, ...]

    def to_bytes(self) -> bytes:
        """As the manifest keeps it."""
        bounds = [[_to_json(one.low), _to_json(one.high), one.empty] for one in self.bounds]
        return json.dumps(
            {"keyed": self.keyed, "bounds": bounds, "prefixes": self.prefixes}, separators=(",", ":")
        ).encode()


def summarise(keys: Sequence[KeyValues], prefixes: Sequence[int]) -> Summary:
    """The summary of all rows of a segment."""
    return Summary(
        keyed=len(keys[0].nulls), bounds=tuple(_bounds(key) for key in keys), prefixes=tuple(prefixes)
    )


def summary_from_bytes(content: bytes) -> Summary:
    """The summary as it was."""
    parsed = json.loads(content)
    return Summary(
        keyed=parsed["keyed"],
        bounds=tuple(
            Bounds(low=_from_json(low), high=_from_json(high), empty=empty)
            for low, high, empty in parsed["bounds"]
        ),
        prefixes=tuple(parsed["prefixes"]),
    )


def may_hold(summary: Summary, conditions: Conditions) -> bool:
    """False when some condition has no value between the bounds of its key."""
    for bounds, values in zip(summary.bounds, conditions.values, strict=False):
        if bounds.empty or not any(_is_inside(bounds, value) for value in values):
            return False
    if conditions.range is None:
        return True
    bounds = summary.bounds[len(conditions.values)]
    return not bounds.empty and _overlaps(bounds, conditions.range)


def estimate_rows(summary: Summary, conditions: Conditions) -> float:
    """About how many rows the conditions have."""
    if not may_hold(summary, conditions):
        return 0.0
    depth = len(conditions.values)
    different = summary.prefixes[depth - 1] if depth else 1
    combinations = math.prod(len(values) for values in conditions.values)
    share = min(1.0, combinations / max(1, different))
    if conditions.range is not None:
        share *= _share(summary.bounds[depth], conditions.range)
    return summary.keyed * share


def _bounds(key: KeyValues) -> Bounds:
    if key.nulls.all():
        return Bounds(low=None, high=None, empty=True)
    if key.texts is None:
        known = key.numbers[~key.nulls]
        return Bounds(low=int(np.min(known)), high=int(np.max(known)))
    low, high = key.texts[0].as_py(), key.texts[len(key.texts) - 1].as_py()
    return Bounds(low=low[:_TEXT_BYTES_MAX], high=high if len(high) <= _TEXT_BYTES_MAX else None)


def _is_inside(bounds: Bounds, value: Any) -> bool:  # Any: of the type of the bounds
    return (bounds.low is None or bounds.low <= value) and (bounds.high is None or value <= bounds.high)


def _overlaps(bounds: Bounds, asked: Range) -> bool:
    # An end that is excluded may only touch; that is not worth telling apart.
    below = asked.high is not None and bounds.low is not None and _less(asked.high, bounds.low)
    above = asked.low is not None and bounds.high is not None and _less(bounds.high, asked.low)
    return not below and not above


def _less(left: Any, right: Any) -> bool:  # Any: both numbers or both bytes
    return bool(left < right)


def _share(bounds: Bounds, asked: Range) -> float:
    if not isinstance(bounds.low, int) or not isinstance(bounds.high, int):
        return _TEXT_SHARE
    low = bounds.low if not isinstance(asked.low, int) else max(bounds.low, asked.low)
    high = bounds.high if not isinstance(asked.high, int) else min(bounds.high, asked.high)
    return min(1.0, max(0, high - low + 1) / (bounds.high - bounds.low + 1))


def _to_json(value: Value | None) -> Any:  # Any: it is JSON
    return [base64.b64encode(value).decode()] if isinstance(value, bytes) else value


def _from_json(value: Any) -> Any:  # Any: as above
    return base64.b64decode(value[0]) if isinstance(value, list) else value
