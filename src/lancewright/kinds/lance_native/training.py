"""Trains the parts of a vector model that the caller did not bring, once, in this process."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewright.errors import InvalidRequestError, UnsupportedError
from lancewright.kinds.lance_native.column_types import is_multivector, vector_type
from lancewright.kinds.lance_native.translation import lance_errors
from lancewright.kinds.lance_native.vector import dimension, has_dot_metric
from lancewright.kinds.lance_native.vector_model import VectorModel, check_model, fit_to_column

if TYPE_CHECKING:
    from collections.abc import Mapping

    import lance

    from lancewright.kinds.lance_native.definition import NativeKind
    from lancewright.model.columns import Column

_SAMPLE_RATE = 256
_ITERATIONS_MAX = 50
# Lance's own sizes and its bound on partitions, measured by building each kind over 20,000 rows without parameters.
_VECTORS_PER_PARTITION = {"ivf_flat": 4096, "ivf_rq": 4096, "ivf_pq": 8192, "ivf_sq": 8192}
_VECTORS_PER_GRAPH = 1_048_576
_PARTITIONS_MAX = 4096
# Below this many rows the vectors are counted, so that a table full of NULL gets an error that says so.
_COUNTED_ROWS_MAX = 200_000
_TOO_FEW = re.compile(r"cannot train (\d+) centroids with (\d+) vectors|Requires (\d+) rows but only (\d+)")


def train_model(
    dataset: lance.LanceDataset,
    kind: NativeKind,
    column: Column,
    parameters: Mapping[str, Any],
    given: VectorModel | None = None,
) -> VectorModel:
    """Complete ``given`` to the model this kind needs; its parts are kept exactly as they are.

    ``parameters`` are validated ones, the model's parts already taken out by ``take_model``. Reads at most
    ``sample_rate`` vectors per partition, and per code of a product quantizer; NULL and NaN are left out.
    """
    model = check_model(given or VectorModel(metric=parameters["metric"]), column, parameters)
    with lance_errors(f"train a {kind.name} model on {column.path}"):
        if model.centroids is None:
            model = replace(model, centroids=_train_centroids(dataset, kind, column, parameters))
        if kind.parameter("pq_codebook") is not None and model.codebook is None:
            model = replace(model, codebook=_train_codebook(dataset, column, parameters, model))
        if kind.parameter("rabitq_model") is not None and model.rabitq is None:
            model = replace(model, rabitq=_draw_rotation(column, parameters["num_bits"]))
    return model


def choose_num_partitions(kind: NativeKind, rows: int, target_partition_size: int | None = None) -> int:
    """How many partitions Lance itself would make of this many rows."""
    size = target_partition_size or _VECTORS_PER_PARTITION.get(kind.name, _VECTORS_PER_GRAPH)
    return min(max(rows // size, 1), _PARTITIONS_MAX)


def _train_centroids(
    dataset: Any,
    kind: NativeKind,
    column: Column,
    parameters: Mapping[str, Any],  # a LanceDataset, untyped inside
) -> pa.FixedSizeListArray:
    from lance.lance import indices

    rows = _count_vectors(dataset, column)
    if rows == 0:
        problem = f"Column {column.path} holds no vector to train {kind.name} on"
        raise UnsupportedError(problem, "Add rows first, pass a model, or create the index with train=False.")
    partitions = parameters.get("num_partitions") or choose_num_partitions(
        kind, rows, parameters.get("target_partition_size")
    )
    # IndicesBuilder wraps this call; it refuses nested columns and demands num_partitions * sample_rate rows, which
    # the call itself only treats as the most it samples.
    return _explain_few(
        indices.train_ivf_model, "num_partitions",
        dataset._ds, column.path, dimension(column), partitions, parameters["metric"],  # noqa: SLF001 - as IndicesBuilder
        parameters.get("sample_rate", _SAMPLE_RATE), parameters.get("max_iters", _ITERATIONS_MAX), None,
    )  # fmt: skip


def _train_codebook(
    dataset: Any,
    column: Column,
    parameters: Mapping[str, Any],
    model: VectorModel,  # a LanceDataset, untyped inside
) -> pa.FixedSizeListArray:
    from lance.lance import indices

    assert model.centroids is not None  # noqa: S101 - train_model makes them first
    # Lance's training subtracts centroids whatever the metric, but codes whole vectors for some.
    base = _origin(column) if has_dot_metric(parameters) else model.centroids
    centroids = fit_to_column(base, column)
    return _explain_few(
        indices.train_pq_model, "num_bits",
        dataset._ds, column.path, dimension(column), parameters["num_sub_vectors"], parameters["metric"],  # noqa: SLF001
        parameters.get("sample_rate", _SAMPLE_RATE), parameters.get("max_iters", _ITERATIONS_MAX), centroids,
        None, parameters["num_bits"],
    )  # fmt: skip


def _origin(column: Column) -> pa.FixedSizeListArray:
    width = dimension(column)
    return pa.FixedSizeListArray.from_arrays(pa.array([0.0] * width, pa.float32()), width)


def _draw_rotation(column: Column, bits: int) -> str:
    from lance.lance import indices

    names = {pa.float16(): "float16", pa.float64(): "float64"}
    type_ = vector_type(column)
    return str(
        indices.build_rq_model(
            dimension(column), bits, names.get(type_.value_type if type_ else None, "float32")
        )
    )


def _count_vectors(dataset: Any, column: Column) -> int:  # a LanceDataset, untyped inside
    rows = int(dataset.count_rows())
    if rows > _COUNTED_ROWS_MAX or is_multivector(column):
        return rows
    return int(dataset.count_rows(filter=f"{column.path} IS NOT NULL"))


def _explain_few(
    train: Any, parameter: str, *arguments: Any
) -> pa.FixedSizeListArray:  # a native function, untyped
    try:
        return train(*arguments)
    except RuntimeError as error:
        match = _TOO_FEW.search(str(error))
        if match is None:
            raise
        needed, there = (int(number) for number in match.groups() if number is not None)
        problem = f"The column has {there} vectors that are neither NULL nor NaN, and training needs {needed}"
        remedy = (
            f"Lower {parameter}, add rows, or use a kind without a codebook." if there else "Add rows first."
        )
        raise InvalidRequestError(problem, remedy) from error
