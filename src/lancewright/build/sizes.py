"""Estimates for a dry run: bytes an index takes and memory a task needs. Rough on purpose, and said so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROW_ADDRESS_BYTES = 8
_TEXT_BYTES = 32
_LIST_ITEMS = 4
# DataFusion's sort pool in each Lance process; what does not fit spills to disk.
_SORT_POOL_BYTES = 150 << 20
# The figures from here on are peaks of single processes, measured with pylance 14.0.2 on 1 and 4 million rows; the tests
# hold the estimates against them.
_PROCESS_BYTES = 300 << 20
_VECTOR_BUFFERS_BYTES = 250 << 20
_TEXT_WORKER_BYTES = 2 << 30
# Bytes per row, of the columns these kinds are for: bitmap and label_list take more where most values are different.
_SMALL_KINDS = {"zonemap": 1, "bloomfilter": 5, "bitmap": 2, "label_list": 2}
_SIGNATURE_BYTES = 512
_GRAPH_BYTES = 208
_GRAPH_BUILD_BYTES = 448
_RQ_FACTORS_BYTES = 32
_COPIES_WHILE_SORTING = 3
# Sorted rows, their addresses and the copy being written, of one key range.
SORT_MEMORY_MIB = 512


def estimate_bytes_per_row(kind: str, column_type: pa.DataType) -> int:
    """Bytes one row takes in an index of this kind, at least one."""
    if kind in _SMALL_KINDS:
        return _SMALL_KINDS[kind]
    width = estimate_value_bytes(column_type)
    if kind == "minhash_lsh":
        width = _SIGNATURE_BYTES
    elif kind == "fm":
        width *= 3
    elif kind == "ivf_pq" or kind.endswith("hnsw_pq"):
        width = max(1, width // 16)
    elif kind in {"ivf_sq", "ivf_hnsw_sq"}:
        width = max(1, width // 4)
    elif kind == "ivf_rq":
        width = width // 6 + _RQ_FACTORS_BYTES
    return width + _ROW_ADDRESS_BYTES + (_GRAPH_BYTES if kind.startswith("ivf_hnsw") else 0)


def estimate_task_memory(
    kind: str, column_type: pa.DataType, rows: int, parameters: Mapping[str, Any]
) -> int:
    """Memory a task over this many rows needs, at most: sorts spill, graphs and vectors stay in memory."""
    data = rows * estimate_bytes_per_row(kind, column_type)
    if parameters.get("layout") == "range":
        return _PROCESS_BYTES + (int(parameters.get("task_memory_mib", SORT_MEMORY_MIB)) << 20)
    if kind == "inverted":
        limit_mib = parameters.get("memory_limit")
        return _PROCESS_BYTES + (int(limit_mib) << 20 if limit_mib else min(_TEXT_WORKER_BYTES, data * 4))
    if kind.startswith("ivf"):
        graph = _GRAPH_BUILD_BYTES if kind.startswith("ivf_hnsw") else 0
        # The vectors themselves pass through memory, however few bytes are kept of them.
        return _PROCESS_BYTES + _VECTOR_BUFFERS_BYTES + rows * (estimate_value_bytes(column_type) + graph)
    if kind == "ngram":
        return _PROCESS_BYTES + data * 2
    return _PROCESS_BYTES + min(_SORT_POOL_BYTES, data * 2)


def estimate_plugin_memory(rows: int, bytes_per_row: int) -> int:
    """Memory of a task of a kind that keeps the rows of a segment in memory while it sorts them, as ours do."""
    return _PROCESS_BYTES + _COPIES_WHILE_SORTING * rows * bytes_per_row


def estimate_value_bytes(column_type: pa.DataType) -> int:
    """Bytes one value takes, a guess where the type does not say."""
    if pa.types.is_dictionary(column_type):
        return estimate_value_bytes(column_type.value_type)
    if pa.types.is_fixed_size_list(column_type):
        return int(column_type.list_size) * estimate_value_bytes(column_type.value_type)
    if pa.types.is_list(column_type) or pa.types.is_large_list(column_type):
        return _LIST_ITEMS * estimate_value_bytes(column_type.value_type)
    try:
        return max(1, int(column_type.bit_width) // 8)
    except ValueError:  # strings and binary have no width
        return _TEXT_BYTES
