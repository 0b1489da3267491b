"""The kinds that answer nearest neighbour searches. Data only; models are ``vector_model``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewright.kinds.lance_native.column_types import (
    accepts_flat_vectors,
    accepts_vectors,
    is_multivector,
    vector_type,
)
from lancewright.kinds.lance_native.definition import NativeKind, Parameter, Trimming

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lancewright.model.columns import Column

METRICS = ("l2", "cosine", "dot", "hamming")
TYPE_URL = "/lance.index.pb.VectorIndexDetails"
PQ_BITS = 8  # Lance's default
RQ_BITS = 5  # what a build takes by default; `build_rq_model` alone would take 1 and the build then refuses the model

_TRAINING = (
    Parameter(name="metric", type="str", choices=METRICS, doc="Distance (l2; hamming for uint8, cosine for several"
                                                              " vectors per row)."),
    Parameter(name="num_partitions", type="int", low=1, high=2**31 - 1, doc="Cells of the inverted file."),
    Parameter(name="target_partition_size", type="int", low=1,
              doc="Vectors per cell, when num_partitions is not given (4096 for flat and rq, 8192 for pq and sq,"
                  " 1048576 for hnsw)."),
    Parameter(name="sample_rate", type="int", low=2, doc="Training vectors per cell and per code (256)."),
    Parameter(name="max_iters", type="int", low=1, doc="Most rounds of k-means (50)."),
    Parameter(name="ivf_centroids", type="array", doc="Centroids to use instead of training: cells x dimension."),
    Parameter(name="shuffle_partition_concurrency", type="int", low=1, doc="Shuffle steps at once (2)."),
)  # fmt: skip
_PQ = (
    Parameter(name="num_sub_vectors", type="int", low=1, doc="Codes per vector (dimension / 16, or / 8)."),
    Parameter(name="num_bits", type="int", choices=(4, 8), default=PQ_BITS, doc="Bits per code."),
    Parameter(
        name="pq_codebook", type="array", doc="A codebook to use: codes x 2**num_bits x (dimension / codes)."
    ),
)
_RQ = (
    Parameter(name="num_bits", type="int", low=1, high=9, default=RQ_BITS, doc="Bits per dimension."),
    Parameter(
        name="rabitq_model",
        type="str",
        doc="A rotation to use, as lance.lance.indices.build_rq_model writes.",
    ),
)
_HNSW = (
    Parameter(name="m", type="int", low=4, doc="Edges per node (20)."),
    Parameter(
        name="ef_construction", type="int", low=4, doc="Candidates looked at for each edge; at least m (150)."
    ),
    Parameter(name="max_level", type="int", low=1, high=65535, doc="Levels of the graph (7)."),
)


def dimension(column: Column) -> int:
    """Width of the column's vectors; the column must be one that a vector kind accepts."""
    type_ = vector_type(column)
    assert type_ is not None, "the kind accepted the column"  # noqa: S101 - a promise of the caller, not a user's input
    return int(type_.list_size)


def default_metric(column: Column) -> str:
    """L2, unless the column leaves only one distance."""
    if is_multivector(column):
        return "cosine"
    type_ = vector_type(column)
    return "hamming" if type_ is not None and pa.types.is_uint8(type_.value_type) else "l2"


