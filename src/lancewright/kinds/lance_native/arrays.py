"""Brings centroids and codebooks from NumPy or Arrow into one shape: an Arrow fixed size list. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lancewright.errors import InvalidRequestError

_FORM = "Pass a NumPy array or an Arrow fixed size list of float16, float32 or float64 without NULL, NaN or infinity."


def as_centroids(value: object, width: int) -> pa.FixedSizeListArray:
    """One row per cell. Raises InvalidRequestError when the rows are not ``width`` wide."""
    vectors = _as_vectors("ivf_centroids", value, dimensions=2)
    if vectors.type.list_size != width:
        problem = f"ivf_centroids is {vectors.type.list_size} wide and the column {width}"
        raise InvalidRequestError(problem, "Train the centroids on this column.")
    if not len(vectors):
        raise InvalidRequestError("ivf_centroids is empty", "Give at least one centroid.")
    return vectors


def as_codebook(value: object, codes: int, bits: int, width: int) -> pa.FixedSizeListArray:
    """All codes in one run, as Lance reads them: by sub-vector, then by centroid.

    Arrow codebooks may be as wide as a sub-vector or as the whole vector: Lance's own training returns the latter
    with the same values in the same order.
    """
    vectors = _as_vectors("pq_codebook", value, dimensions=3)
    part = width // codes
    if (
        vectors.type.list_size not in {part, width}
        or len(vectors) * vectors.type.list_size != 2**bits * width
    ):
        problem = f"pq_codebook holds {len(vectors)} rows of {vectors.type.list_size}"
        remedy = f"Shape it {codes} x {2**bits} x {part}: num_sub_vectors x 2**num_bits x (dimension / num_sub_vectors)."
        raise InvalidRequestError(problem, remedy)
    if isinstance(value, np.ndarray) and value.shape[0] != codes:
        raise InvalidRequestError(
            f"pq_codebook has shape {value.shape}", f"Its first side is num_sub_vectors: {codes}."
        )
    return vectors


def check_finite(name: str, vectors: pa.FixedSizeListArray) -> None:
    """Raise InvalidRequestError if a vector is NULL or has a value that is no finite number."""
    values = vectors.flatten()
    is_whole = (
        vectors.null_count == 0
        and values.null_count == 0
        and len(values) == len(vectors) * vectors.type.list_size
    )
    if is_whole and (
        pa.types.is_integer(values.type) or np.isfinite(values.to_numpy(zero_copy_only=False)).all()
    ):
        return
    raise InvalidRequestError(f"{name} has NULL, NaN or infinite values", _FORM)


def _as_vectors(
    name: str, value: Any, dimensions: int
) -> pa.FixedSizeListArray:  # NumPy or Arrow, checked here
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    if isinstance(value, pa.ExtensionArray):
        value = value.storage
    if isinstance(value, np.ndarray) and value.ndim == dimensions and value.size and value.dtype.kind in "fu":
        value = pa.FixedSizeListArray.from_arrays(
            pa.array(np.ascontiguousarray(value).reshape(-1)), value.shape[-1]
        )
    fits = isinstance(value, pa.FixedSizeListArray) and _is_vector_value(value.type.value_type)
    if not fits:
        shape = getattr(value, "shape", None)
        described = (
            f"{type(value).__name__} of shape {shape}" if shape else f"{getattr(value, 'type', type(value))}"
        )
        raise InvalidRequestError(
            f"{name} cannot be a {described}", f"It has {dimensions} dimensions. {_FORM}"
        )
    check_finite(name, value)
    return value


def _is_vector_value(type_: pa.DataType) -> bool:
    return bool(pa.types.is_floating(type_) or pa.types.is_uint8(type_))
