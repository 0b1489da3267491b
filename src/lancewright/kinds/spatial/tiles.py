"""A segment's entries on storage: sorted into tiles, a small file with the box of each, and reading only the tiles wanted.

Sort-tile-recursive: by x into strips, each strip by y into tiles of as many entries as a page has. Tiles follow how the
entries lie, whatever their numbers mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lancewright.kinds.sorted_file import write_array
from lancewright.kinds.spatial.boxes import outward, united

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from lancewright.kinds.contract import Store
    from lancewright.kinds.spatial.boxes import Where

ENTRIES_FILE = "entries"
TILES_FILE = "tiles"
# Entries of a tile: 40 KiB of points, 72 KiB of boxes.
TILE = 2048
POINT = np.dtype([("x", "<f8"), ("y", "<f8"), ("row", "<u4")])
BOX = np.dtype([("box", "<f8", (4,)), ("row", "<u4")])
_TILES_AT_ONCE = 256


def tile_order(boxes: NDArray[np.float64]) -> NDArray[np.int64]:
    """The order in which neighbours share tiles, by the middle of each box."""
    count = len(boxes)
    tiles = -(-count // TILE)
    strips = max(1, round(tiles**0.5))
    strip_rows = max(1, -(-tiles // strips)) * TILE
    order: NDArray[np.int64] = np.argsort(_middles(boxes, 0))
    heights = _middles(boxes, 1)
    # A sort for each strip: 60 of a million entries, where one over two keys takes three times as long.
    for start in range(0, count, strip_rows):
        strip = order[start : start + strip_rows]
        order[start : start + strip_rows] = strip[np.argsort(heights[strip])]
    return order


def write_tiles(out: Store, boxes: NDArray[np.float64], rows: NDArray[np.uint32]) -> NDArray[np.float32]:
    """Write entries that are in the order of tiles; the boxes of the tiles."""
    points = are_points(boxes)
    entries = np.empty(len(rows), dtype=POINT if points else BOX)
    entries["row"] = rows
    if points:
        entries["x"], entries["y"] = boxes[:, 0], boxes[:, 1]
    else:
        entries["box"] = boxes
    tiles = outward(united(boxes, np.arange(0, len(rows), TILE)))
    write_array(out, ENTRIES_FILE, entries)
    write_array(out, TILES_FILE, tiles)
    return tiles


class TileFiles:
    """The two files of one segment."""

    def __init__(self, store: Store, rows: int, *, points: bool) -> None:
        """Read nothing yet."""
        self._store = store
        self._rows = rows
        self._entry = POINT if points else BOX

    def find(self, wheres: Sequence[Where]) -> NDArray[np.uint32]:
        """The rows for which all conditions are TRUE, reading the tiles that may have any."""
        tiles = self.boxes()
        wanted = np.logical_and.reduce([where.touched(tiles) for where in wheres])
        found = [np.zeros(0, dtype=np.uint32)]
        for boxes, rows in self.read_tiles(np.flatnonzero(wanted)):
            found.append(rows[np.logical_and.reduce([where.holds(boxes) for where in wheres])])
        return np.concatenate(found)

    def boxes(self) -> NDArray[np.float32]:
        """The box of each tile."""
        file = self._store.open(TILES_FILE)
        return np.frombuffer(file.read(0, file.size), "<f4").reshape(-1, 4)

    def read_tiles(
        self, tiles: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.float64], NDArray[np.uint32]]]:
        """The boxes and rows of tiles given in ascending order, some at a time."""
        for first, last in _runs(tiles):
            yield self.read(first * TILE, min(last * TILE, self._rows))

    def read(self, begin: int, stop: int) -> tuple[NDArray[np.float64], NDArray[np.uint32]]:
        """The boxes and rows of some neighbours."""
        width = self._entry.itemsize
        content = self._store.open(ENTRIES_FILE).read(begin * width, (stop - begin) * width)
        entries = np.frombuffer(content, self._entry)
        if self._entry is BOX:
            return entries["box"], entries["row"]
        return np.stack([entries["x"], entries["y"]], axis=1), entries["row"]


def are_points(boxes: NDArray[np.float64]) -> bool:
    """True when no box has an extent."""
    return boxes.shape[1] == 2 or bool((boxes[:, :2] == boxes[:, 2:]).all())


def _middles(boxes: NDArray[np.float64], axis: int) -> Any:  # Any: numpy's arithmetic
    return boxes[:, axis] if boxes.shape[1] == 2 else boxes[:, axis] / 2 + boxes[:, axis + 2] / 2


def _runs(tiles: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Runs of neighbours, as first and behind the last, none so long that memory matters."""
    if not len(tiles):
        return
    breaks = np.flatnonzero(np.diff(tiles) != 1) + 1
    for run in np.split(tiles, breaks):
        for start in range(int(run[0]), int(run[-1]) + 1, _TILES_AT_ONCE):
            yield start, min(start + _TILES_AT_ONCE, int(run[-1]) + 1)
