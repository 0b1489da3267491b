"""A segment built from the options read out of another says the same of itself, and its vectors lie in the same cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lancewright as lw
from lancewright.kinds.lance_native.inheritance import read_options
from lancewright.kinds.registry import find_kind
from lancewright.table.location import table_ref
from lancewright.table.segment_reader import SegmentReader
from support.tables import write_table

if TYPE_CHECKING:
    from pathlib import Path

    from lancewright.model.index import Segment

CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "btree": ("number", "btree", {"zone_size": 64}),
    "btree range": ("number", "btree", {"layout": "range", "page_rows": 128, "ranges": 3}),
    "bitmap": ("category", "bitmap", {}),
    "label_list": ("tags", "label_list", {}),
    "ngram": ("text", "ngram", {}),
    "zonemap": ("at", "zonemap", {"rows_per_zone": 128}),
    "bloomfilter": ("amount", "bloomfilter", {"number_of_items": 100, "probability": 0.01}),
    "rtree": ("shape", "rtree", {"page_size": 32}),
    "fm": ("text", "fm", {}),
    "inverted": ("text", "inverted", {}),
    "inverted words": (
        "text",
        "inverted",
        {"stem": False, "with_position": True, "max_token_length": None, "custom_stop_words": ["alpha"]},
    ),
    "inverted ngram": ("text", "inverted", {"base_tokenizer": "ngram", "min_ngram_length": 2}),
    "inverted code": ("text", "inverted", {"analyzer": "code", "split_identifiers": True}),
    "inverted blocks": ("text", "inverted", {"block_size": 256, "format_version": 3}),
    "minhash": ("text", "minhash_lsh", {"num_hashes": 64, "num_bands": 8}),
    "minhash words": (
        "text",
        "minhash_lsh",
        {"shingle_size": 2, "tokenizer": {"stem": True, "lower_case": False}},
    ),
    "json": ("document", "json", {"path": "a", "target_index_parameters": {"zone_size": 50}}),
    "json text": ("document", "json", {"path": "word", "target_index_type": "bitmap"}),
    "json zones": (
        "document",
        "json",
        {"path": "a", "target_index_type": "zonemap", "target_index_parameters": {"rows_per_zone": 77}},
    ),
    "json bloom": (
        "document",
        "json",
        {"path": "a", "target_index_type": "bloomfilter", "target_index_parameters": {"number_of_items": 99}},
    ),
    "json ngram": ("document", "json", {"path": "word", "target_index_type": "ngram"}),
    "flat": ("vector", "ivf_flat", {"num_partitions": 4, "metric": "cosine"}),
    "pq": ("vector", "ivf_pq", {"num_partitions": 4, "num_sub_vectors": 8, "num_bits": 4, "sample_rate": 20}),
    "sq": ("vector", "ivf_sq", {"num_partitions": 4, "metric": "dot"}),
    "rq": ("vector", "ivf_rq", {"num_partitions": 4, "num_bits": 3}),
    "hnsw flat": ("vector", "ivf_hnsw_flat", {"num_partitions": 2, "m": 10, "ef_construction": 40}),
    "hnsw pq": (
        "vector",
        "ivf_hnsw_pq",
        {"num_partitions": 2, "m": 10, "num_sub_vectors": 8, "num_bits": 4, "sample_rate": 20},
    ),
    "hnsw sq": ("vector", "ivf_hnsw_sq", {"num_partitions": 2, "max_level": 5}),
}
# What differs between any two segments: the rows, their number, and where they lie.
OWN = {
    "num_items",
    "num_pages",
    "bbox",
    "page_num_per_range_partition",
    "lance:flat",
    "lance:hnsw",
    "minhash_lsh_num_docs",
}


@pytest.mark.parametrize("case", CASES)
def test_a_segment_built_with_inherited_options_is_like_the_first(tmp_path: Path, case: str) -> None:
    column, kind, parameters = CASES[case]
    uri = write_table(str(tmp_path / "table"), fragments=2).uri
    table = lw.open(uri, progress=False)
    table.create_index(column, kind=kind, name="first", segments=1 if kind != "json" else None, **parameters)
    first = table.snapshot().segments_named("first")[0]

    options = read_options(find_kind(kind), first, SegmentReader(table_ref(uri), first))
    table.create_index(column, kind=kind, name="second", segments=1 if kind != "json" else None, **options)

    second = table.snapshot().segments_named("second")[0]
    assert without_hints(second) == without_hints(first)
    assert said_of(uri, second) == said_of(uri, first)
    if find_kind(kind).family == "vector":
        assert model_of(uri, second) == model_of(uri, first)


def without_hints(segment: Segment) -> tuple[object, ...]:
    """What an entry says of its options; how a model was trained is no option of the next segment."""
    details = b"" if "Vector" in (segment.type_url or "") else segment.details
    return segment.type_url, segment.index_version, details


def said_of(uri: str, segment: Segment) -> dict[str, dict[str, str]]:
    if segment.type_url and segment.type_url.endswith("FMIndexDetails"):
        return {}
    files = SegmentReader(table_ref(uri), segment)
    return {
        name: {key: value for key, value in files.read_metadata(name).items() if key not in OWN}
        for name in files.names
        if not name.startswith("part_")
    }


def model_of(uri: str, segment: Segment) -> bytes:
    files = SegmentReader(table_ref(uri), segment)
    book = files.read_metadata("auxiliary.idx")
    codes = files.read_buffer("auxiliary.idx", 1) if "lance:pq" in book else b""
    return files.read_buffer("index.idx", int(files.read_metadata("index.idx")["lance:ivf"])) + codes
