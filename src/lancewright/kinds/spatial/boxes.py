"""Boxes: what geometries cover at most, and what is asked of them. Pure.

An array of boxes has a row for each and the columns least x, least y, greatest x, greatest y, all of them included; one of points
has x and y alone, which are both the least and the greatest.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Boxes = NDArray[Any]  # Any: of float32 or float64
    Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Rows whose box touches one of these boxes; ``inside``: lies in the only one."""

    boxes: tuple[Box, ...]
    inside: bool = False

    def touched(self, boxes: Boxes) -> NDArray[np.bool_]:
        """Which of many boxes touch any."""
        found = np.zeros(len(boxes), dtype=np.bool_)
        for low_x, low_y, high_x, high_y in np.array(self.boxes, dtype=np.float64):
            found |= (
                (boxes[:, 0] <= high_x)
                & (boxes[:, -2] >= low_x)
                & (boxes[:, 1] <= high_y)
                & (boxes[:, -1] >= low_y)
            )
        return found

    def holds(self, boxes: Boxes) -> NDArray[np.bool_]:
        """Of which rows, given by their boxes, this is TRUE."""
        if not self.inside:
            return self.touched(boxes)
        found = np.zeros(len(boxes), dtype=np.bool_)
        for low_x, low_y, high_x, high_y in np.array(self.boxes, dtype=np.float64):
            found |= (
                (boxes[:, 0] >= low_x)
                & (boxes[:, -2] <= high_x)
                & (boxes[:, 1] >= low_y)
                & (boxes[:, -1] <= high_y)
            )
        return found


def wheres_to_bytes(wheres: Sequence[Where]) -> bytes:
    """As a probe carries them. JSON keeps floats exactly, and infinities."""
    return json.dumps([[list(map(list, one.boxes)), one.inside] for one in wheres]).encode()


def wheres_from_bytes(payload: bytes) -> tuple[Where, ...]:
    """The conditions as they were."""
    return tuple(
        Where(boxes=tuple((box[0], box[1], box[2], box[3]) for box in boxes), inside=inside)
        for boxes, inside in json.loads(payload)
    )


def outward(boxes: NDArray[np.float64]) -> NDArray[np.float32]:
    """Boxes in half the bytes, not smaller."""
    with np.errstate(over="ignore"):
        small = boxes.astype(np.float32)
    low, high = small[:, :2], small[:, 2:]
    low[low > boxes[:, :2]] = np.nextafter(low[low > boxes[:, :2]], np.float32(-np.inf))
    high[high < boxes[:, 2:]] = np.nextafter(high[high < boxes[:, 2:]], np.float32(np.inf))
    return small


def united(boxes: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The boxes around runs of boxes, given by where each run starts."""
    if not len(boxes):
        return np.zeros((0, 4))
    low = np.minimum.reduceat(boxes[:, :2], starts, axis=0)
    return np.hstack([low, np.maximum.reduceat(boxes[:, -2:], starts, axis=0)])


def shares(boxes: Boxes, where: Where) -> NDArray[np.float64]:
    """About which part of what lies in each box is wanted, were it spread evenly."""
    total = np.zeros(len(boxes))
    size = np.maximum(boxes[:, 2:].astype(np.float64) - boxes[:, :2], np.finfo(np.float64).tiny)
    for box in where.boxes:
        low = np.maximum(boxes[:, :2], np.array(box[:2]))
        high = np.minimum(boxes[:, 2:], np.array(box[2:]))
        # A box of no extent is all in or all out.
        part = np.where(boxes[:, 2:] > boxes[:, :2], np.clip((high - low) / size, 0.0, 1.0), 1.0)
        total += np.where((high >= low).all(axis=1), part.prod(axis=1), 0.0)
    return np.minimum(total, 1.0)
