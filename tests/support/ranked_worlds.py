"""Tables of places and numbers in the midst of a life of changes, and what a ranked search of them has to find."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa

import lancewright as lw

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.random import Generator
    from numpy.typing import NDArray

ROWS, FRAGMENT_ROWS = 240, 60
EARTH = 6_371_008.7714
ODD_NUMBERS = (math.nan, math.inf, -math.inf)


class RankedWorld:
    """One table with a spatial index over its places and an index of a toy kind over its numbers."""

    def __init__(self, folder: Path, seed: int) -> None:
        """Write the table."""
        self.random = np.random.default_rng(seed)
        self.uri = str(folder / f"world-{seed}.lance")
        self.stable = bool(seed % 2)
        self.history = [f"seed {seed}", "stable row ids" if self.stable else "row addresses"]
        self._next = 0
        rows = self._rows(ROWS)
        lance.write_dataset(
            rows, self.uri, max_rows_per_file=FRAGMENT_ROWS, enable_stable_row_ids=self.stable
        )

    @property
    def table(self) -> lw.Table:
        """The table."""
        return lw.open(self.uri, progress=False)

    def index(self, columns: Any, kind: str, name: str, **parameters: Any) -> None:
        """Build an index over what is there now."""
        self.table.create_index(columns, kind=kind, name=name, segments=2, **parameters)
        self.history.append(f"index {name}")

    def change(self) -> None:
        """Do one thing to the table."""
        changes: list[Callable[[], None]] = [
            self._append,
            self._delete,
            self._update_places,
            self._update_other,
            self._compact,
            self._refresh,
        ]
        act = changes[self.random.integers(0, len(changes))]
        self.history.append(act.__name__)
        act()

    def rows(self, where: str | None = None) -> pa.Table:
        """The live rows with their ids, read without any index."""
        return lance.dataset(self.uri).to_table(filter=where, with_row_id=True, use_scalar_index=False)

    def _rows(self, count: int) -> pa.Table:
        random = self.random
        ids = np.arange(self._next, self._next + count)
        self._next += count
        return pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "g": pa.array(random.integers(0, 8, count), pa.int64()),
                # On a grid, so that many are equally far.
                "lon": _odd(random, random.integers(-36, 37, count) * 5.0),
                "lat": _odd(random, random.integers(-18, 19, count) * 5.0),
                "number": _odd(random, random.integers(-20, 20, count) / 4),
                "vector": pa.FixedSizeListArray.from_arrays(
                    pa.array(random.integers(-8, 8, count * 4).astype("f4")),
                    4,
                    mask=pa.array(random.random(count) < 0.06),
                ),
            }
        )

    def _append(self) -> None:
        lance.write_dataset(self._rows(int(self.random.integers(5, 40))), self.uri, mode="append")

    def _delete(self) -> None:
        lance.dataset(self.uri).delete(f"g = {self.random.integers(0, 8)} AND id % 2 = 0")

    def _update_places(self) -> None:
        lance.dataset(self.uri).update(
            {"lon": "lon + 5", "number": "number - 1"},
            where=f"g = {self.random.integers(0, 8)} AND id % 3 = 0",
        )

    def _update_other(self) -> None:
        lance.dataset(self.uri).update({"g": "g + 1"}, where="id % 7 = 0 AND g < 7")

    def _compact(self) -> None:
        options = {} if self.stable else {"defer_index_remap": bool(self.random.integers(0, 2))}
        lance.dataset(self.uri).optimize.compact_files(target_rows_per_fragment=90, **options)

    def _refresh(self) -> None:
        self.table.refresh()


def true_metres(rows: pa.Table, place: tuple[float, float]) -> NDArray[np.float64]:
    """The distance of each row on the sphere; NaN for a row that has none."""
    lon, lat = (rows[name].to_numpy(zero_copy_only=False).astype("f8") for name in ("lon", "lat"))
    with np.errstate(invalid="ignore"):
        across = (
            np.cos(np.radians(lat))
            * math.cos(math.radians(place[1]))
            * np.sin(np.radians((lon - place[0]) / 2)) ** 2
        )
        chord = np.sin(np.radians((lat - place[1]) / 2)) ** 2 + across
        far: NDArray[np.float64] = 2 * EARTH * np.arcsin(np.sqrt(np.minimum(chord, 1.0)))
    return far


def best_rows(
    rows: pa.Table, scores: NDArray[np.float64], k: int, *, descending: bool = False
) -> list[tuple[int, float]]:
    """Id and score of the best rows, equal scores by row id; rows without a score are none."""
    has = np.flatnonzero(~np.isnan(scores))
    order = np.lexsort((rows["_rowid"].to_numpy()[has], -scores[has] if descending else scores[has]))[:k]
    ids = rows["id"].to_numpy()
    return [(int(ids[has[place]]), float(scores[has[place]])) for place in order]


def found_rows(found: pa.Table, rank: str = "_distance") -> list[tuple[int, float]]:
    """Id and score of an answer's rows."""
    return list(zip(found["id"].to_pylist(), found[rank].to_pylist(), strict=True))


def _odd(random: Generator, numbers: Any) -> pa.Array:
    values = np.asarray(numbers, dtype="f8")
    odd = random.random(len(values)) < 0.04
    values[odd] = random.choice(ODD_NUMBERS, odd.sum())
    return pa.array(values, mask=random.random(len(values)) < 0.06)
