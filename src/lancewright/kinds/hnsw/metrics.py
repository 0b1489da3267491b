"""How far vectors are from one, by each metric: exactly, and what the library that builds graphs calls it. Pure.

Distances are computed here, in 64 bits, also those of rows that a graph led to: rows inside and outside the index are measured alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lancewright.kinds.spatial.nearest import read_origin

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Vectors = NDArray[Any]  # Any: of the column's value type
    Distances = NDArray[np.float64]

_CHUNK = 16_384
_POLE = 90.0
_BITS = np.array([byte.bit_count() for byte in range(256)], dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A measure: its name here, its name in the library, and whether it takes bits packed into bytes.

    ``width``: the only width it takes; None for any.
    """

    name: str
    library: str
    measure: Callable[[Vectors, Vectors], Distances]
    of_bits: bool = False
    width: int | None = None

    def distances(self, query: Vectors, vectors: Vectors) -> Distances:
        """How far each vector is; NaN for one that has no distance. Some thousand at a time."""
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            parts = [
                self.measure(query, vectors[start : start + _CHUNK])
                for start in range(0, len(vectors), _CHUNK)
            ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def sound(self, vectors: Vectors) -> NDArray[np.bool_]:
        """Which vectors have a distance to any other."""
        if self.of_bits:
            return np.ones(len(vectors), dtype=np.bool_)
        sound: NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(vectors), axis=1)
        if self.name == "cosine":
            sound &= np.logical_or.reduce(vectors != 0, axis=1)
        if self.name == "haversine":
            sound &= np.abs(vectors[:, 1]) <= _POLE
        return sound


def _l2(query: Vectors, vectors: Vectors) -> Distances:
    difference = vectors.astype(np.float64) - query.astype(np.float64)
    found: Distances = np.einsum("ij,ij->i", difference, difference)
    return found


def _dot(query: Vectors, vectors: Vectors) -> Distances:
    found: Distances = 1.0 - vectors.astype(np.float64) @ query.astype(np.float64)
    return found


def _cosine(query: Vectors, vectors: Vectors) -> Distances:
    whole, wanted = vectors.astype(np.float64), query.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", whole, whole)) * np.sqrt(wanted @ wanted)
    found: Distances = 1.0 - (whole @ wanted) / lengths
    return found


def _haversine(query: Vectors, vectors: Vectors) -> Distances:
    return read_origin(query.tolist()).distances(
        vectors[:, 0].astype(np.float64), vectors[:, 1].astype(np.float64)
    )


def _hamming(query: Vectors, vectors: Vectors) -> Distances:
    found: Distances = _BITS[np.bitwise_xor(vectors, query)].sum(axis=1).astype(np.float64)
    return found


def _jaccard(query: Vectors, vectors: Vectors) -> Distances:
    both = _BITS[np.bitwise_and(vectors, query)].sum(axis=1)
    either = _BITS[np.bitwise_or(vectors, query)].sum(axis=1)
    return 1.0 - np.where(either == 0, 1.0, both / np.maximum(either, 1))


METRICS = {
    metric.name: metric
    for metric in (
        Metric(name="l2", library="L2sq", measure=_l2),
        Metric(name="cosine", library="Cos", measure=_cosine),
        Metric(name="dot", library="IP", measure=_dot),
        Metric(name="haversine", library="Haversine", measure=_haversine, width=2),
        Metric(name="hamming", library="Hamming", measure=_hamming, of_bits=True),
        Metric(name="jaccard", library="Jaccard", measure=_jaccard, of_bits=True),
    )
}


def value_type(type_: pa.DataType) -> pa.DataType | None:
    """The type of the numbers of a column of vectors; None when it is no such column."""
    known = (pa.float16(), pa.float32(), pa.float64(), pa.uint8())
    if not pa.types.is_fixed_size_list(type_) or type_.list_size < 1 or type_.value_type not in known:
        return None
    return type_.value_type


def read_matrix(values: pa.Array) -> tuple[Vectors, NDArray[np.bool_]]:
    """Vectors as a matrix, and which of them have all their numbers. Not NULLs."""
    width, flat = values.type.list_size, values.flatten()
    whole = np.ones(len(values), dtype=np.bool_)
    if flat.null_count:
        missing = flat.is_null().to_numpy(zero_copy_only=False).reshape(-1, width)
        whole = ~missing.any(axis=1)
    dtype = np.dtype(values.type.value_type.to_pandas_dtype())
    with np.errstate(invalid="ignore"):  # a missing byte comes as NaN, and its row is not looked at
        numbers = flat.to_numpy(zero_copy_only=False).astype(dtype, copy=False)
    return numbers.reshape(-1, width), whole
