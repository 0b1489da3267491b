"""The graph of one segment, as the library usearch builds, writes and walks it. Needs the extra ``hnsw``.

It is asked for candidates only: how far they are is measured by ``metrics``, from the vectors that lie in the graph's file.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lancewright.errors import UnsupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lancewright.kinds.contract import Store
    from lancewright.kinds.hnsw.metrics import Metric

    Vectors = NDArray[Any]  # Any: of the column's value type

GRAPH_FILE = "graph"
_BITS_OF_A_BYTE = 8


def require_usearch() -> Any:  # Any: it is optional, so nothing is known of it
    """The library; raises UnsupportedError that names the extra when it is missing."""
    try:
        from usearch import index
    except ImportError as error:
        raise UnsupportedError(
            f"Kind 'hnsw' needs the package usearch, which cannot be imported: {error}",
            "Install lancewright[hnsw], on the driver and on every executor.",
        ) from error
    return index


class Graph:
    """The vectors of one segment by their row numbers."""

    def __init__(self, metric: Metric, type_: pa.DataType, parameters: dict[str, Any]) -> None:
        """Start empty; ``type_`` is that of the column. Any: of JSON."""
        library = require_usearch()
        self._metric = metric
        bits = metric.of_bits
        self._index = library.Index(
            ndim=type_.list_size * (_BITS_OF_A_BYTE if bits else 1),
            metric=getattr(library.MetricKind, metric.library),
            dtype=library.ScalarKind.B1 if bits else _scalar(metric, type_.value_type),
            connectivity=parameters["m"],
            expansion_add=parameters["ef_construction"],
            expansion_search=parameters["ef"],
        )

    def add(self, rows: NDArray[np.uint32], vectors: Vectors) -> None:
        """Take in vectors. One thread: the same rows make the same file, and other tasks have the other cores."""
        if len(rows):
            self._index.add(rows.astype(np.uint64), self._turned(vectors), threads=1)

    def write(self, out: Store) -> None:
        """Write the file."""
        with tempfile.TemporaryDirectory(prefix="lancewright-graph-") as folder:
            path = Path(folder) / GRAPH_FILE
            self._index.save(str(path))
            with path.open("rb") as source, out.create(GRAPH_FILE) as file:
                shutil.copyfileobj(source, file, 1 << 20)

    def view(self, store: Store) -> None:
        """Look at a file in place, through the memory map of a checked copy."""
        self._index.view(store.local(GRAPH_FILE))

    def walk(self, query: Vectors, count: int, ef: int) -> NDArray[np.uint32]:
        """About the nearest rows; perhaps fewer than asked for."""
        self._index.expansion_search = max(ef, count)
        found = self._index.search(self._turned(query.reshape(1, -1))[0], count, threads=1)
        return np.asarray(found.keys).astype(np.uint32)

    def vectors(self, rows: NDArray[np.uint32]) -> Vectors:
        """The vectors of rows, all of which it must have."""
        return self._turned(np.vstack(self._index.get(rows.astype(np.uint64))))

    def _turned(self, vectors: Vectors) -> Vectors:
        """The library has latitudes first."""
        if self._metric.name != "haversine":
            return np.ascontiguousarray(vectors)
        return np.ascontiguousarray(vectors[:, ::-1])


def _scalar(metric: Metric, type_: pa.DataType) -> str:
    """As wide as the column's, so that the file has the very numbers; the library has no haversine of 16 bits."""
    return "f32" if metric.name == "haversine" and pa.types.is_float16(type_) else _SCALARS[type_]


_SCALARS = {pa.float16(): "f16", pa.float32(): "f32", pa.float64(): "f64"}
