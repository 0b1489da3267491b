"""The kind of a vector segment is in its details; damaged ones name none."""

from __future__ import annotations

import pytest

from lancewright.model.compatibility import kind_of_segment
from lancewright.model.vector_details import field_numbers, vector_kind, vector_metric
from support.values import segment

VECTOR = "/lance.index.pb.VectorIndexDetails"


@pytest.mark.parametrize(
    ("details", "kind"),
    [
        (b'"\x04\x08\x08\x10\x04', "ivf_pq"),
        (b"\x1a\x02\x08\x14*\x02\x08\x08", "ivf_hnsw_sq"),
        (b"\x08\x01B\x00", "ivf_flat"),
        (b"", "vector"),
    ],
)
def test_the_kind_of_a_vector_segment_is_read_from_its_details(details: bytes, kind: str) -> None:
    assert kind_of_segment(segment({0}, type_url=VECTOR, details=details)) == kind


@pytest.mark.parametrize("details", [b"\xff", b'"\x09\x08', b"\x08", b"J\xff\xff\xff\xff\xff"])
def test_damaged_details_name_no_kind(details: bytes) -> None:
    assert vector_kind(details) == "vector"


def test_fields_of_every_wire_type_are_read() -> None:
    assert field_numbers(b"\x08\x96\x01\x11" + bytes(8) + b"\x1a\x01x%" + bytes(4)) == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("details", "metric"),
    [
        (b"B\x00", "l2"),
        (b"\x08\x01B\x00", "cosine"),
        (b'\x08\x02"\x04\x08\x08\x10\x04', "dot"),
        (b"\x08\x03B\x00", "hamming"),
        (b"\x08\x09B\x00", None),
        (b"", None),
        (b"\xff", None),
    ],
)
def test_the_metric_is_read_where_the_kind_is_and_an_unset_number_is_l2(
    details: bytes, metric: str | None
) -> None:
    """Details that name no kind are from before Lance wrote any, and silence about the metric means nothing there."""
    assert vector_metric(details) == metric
