"""Index kind ``grid``: two numbers, by the cell of a grid they lie in."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lancewright.errors import InvalidRequestError
from lancewright.kinds.contract import Answer, Built, Cost, IndexKind, Operator, Probe, Reader, row_numbers
from lancewright.kinds.sorted_file import ArrayFile, SortedFile, merge_runs, write_array, write_sorted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import ClassVar

    from lancewright.kinds.contract import Atom, Key, RowNumbers, Spec, Store
    from lancewright.testing import KindHarness

# A cell has 32 bits for each direction. What lies farther out is on no cell.
HALF = 1 << 31
LAST = (1 << 32) - 1
# A box this wide is looked up column by column of cells; a wider one as all cells between its ends.
COLUMNS_MAX = 1000
PAGE_BYTES = 64 << 10
LOWER = (Operator.GREATER, Operator.GREATER_EQUAL, Operator.EQUAL)
UPPER = (Operator.LESS, Operator.LESS_EQUAL, Operator.EQUAL)


class GridKind(IndexKind):
    """Ranges of two float64 columns together."""

    name: ClassVar[str] = "grid"
    doc: ClassVar[str] = "Ranges of two numbers together, such as a box of longitudes and latitudes."

    def validate(self, keys: Sequence[Key], parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Take two float64 columns and the width of a cell."""
        if len(keys) != 2 or any(key.type != pa.float64() for key in keys):
            raise InvalidRequestError("A grid is over two float64 columns", 'Pass ["x", "y"].')
        unknown = set(parameters) - {"cell"}
        if unknown:
            raise InvalidRequestError(f"A grid has no parameter {min(unknown)!r}", "It takes cell.")
        cell = parameters.get("cell", 1.0)
        if not isinstance(cell, (int, float)) or not 0 < cell < math.inf:
            raise InvalidRequestError(f"cell={cell!r} is no width", "Pass a number above 0.")
        return {"cell": float(cell)}

    def build(self, spec: Spec, rows: Iterable[pa.RecordBatch], out: Store) -> Built:
        """Write cells and rows, sorted by cell. Rows that are on no cell are reported, to be checked by lancewright."""
        cells, numbers = [np.zeros((0, 2))], [np.zeros(0, dtype=np.uint32)]
        unkeyed = [np.zeros(0, dtype=np.uint32)]
        for batch in rows:
            own = batch.column("_row").to_numpy()
            points = np.stack([batch.column(f"k{key}").to_numpy() for key in range(2)], axis=1)
            found = np.floor(points / spec.parameters["cell"]) + HALF
            inside = ((found >= 0) & (found <= LAST)).all(axis=1)  # not NaN, not infinite
            cells.append(found[inside])
            numbers.append(own[inside])
            unkeyed.append(own[~inside])
        whole = np.concatenate(cells).astype(np.uint64)
        codes = (whole[:, 0] << np.uint64(32)) | whole[:, 1]
        order = np.argsort(codes)
        write_sorted(out, "cells", codes[order])
        write_array(out, "rows", np.concatenate(numbers)[order])
        bounds = [*whole.min(axis=0).tolist(), *whole.max(axis=0).tolist()] if len(whole) else []
        return Built(
            keyed=len(whole),
            unkeyed=row_numbers(np.concatenate(unkeyed)),
            summary=json.dumps(bounds).encode(),
        )

    def plan(self, spec: Spec, group: Sequence[Atom]) -> Probe | None:
        """Take every bound there is, of either column, and turn them into one box of cells."""
        box = [0, 0, LAST, LAST]
        consumed = set()
        for place, atom in enumerate(group):
            if atom.operator not in {*LOWER, *UPPER} or math.isnan(atom.values[0].as_py()):
                continue
            (key,), bound = atom.keys, np.floor(atom.values[0].as_py() / spec.parameters["cell"]) + HALF
            cell = int(min(max(bound, 0), LAST))
            if atom.operator in LOWER:
                box[key] = max(box[key], cell)
            if atom.operator in UPPER:
                box[2 + key] = min(box[2 + key], cell)
            consumed.add(place)
        if not consumed:
            return None
        return Probe(consumed=frozenset(consumed), answer=Answer.AT_MOST, payload=json.dumps(box).encode())

    def skip(self, spec: Spec, probe: Probe, summary: bytes) -> bool:
        """Say whether the box of the probe and that of the segment are apart."""
        del spec
        box, bounds = json.loads(probe.payload), json.loads(summary)
        return not bounds or any(box[key] > bounds[2 + key] or box[2 + key] < bounds[key] for key in (0, 1))

    def cost(self, spec: Spec, probe: Probe, summary: bytes, rows: int) -> Cost:
        """Expect as many rows as the box has of the segment's area, and to read two pages for each column of cells."""
        del spec
        box, bounds = json.loads(probe.payload), json.loads(summary)
        share, columns = 1.0, 1.0
        for low, high in ((0, 2), (1, 3)) if bounds else ():
            width = max(0, min(box[high], bounds[high]) - max(box[low], bounds[low]) + 1)
            share *= width / (bounds[high] - bounds[low] + 1)
            columns = columns if low else min(width, COLUMNS_MAX)
        pages = min(2.0 * columns, 1 + rows * 12 / PAGE_BYTES)
        return Cost(rows=rows * share, bytes=pages * PAGE_BYTES)

    def open(self, spec: Spec, store: Store) -> Reader:
        """Read both files when they are needed."""
        del spec
        return GridReader(store)


class GridReader(Reader):
    """One segment."""

    def __init__(self, store: Store) -> None:
        """Open nothing yet."""
        self.store = store

    def lookup(self, probe: Probe) -> RowNumbers:
        """The rows in the box's cells."""
        west, south, east, north = (np.uint64(bound) for bound in json.loads(probe.payload))
        if west > east or south > north:
            return row_numbers(np.zeros(0, dtype=np.uint32))
        if int(east) - int(west) < COLUMNS_MAX:
            columns = np.arange(int(west), int(east) + 1, dtype=np.uint64) << np.uint64(32)
            low, high = columns | south, columns | north
        else:
            low, high = (
                np.array([column << np.uint64(32) | row]) for column, row in ((west, south), (east, north))
            )
        cells = SortedFile(self.store, "cells")
        starts, stops = merge_runs(cells.left(low), cells.right(high))
        return row_numbers(ArrayFile(self.store.open("rows"), "<u4").slices(starts, stops))


def harness() -> KindHarness:
    """How the kit of lancewright tries this kind."""
    from lancewright.testing import Case, KindHarness

    two = (pa.float64(), pa.float64())
    cases = (Case(types=two), Case(types=two, parameters={"cell": 0.5}))
    return KindHarness(kind=GridKind, cases=cases)