def default_sub_vectors(width: int) -> int | None:
    """As Lance chooses: 16 dimensions per code, or 8; None when neither divides the width."""
    return next((width // size for size in (16, 8) if width % size == 0), None)


def _combine_metric(column: Column, parameters: Mapping[str, Any]) -> str | None:
    metric = parameters["metric"]
    only = default_metric(column)
    if only not in {"l2", metric}:
        return f"{column.path} is {column.type}: only the metric {only!r} is defined for it"
    if metric == "hamming" and only != "hamming":
        return f"metric 'hamming' needs a column of uint8 vectors, {column.path} is {column.type}"
    return None


def _combine_pq(column: Column, parameters: Mapping[str, Any]) -> str | None:
    width, codes = dimension(column), parameters.get("num_sub_vectors")
    if codes is None:
        return f"the dimension {width} is divisible by neither 16 nor 8, so num_sub_vectors has no default"
    if width % codes:
        return f"the dimension {width} is not divisible by num_sub_vectors ({codes})"
    if parameters["num_bits"] == 4 and codes % 2:
        return f"num_bits=4 packs two codes into a byte, so num_sub_vectors must be even, not {codes}"
    if "pq_codebook" in parameters and "ivf_centroids" not in parameters:
        return "pq_codebook was trained on the residuals of centroids: give ivf_centroids as well"
    return _combine_metric(column, parameters)


def has_dot_metric(parameters: Mapping[str, Any]) -> bool:
    """True for the metric under which Lance codes whole vectors, and codes a part of a table wrongly.

    Over a part of the fragments it takes for each sub-vector the code with the largest product instead of the nearest one: recall
    fell from 0.96 to 0.35. Over all of them it does right.
    """
    return bool(parameters.get("metric") == "dot")


def _combine_rq(column: Column, parameters: Mapping[str, Any]) -> str | None:
    width = dimension(column)
    return (
        f"the dimension {width} is not divisible by 8" if width % 8 else _combine_metric(column, parameters)
    )


def _combine_hnsw(parameters: Mapping[str, Any]) -> str | None:
    edges, candidates = parameters.get("m", 20), parameters.get("ef_construction", 150)
    return f"ef_construction ({candidates}) is smaller than m ({edges})" if candidates < edges else None


def _combine_hnsw_flat(column: Column, parameters: Mapping[str, Any]) -> str | None:
    return _combine_hnsw(parameters) or _combine_metric(column, parameters)


def _combine_hnsw_pq(column: Column, parameters: Mapping[str, Any]) -> str | None:
    return _combine_hnsw(parameters) or _combine_pq(column, parameters)


# Without stable row ids, vectors of fragments that are gone still take places among the best k when the entry does not
# claim them, and are dropped only then: a search for 40 found 26. While it claims them, they are left out before.
_ON_ADDRESSES = Trimming(alive=True, gone=False)
_ON_STABLE_ROW_IDS = Trimming(alive=True, gone=True)

IVF_FLAT = NativeKind(
    name="ivf_flat", lance_name="IVF_FLAT", family="vector", type_url=TYPE_URL, trimming_on_addresses=_ON_ADDRESSES, trimming_on_stable_row_ids=_ON_STABLE_ROW_IDS, cleaned_by_merge=False, index_version_max=1,
    parameters=_TRAINING, accepts=accepts_flat_vectors, combine=_combine_metric, doc="Whole vectors in cells.",
)  # fmt: skip
IVF_PQ = NativeKind(
    name="ivf_pq", lance_name="IVF_PQ", family="vector", type_url=TYPE_URL, trimming_on_addresses=_ON_ADDRESSES, trimming_on_stable_row_ids=_ON_STABLE_ROW_IDS, cleaned_by_merge=False, index_version_max=1,
    parameters=(*_TRAINING, *_PQ), accepts=accepts_vectors, combine=_combine_pq, whole_table_if=has_dot_metric, doc="Product quantization in cells.",
)  # fmt: skip
# Merging SQ segments keeps the first one's bounds for all and drops recall from 0.94 to 0.56; hence one segment.
IVF_SQ = NativeKind(
    name="ivf_sq", lance_name="IVF_SQ", family="vector", type_url=TYPE_URL, trimming_on_addresses=_ON_ADDRESSES, trimming_on_stable_row_ids=_ON_STABLE_ROW_IDS, cleaned_by_merge=False, index_version_max=1, mergeable=False,
    single_segment=True, parameters=_TRAINING, accepts=accepts_vectors, combine=_combine_metric,
    doc="One byte per dimension, in cells.",
)  # fmt: skip
IVF_RQ = NativeKind(
    name="ivf_rq", lance_name="IVF_RQ", family="vector", type_url=TYPE_URL, trimming_on_addresses=_ON_ADDRESSES, trimming_on_stable_row_ids=_ON_STABLE_ROW_IDS, cleaned_by_merge=False, index_version_max=2,
    parameters=(*_TRAINING, *_RQ), accepts=accepts_vectors, combine=_combine_rq, doc="RaBitQ codes in cells.",
)  # fmt: skip
IVF_HNSW_FLAT = NativeKind(
    name="ivf_hnsw_flat", follows_deferred_compaction=False, lance_name="IVF_HNSW_FLAT", family="vector", type_url=TYPE_URL, trimming_on_addresses=_ON_ADDRESSES, trimming_on_stable_row_ids=_ON_STABLE_ROW_IDS, cleaned_by_merge=False, index_version_max=1,
    parameters=(*_TRAINING, *_HNSW), accepts=accepts_flat_vectors, combine=_combine_hnsw_flat,
    doc="A graph over whole vectors per cell.",
)  # fmt: skip
IVF_HNSW_PQ = NativeKind(
    name="ivf_hnsw_pq", follows_deferred_compaction=False, lance_name="IVF_HNSW_PQ", family="vector", type_url=TYPE_URL, trimming_on_addresses=_ON_ADDRESSES, trimming_on_stable_row_ids=_ON_STABLE_ROW_IDS, cleaned_by_merge=False, index_version_max=1,
    parameters=(*_TRAINING, *_PQ, *_HNSW), accepts=accepts_vectors, combine=_combine_hnsw_pq, whole_table_if=has_dot_metric,
    doc="A graph over product quantized vectors per cell.",
)  # fmt: skip
IVF_HNSW_SQ = NativeKind(
    name="ivf_hnsw_sq", follows_deferred_compaction=False, lance_name="IVF_HNSW_SQ", family="vector", type_url=TYPE_URL, trimming_on_addresses=_ON_ADDRESSES, trimming_on_stable_row_ids=_ON_STABLE_ROW_IDS, cleaned_by_merge=False, index_version_max=1,
    mergeable=False, single_segment=True, parameters=(*_TRAINING, *_HNSW), accepts=accepts_vectors,
    combine=_combine_hnsw_flat, doc="A graph over one byte per dimension per cell.",
)  # fmt: skip
KINDS = (IVF_FLAT, IVF_PQ, IVF_SQ, IVF_RQ, IVF_HNSW_FLAT, IVF_HNSW_PQ, IVF_HNSW_SQ)
