"""The model all segments of a vector index share: trained once, carried to every worker in a file.

Segments merge, and searches over several of them agree, only when they share centroids, codebook and rotation.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewright.errors import CorruptIndexError, InvalidRequestError
from lancewright.kinds.lance_native.arrays import as_centroids, as_codebook, check_finite
from lancewright.kinds.lance_native.column_types import vector_type
from lancewright.kinds.lance_native.vector import METRICS, dimension

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lancewright.model.columns import Column

_FORMAT = "lancewright.vector_model"
_FORMAT_VERSION = "1"
_MODEL_PARAMETERS = ("ivf_centroids", "pq_codebook", "rabitq_model")


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorModel:
    """Centroids of the cells, codebook of a product quantizer, rotation of a RaBitQ quantizer; what is not there is None.

    Arrays hold float16, float32 or float64 (centroids of binary vectors: uint8), without NULL, NaN or infinity.
    """

    metric: str
    centroids: pa.FixedSizeListArray | None = None
    codebook: pa.FixedSizeListArray | None = None
    rabitq: str | None = None

    def __post_init__(self) -> None:
        """Refuse what Lance would only notice on a worker, or not at all."""
        if self.metric not in METRICS:
            raise InvalidRequestError(
                f"{self.metric!r} is no metric", f"Choose one of: {', '.join(METRICS)}."
            )
        for name, vectors in (("ivf_centroids", self.centroids), ("pq_codebook", self.codebook)):
            if vectors is not None:
                check_finite(name, vectors)
        if self.rabitq is not None:
            _read_rotation(self.rabitq)

    @property
    def num_partitions(self) -> int | None:
        """How many cells the centroids make."""
        return None if self.centroids is None else len(self.centroids)

    def to_bytes(self) -> bytes:
        """Write the model as one Arrow IPC stream."""
        metadata = {_FORMAT: _FORMAT_VERSION, "metric": self.metric}
        if self.rabitq is not None:
            metadata["rabitq"] = self.rabitq
        columns = {
            name: _one_row(vectors)
            for name, vectors in (("centroids", self.centroids), ("codebook", self.codebook))
            if vectors is not None
        }
        schema = pa.schema(
            [pa.field(name, column.type) for name, column in columns.items()], metadata=metadata
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as writer:
            if columns:
                writer.write_batch(pa.record_batch(list(columns.values()), schema=schema))
        return bytes(sink.getvalue().to_pybytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> VectorModel:
        """Read what ``to_bytes`` wrote; raises CorruptIndexError for anything else."""
        try:
            return cls(**_read_parts(data))
        except (pa.ArrowException, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            # InvalidRequestError is a ValueError: a model with NaN inside is as damaged as one cut short.
            raise CorruptIndexError(
                f"A vector model cannot be read: {error}",
                "Make the same call again with resume=False, which trains it again.",
            ) from error


def take_model(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], VectorModel | None]:
    """Split validated parameters into those that are plain JSON and the model parts a caller passed in."""
    plain = {name: value for name, value in parameters.items() if name not in _MODEL_PARAMETERS}
    parts = [parameters.get(name) for name in _MODEL_PARAMETERS]
    if all(part is None for part in parts):
        return plain, None
    centroids, codebook, rabitq = parts
    return plain, VectorModel(metric=plain["metric"], centroids=centroids, codebook=codebook, rabitq=rabitq)


def check_model(model: VectorModel, column: Column, parameters: Mapping[str, Any]) -> VectorModel:
    """Return the model in the shapes Lance reads, or raise InvalidRequestError if it is of another column or request."""
    width = dimension(column)
    if model.metric != parameters["metric"]:
        problem = (
            f"The model was trained for the metric {model.metric!r}, asked for is {parameters['metric']!r}"
        )
        raise InvalidRequestError(problem, "Train a model for this metric.")
    if model.centroids is not None:
        model = replace(model, centroids=as_centroids(model.centroids, width))
        asked = parameters.get("num_partitions")
        if asked is not None and asked != model.num_partitions:
            problem = f"The model has {model.num_partitions} partitions, asked for are {asked}"
            raise InvalidRequestError(problem, "Leave num_partitions out: it follows from the model.")
    if model.codebook is not None and "num_sub_vectors" in parameters:
        codes, bits = parameters["num_sub_vectors"], parameters["num_bits"]
        model = replace(model, codebook=as_codebook(model.codebook, codes, bits, width))
    if model.rabitq is not None:
        _check_rotation(model.rabitq, width, parameters.get("num_bits"))
    return model


def fit_to_column(vectors: pa.FixedSizeListArray, column: Column) -> pa.FixedSizeListArray:
    """The same numbers in the float type of the column's vectors, the only one Lance computes with.

    Lance casts centroids by itself, refuses them when it trains a codebook, and panics over a codebook of another type.
    """
    type_ = vector_type(column)
    assert type_ is not None, "the kind accepted the column"  # noqa: S101 - a promise of the caller, not a user's input
    return vectors.cast(pa.list_(type_.value_type, vectors.type.list_size))


def _one_row(vectors: pa.FixedSizeListArray) -> pa.LargeListArray:
    # Centroids and codebook differ in length; as one list each they fit the same batch.
    return pa.LargeListArray.from_arrays(pa.array([0, len(vectors)], pa.int64()), vectors)


def _read_parts(data: bytes) -> dict[str, Any]:  # what VectorModel checks
    table = pa.ipc.open_stream(data).read_all()
    metadata = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    if metadata.get(_FORMAT) != _FORMAT_VERSION:
        raise ValueError(f"it has format {metadata.get(_FORMAT)!r}, known is {_FORMAT_VERSION!r}")
    parts = {name: table.column(name).chunk(0).values for name in table.column_names}
    return {"metric": metadata["metric"], "rabitq": metadata.get("rabitq"), **parts}


def _read_rotation(text: str) -> dict[str, Any]:  # JSON that Lance owns
    try:
        rotation = json.loads(text)
    except ValueError:
        rotation = None
    if not isinstance(rotation, dict) or not {"code_dim", "num_bits"} <= rotation.keys():
        problem = "rabitq_model is not a RaBitQ model"
        raise InvalidRequestError(problem, "Pass the string that lance.lance.indices.build_rq_model returns.")
    return rotation


def _check_rotation(text: str, width: int, bits: int | None) -> None:
    rotation = _read_rotation(text)
    if (rotation["code_dim"], rotation["num_bits"]) != (width, bits):
        problem = (
            f"rabitq_model is for {rotation['code_dim']} dimensions and {rotation['num_bits']} bits,"
            f" the index has {width} and {bits}"
        )
        raise InvalidRequestError(
            problem, "Build the model with the column's dimension and the same num_bits."
        )
