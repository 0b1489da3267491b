"""Reads which kind a vector segment is out of its manifest details. Pure.

The type URL is the same for all of them; the presence of four fields of ``lance.index.pb.VectorIndexDetails`` tells.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

_METRIC: Final = 1
# As the manifest numbers them; an unset number is 0, as protobuf has it.
_METRICS: Final = ("l2", "cosine", "dot", "hamming")
_GRAPH: Final = 3
_CODES: Final = {4: "pq", 5: "sq", 6: "rq", 8: "flat"}


def vector_kind(details: bytes) -> str:
    """``ivf_pq`` and the like, or ``vector`` when the details do not say (Lance before 1.0 wrote none)."""
    numbers = field_numbers(details)
    codes = next((name for number, name in _CODES.items() if number in numbers), None)
    if codes is None:
        return "vector"
    return f"ivf_hnsw_{codes}" if _GRAPH in numbers else f"ivf_{codes}"


def vector_metric(details: bytes) -> str | None:
    """``l2`` and the like, or None when the details do not say."""
    if vector_kind(details) == "vector":
        return None
    fields = UnknownFieldSet(Empty.FromString(details))
    number = next((field.data for field in fields if field.field_number == _METRIC), 0)
    return _METRICS[number] if number in range(len(_METRICS)) else None


def field_numbers(message: bytes) -> frozenset[int]:
    """The field numbers a protobuf message carries at its top level; empty when it is not a protobuf message."""
    try:
        # Parsed as a message without fields, so that every field is an unknown one and is listed.
        return frozenset(field.field_number for field in UnknownFieldSet(Empty.FromString(message)))
    except DecodeError:
        return frozenset()
