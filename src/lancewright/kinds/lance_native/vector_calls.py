"""The native call that builds a segment of a vector kind from a shared model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lancewright.errors import InvalidRequestError, UnsupportedError
from lancewright.kinds.lance_native.vector_model import VectorModel, check_model, fit_to_column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance.dataset import Index

    from lancewright.kinds.lance_native.definition import NativeKind
    from lancewright.model.columns import Column

_BUILD_OPTIONS = (
    "num_sub_vectors", "num_bits", "m", "ef_construction", "max_level", "sample_rate", "max_iters",
    "target_partition_size", "shuffle_partition_concurrency",
)  # fmt: skip


def create_vector(  # noqa: PLR0913 - as segments.build_segment
    dataset: Any,  # a LanceDataset, untyped inside
    kind: NativeKind,
    column: Column,
    parameters: Mapping[str, Any],
    covered: list[int],
    name: str,
    *,
    model: VectorModel | None,
) -> Index:
    """Write the segment; ``covered`` empty makes one without files, which needs no model."""
    options = {option: parameters[option] for option in _BUILD_OPTIONS if parameters.get(option) is not None}
    if covered:
        _require_whole_table(dataset, kind, parameters, covered)
        options |= _model_options(kind, column, parameters, model)
    elif parameters.get("num_partitions"):
        options["num_partitions"] = parameters["num_partitions"]
    index: Index = dataset.create_index_uncommitted(
        column.path, kind.lance_name, name=name, metric=parameters["metric"], replace=True,
        fragment_ids=covered, train=bool(covered), **options,
    )  # fmt: skip
    return index


def _require_whole_table(
    dataset: Any, kind: NativeKind, parameters: Mapping[str, Any], covered: list[int]
) -> None:
    if kind.whole_table_if(parameters) and set(covered) != set(dataset.fragment_ids()):
        raise UnsupportedError(
            f"Lance codes {kind.name} for the metric {parameters['metric']!r} wrongly when it is given a part of the table",
            "Build it over all fragments as one segment, or use ivf_rq or ivf_flat.",
        )


def _model_options(
    kind: NativeKind, column: Column, parameters: Mapping[str, Any], model: VectorModel | None
) -> dict[str, Any]:
    if model is None or model.centroids is None:
        # Without them Lance trains a model per segment: segments that then neither merge nor agree on distances.
        problem = f"Building {kind.name} needs a trained model"
        raise InvalidRequestError(problem, "Call train_model once and pass its result to every build.")
    model = check_model(model, column, parameters)
    centroids = model.centroids
    options = {"num_partitions": model.num_partitions, "ivf_centroids": fit_to_column(centroids, column)}
    options |= {} if model.codebook is None else {"pq_codebook": fit_to_column(model.codebook, column)}
    return options if model.rabitq is None else options | {"rabitq_model": model.rabitq}
