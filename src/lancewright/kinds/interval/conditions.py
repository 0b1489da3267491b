"""What an interval index is asked for: from where to where starts and ends lie, as whole numbers. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancewright.kinds.contract import Operator
from lancewright.kinds.whole_numbers import whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lancewright.kinds.contract import Atom

NUMBER_MAX = 2**64 - 1
_START = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The least and greatest start and end, all included; below 0 or above ``NUMBER_MAX`` there is nothing."""

    start_low: int = 0
    start_high: int = NUMBER_MAX
    end_low: int = 0
    end_high: int = NUMBER_MAX

    @property
    def is_empty(self) -> bool:
        """True when no number is within."""
        return self.start_low > self.start_high or self.end_low > self.end_high

    def starts_for(self, shortest: int, longest: int) -> tuple[int, int]:
        """Where intervals of these lengths must start, both included; the first above the second when nowhere."""
        return max(self.start_low, self.end_low - longest), min(self.start_high, self.end_high - shortest)

    def to_bytes(self) -> bytes:
        """As a probe carries it."""
        return json.dumps([self.start_low, self.start_high, self.end_low, self.end_high]).encode()


def window_from_bytes(payload: bytes) -> Window:
    """The window as it was."""
    start_low, start_high, end_low, end_high = json.loads(payload)
    return Window(start_low=start_low, start_high=start_high, end_low=end_low, end_high=end_high)


def read_window(group: Sequence[Atom]) -> tuple[Window, frozenset[int]]:
    """What all comparisons in an AND group leave together, and their places."""
    low, high, consumed = [0, 0], [NUMBER_MAX, NUMBER_MAX], set()
    for place, atom in enumerate(group):
        if atom.operator in {Operator.IN, Operator.PREFIX, Operator.FUNCTION} or len(atom.keys) != 1:
            continue
        (key,) = atom.keys
        number = whole_number(atom.values[0])
        if atom.operator in {Operator.GREATER, Operator.GREATER_EQUAL, Operator.EQUAL}:
            low[key] = max(low[key], number + (atom.operator is Operator.GREATER))
        if atom.operator in {Operator.LESS, Operator.LESS_EQUAL, Operator.EQUAL}:
            high[key] = min(high[key], number - (atom.operator is Operator.LESS))
        consumed.add(place)
    window = Window(
        start_low=low[_START], start_high=high[_START], end_low=low[1 - _START], end_high=high[1 - _START]
    )
    return window, frozenset(consumed)
