"""Parameters that are accepted really take effect: seen in the files or in the manifest entry of what was built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pytest
from lance.file import LanceFileReader

from lancewright.kinds.lance_native.definition import Parameter
from lancewright.kinds.lance_native.parameters import validate_parameters
from lancewright.kinds.lance_native.segments import build_segment
from lancewright.kinds.lance_native.training import train_model
from lancewright.kinds.lance_native.vector_model import take_model
from lancewright.kinds.registry import find_kind
from support.tables import rows
from unit.kinds.laboratory import DIMENSION, column_of

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 600


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> lance.LanceDataset:
    return lance.write_dataset(
        rows(COUNT), str(tmp_path_factory.mktemp("effects") / "t"), max_rows_per_file=COUNT // 2
    )


def build(dataset: lance.LanceDataset, kind_name: str, column_path: str, /, **given: Any) -> Any:
    kind, column = find_kind(kind_name), column_of(dataset, column_path)
    plain = validate_parameters(kind, column, given)
    model = None
    if kind.family == "vector":
        plain, parts = take_model(plain)
        model = train_model(dataset, kind, column, plain, parts)
    return build_segment(dataset, kind, column, plain, [0, 1], "ix", model=model)


def file_metadata(dataset: lance.LanceDataset, index: Any, name: str) -> tuple[int, dict[str, str]]:
    metadata = LanceFileReader(f"{dataset.uri}/_indices/{index.uuid}/{name}").metadata()
    texts = {
        key.decode(): value.decode(errors="replace")
        for key, value in (metadata.schema.metadata or {}).items()
    }
    return metadata.num_rows, texts


@pytest.mark.parametrize("name", ["zone_size", "page_rows"])
def test_zone_size_or_page_rows_is_the_number_of_rows_in_a_page(
    dataset: lance.LanceDataset, name: str
) -> None:
    index = build(dataset, "btree", "number", **{name: 100})

    pages, metadata = file_metadata(dataset, index, "page_lookup.lance")

    assert (pages, metadata["batch_size"]) == (COUNT // 100, "100")


def test_rows_per_zone_is_the_number_of_rows_in_a_zone(dataset: lance.LanceDataset) -> None:
    index = build(dataset, "zonemap", "number", rows_per_zone=50)

    zones, metadata = file_metadata(dataset, index, "zonemap.lance")

    assert (zones, metadata["rows_per_zone"]) == (COUNT // 50, "50")
    assert index.index_details[1].startswith(b"\x08\x32")  # field 1: 50


def test_a_bloom_filter_has_the_size_asked_for(dataset: lance.LanceDataset) -> None:
    index = build(dataset, "bloomfilter", "number", number_of_items=100, probability=0.1)

    filters, metadata = file_metadata(dataset, index, "bloomfilter.lance")

    assert filters == COUNT // 100
    assert (metadata["bloomfilter_item"], metadata["bloomfilter_probability"]) == ("100", "0.1")


def test_page_size_bounds_the_nodes_of_a_tree(dataset: lance.LanceDataset) -> None:
    index = build(dataset, "rtree", "shape", page_size=10)

    _, metadata = file_metadata(dataset, index, "page_data.lance")

    assert metadata["page_size"] == "10"
    assert int(metadata["num_pages"]) >= COUNT // 11


def test_parameters_of_a_json_target_reach_it(dataset: lance.LanceDataset) -> None:
    index = build(dataset, "json", "document", path="a", target_index_parameters={"zone_size": 100})

    pages, metadata = file_metadata(dataset, index, "page_lookup.lance")

    assert (pages, metadata["batch_size"]) == (COUNT // 100, "100")


def test_a_signature_is_recorded_as_asked_for(dataset: lance.LanceDataset) -> None:
    given = {
        "num_hashes": 32,
        "num_bands": 8,
        "shingle_size": 2,
        "tokenizer": {"base_tokenizer": "whitespace"},
    }

    details = build(dataset, "minhash_lsh", "text", **given).index_details[1]

    assert details.startswith(b"\x08\x20\x10\x08\x18\x02")
    assert b"whitespace" in details


RECORDED = {
    "base_tokenizer": "whitespace", "language": "German", "with_position": True, "max_token_length": 5,
    "lower_case": False, "stem": False, "remove_stop_words": False, "ascii_folding": False, "block_size": 256,
    "format_version": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDED)
def test_a_text_parameter_changes_the_entry_of_the_index(dataset: lance.LanceDataset, name: str) -> None:
    plain = build(dataset, "inverted", "text")
    asked = build(dataset, "inverted", "text", **{name: RECORDED[name]})

    assert asked.index_details[1] != plain.index_details[1]


@pytest.mark.parametrize(
    "given",
    [
        {"analyzer": "code", "split_identifiers": True},
        {"analyzer": "code", "split_on_numerics": False},
        {"analyzer": "code", "preserve_original": False},
        {"analyzer": "code", "index_operators": True},
        {"base_tokenizer": "ngram", "min_ngram_length": 2},
        {"base_tokenizer": "ngram", "max_ngram_length": 5},
        {"base_tokenizer": "ngram", "prefix_only": True},
    ],
    ids=str,
)
def test_a_tokenizer_flag_changes_the_entry_of_the_index(
    dataset: lance.LanceDataset, given: dict[str, Any]
) -> None:
    preset = {name: value for name, value in given.items() if name in {"analyzer", "base_tokenizer"}}

    assert (
        build(dataset, "inverted", "text", **given).index_details[1]
        != (build(dataset, "inverted", "text", **preset).index_details[1])
    )


def test_one_document_per_list_element_is_recorded(dataset: lance.LanceDataset) -> None:
    rows_ = build(dataset, "inverted", "tags")
    elements = build(dataset, "inverted", "tags", document_granularity="list_element")

    assert (rows_.index_version, elements.index_version) == (2, 3)


def test_own_stop_words_are_left_out_of_the_index(tmp_path: Path) -> None:
    own = lance.write_dataset(rows(COUNT), str(tmp_path / "t"))
    kind, column = find_kind("inverted"), column_of(own, "text")
    index = build_segment(own, kind, column, {"custom_stop_words": ["alpha"]}, [0], "ix")

    committed = own.commit_existing_index_segments("ix", "text", [index])

    assert committed.scanner(full_text_query="alpha").to_table().num_rows == 0
    assert committed.scanner(full_text_query="beta").to_table().num_rows > 0


@pytest.mark.parametrize(("name", "value"), [("m", 7), ("ef_construction", 77), ("max_level", 3)])
def test_a_graph_is_built_as_asked_for(dataset: lance.LanceDataset, name: str, value: int) -> None:
    index = build(dataset, "ivf_hnsw_flat", "vector", **{name: value})

    _, metadata = file_metadata(dataset, index, "index.idx")

    assert f'\\"{name}\\":{value}' in metadata["lance:hnsw"]


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("ivf_pq", {"num_bits": 4, "num_sub_vectors": 8}, b'"\x04\x08\x04\x10\x08'),
        ("ivf_pq", {"num_sub_vectors": 4}, b'"\x04\x08\x08\x10\x04'),
        ("ivf_rq", {"num_bits": 3}, b"2\x02\x08\x03"),
        ("ivf_rq", {}, b"2\x02\x08\x05"),
        ("ivf_flat", {"metric": "cosine"}, b"\x08\x01"),
        ("ivf_flat", {"target_partition_size": 200}, b"\x10\xc8\x01"),
        ("ivf_flat", {"sample_rate": 99}, b"lance.ivf.sample_rate\x12\x0299"),
        ("ivf_flat", {"max_iters": 7}, b"lance.ivf.max_iters\x12\x017"),
        ("ivf_flat", {"shuffle_partition_concurrency": 3}, b"shuffle_partition_concurrency\x12\x013"),
    ],
    ids=str,
)
def test_a_vector_parameter_is_recorded(
    dataset: lance.LanceDataset, kind: str, given: dict[str, Any], expected: bytes
) -> None:
    assert expected in build(dataset, kind, "vector", **given).index_details[1]


@pytest.mark.parametrize("given", [{"num_partitions": 6}, {"target_partition_size": 100}], ids=str)
def test_the_number_of_cells_is_the_one_asked_for(dataset: lance.LanceDataset, given: dict[str, Any]) -> None:
    index = build(dataset, "ivf_flat", "vector", **given)

    _, metadata = file_metadata(dataset, index, "index.idx")

    assert metadata["lance:flat"].count('""') == 6


def test_every_parameter_of_a_scalar_or_text_kind_is_shown_to_take_effect() -> None:
    only_for_the_build = {"memory_limit", "num_workers", "lance_tokenizer"}
    shown = {
        "zone_size", "page_rows", "rows_per_zone", "number_of_items", "probability", "page_size", "path", "target_index_type",
        "target_index_parameters", "target_data_type", "num_hashes", "num_bands", "shingle_size", "tokenizer",
        *RECORDED, "analyzer", "split_identifiers", "split_on_numerics", "preserve_original", "index_operators",
        "min_ngram_length", "max_ngram_length", "prefix_only", "document_granularity", "custom_stop_words",
    }  # fmt: skip
    kinds = [
        find_kind(name)
        for name in ("btree", "zonemap", "bloomfilter", "rtree", "json", "minhash_lsh", "inverted")
    ]

    known = {
        parameter.name for kind in kinds for parameter in kind.parameters if isinstance(parameter, Parameter)
    }

    # tests/unit/btree, tests/behaviour/test_btree_layouts.py and tests/properties/test_range_btree.py show these
    sorted_layout = {"layout", "ranges", "rows_per_range", "task_memory_mib", "defer_remap", "keep_ranges"}
    assert known == shown | only_for_the_build | sorted_layout
    assert DIMENSION == 16
