"""Chooses rows of some fragments, evenly and always the same ones, and reads their keys in one pass. Memory is a few batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewright.table.column_reader import plain_type, read_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lancewright.model.columns import Column
    from lancewright.model.computed import ComputedColumn
    from lancewright.model.snapshot import Fragment
    from lancewright.table.location import TableRef

# Of more fragments than this the first and last row is not taken of each.
_EDGES_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """Some rows: their keys and addresses; and the least and greatest first key of all rows, where keys have an order."""

    keys: tuple[pa.Array, ...]
    addresses: NDArray[np.uint64]
    low: pa.Scalar | None = None
    high: pa.Scalar | None = None


def choose_places(fragments: Sequence[Fragment], count: int, seed: int) -> NDArray[np.int64]:
    """Places among the live rows of fragments: one at random in each of ``count`` equal parts, and the edges of fragments."""
    rows = np.cumsum([0, *(fragment.rows for fragment in fragments)])
    total = int(rows[-1])
    if not total:
        return np.zeros(0, dtype=np.int64)
    count = min(count, total)
    cuts = np.linspace(0, total, count + 1).astype(np.int64)
    random = np.random.default_rng(seed)
    inside = cuts[:-1] + (random.random(count) * np.diff(cuts)).astype(np.int64)
    edges = (
        np.concatenate((rows[:-1], rows[1:] - 1)) if len(fragments) <= _EDGES_MAX else rows[[0, -1]] - [0, 1]
    )
    return np.unique(np.clip(np.concatenate((inside, edges)), 0, total - 1))


def draw_sample(
    table: TableRef,
    columns: Sequence[Column | ComputedColumn],
    fragments: Sequence[Fragment],
    count: int,
    seed: int,
) -> Sample:
    """Read the keys of the fragments once, and keep those of the chosen rows."""
    places = choose_places(fragments, count, seed)
    kept: list[tuple[list[pa.Array], NDArray[np.uint64]]] = []
    low: pa.Scalar | None = None
    high: pa.Scalar | None = None
    start = 0
    for rows in read_keys(table, columns, [fragment.id for fragment in fragments], with_row_ids=False):
        stop = start + len(rows.addresses)
        here = places[(places >= start) & (places < stop)] - start
        kept.append(([key.take(pa.array(here)) for key in rows.keys], rows.addresses[here]))
        low, high = _widen(rows.keys[0], low, high)
        start = stop
    if not kept:
        empty = tuple(pa.array([], plain_type(column.type)) for column in columns)
        return Sample(keys=empty, addresses=np.zeros(0, dtype=np.uint64))
    return Sample(
        keys=tuple(pa.concat_arrays([keys[number] for keys, _ in kept]) for number in range(len(columns))),
        addresses=np.concatenate([addresses for _, addresses in kept]),
        low=low,
        high=high,
    )


def _widen(
    values: pa.Array, low: pa.Scalar | None, high: pa.Scalar | None
) -> tuple[pa.Scalar | None, pa.Scalar | None]:
    try:
        found = pc.min_max(values)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return None, None
    least, greatest = found["min"], found["max"]
    if not least.is_valid or low is None or high is None:
        return (least, greatest) if least.is_valid else (low, high)
    return pc.min_element_wise(low, least), pc.max_element_wise(high, greatest)
