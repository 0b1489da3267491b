"""Estimates are rough, but never nonsense: positive, and more rows never need less."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewright.build.sizes import estimate_bytes_per_row, estimate_task_memory
from lancewright.kinds.registry import list_kinds

PLAIN_TYPES = [
    pa.bool_(), pa.int8(), pa.int64(), pa.uint8(), pa.float16(), pa.float64(), pa.string(), pa.large_string(),
    pa.string_view(), pa.binary(), pa.binary(16), pa.date32(), pa.timestamp("us"), pa.time64("ns"),
    pa.duration("s"), pa.decimal128(20, 2), pa.decimal256(40), pa.null(), pa.json_(), pa.uuid(),
]  # fmt: skip
TYPES = st.recursive(
    st.sampled_from(PLAIN_TYPES),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(pa.large_list),
        st.builds(pa.list_, inner, st.integers(1, 2048)),
        inner.map(lambda type_: pa.struct({"x": type_})),
        st.sampled_from([pa.string(), pa.int32()]).map(lambda type_: pa.dictionary(pa.int32(), type_)),
    ),
    max_leaves=3,
)
KINDS = st.sampled_from([kind.name for kind in list_kinds()])
ROWS = st.integers(0, 10**10)


@given(KINDS, TYPES)
def test_a_row_of_any_type_takes_some_bytes_in_any_kind(kind: str, type_: pa.DataType) -> None:
    size = estimate_bytes_per_row(kind, type_)

    assert isinstance(size, int)
    assert size >= 1


@given(KINDS, TYPES, ROWS)
def test_a_task_needs_memory_even_without_rows(kind: str, type_: pa.DataType, rows: int) -> None:
    assert estimate_task_memory(kind, type_, rows, {}) > 0


@given(KINDS, TYPES, ROWS, ROWS)
def test_more_rows_never_need_less_memory(kind: str, type_: pa.DataType, one: int, other: int) -> None:
    fewer, more = sorted([one, other])

    assert estimate_task_memory(kind, type_, fewer, {}) <= estimate_task_memory(kind, type_, more, {})


@given(KINDS.filter(lambda kind: kind.startswith("ivf")), st.integers(1, 500), ROWS)
def test_a_longer_vector_never_takes_less(kind: str, dimension: int, rows: int) -> None:
    short, long = (pa.list_(pa.float32(), width) for width in (dimension, dimension * 2))

    assert estimate_bytes_per_row(kind, short) <= estimate_bytes_per_row(kind, long)
    assert estimate_task_memory(kind, short, rows, {}) <= estimate_task_memory(kind, long, rows, {})


@given(st.sampled_from(["btree", "bitmap", "label_list", "zonemap"]), ROWS)
def test_a_sort_spills_instead_of_growing(kind: str, rows: int) -> None:
    assert estimate_task_memory(kind, pa.string(), rows, {}) < 1 << 30


VECTOR = pa.list_(pa.float32(), 32)
# Peak of one process that builds one segment, in MiB, and the segment's size in MB: pylance 14.0.2, texts of 55 letters.
MEASURED = [
    ("btree", pa.int64(), 1, 248, 8.3),
    ("btree", pa.string(), 1, 261, 5.1),
    ("btree", pa.string(), 4, 373, 21.3),
    ("zonemap", pa.int64(), 1, 217, 0.0),
    ("bitmap", pa.string(), 1, 234, 0.5),
    ("label_list", pa.list_(pa.string()), 1, 265, 0.7),
    ("bloomfilter", pa.string(), 1, 226, 4.2),
    ("inverted", pa.string(), 1, 287, 17.6),
    ("ngram", pa.string(), 1, 355, 38.4),
    ("ngram", pa.string(), 4, 576, 152.1),
    ("fm", pa.string(), 1, 260, 85.4),
    ("minhash_lsh", pa.string(), 1, 365, 451.0),
    ("ivf_flat", VECTOR, 1, 666, 130.8),
    ("ivf_flat", VECTOR, 4, 1018, 524.1),
    ("ivf_pq", VECTOR, 1, 448, 18.5),
    ("ivf_sq", VECTOR, 1, 478, 34.5),
    ("ivf_rq", VECTOR, 1, 458, 58.4),
    ("ivf_hnsw_sq", VECTOR, 1, 1085, 246.0),
    ("ivf_hnsw_flat", VECTOR, 1, 882, 341.2),
]


@pytest.mark.parametrize(("kind", "type_", "millions", "peak_mib", "size_mb"), MEASURED)
def test_an_estimate_is_not_below_what_was_measured_and_not_far_above(
    kind: str, type_: pa.DataType, millions: int, peak_mib: int, size_mb: float
) -> None:
    rows = millions * 1_000_000

    memory_mib = estimate_task_memory(kind, type_, rows, {}) / (1 << 20)
    estimated_mb = rows * estimate_bytes_per_row(kind, type_) / 1e6

    assert peak_mib <= memory_mib <= 2 * peak_mib
    # How long texts are and how often values repeat is not known: the type is all there is to go by.
    assert 0.8 * size_mb <= estimated_mb


@pytest.mark.parametrize(("limit_mib", "bytes_"), [(512, 512 << 20), (8192, 8192 << 20)])
def test_a_text_index_takes_the_memory_it_is_given(limit_mib: int, bytes_: int) -> None:
    needed = estimate_task_memory("inverted", pa.string(), 10**9, {"memory_limit": limit_mib})

    assert bytes_ <= needed < bytes_ + (1 << 30)


@pytest.mark.parametrize(
    ("smaller", "larger"), [("ivf_pq", "ivf_sq"), ("ivf_sq", "ivf_flat"), ("ivf_rq", "ivf_flat")]
)
def test_quantized_vectors_take_less_than_whole_ones(smaller: str, larger: str) -> None:
    vectors = pa.list_(pa.float32(), 768)

    assert estimate_bytes_per_row(smaller, vectors) < estimate_bytes_per_row(larger, vectors)
