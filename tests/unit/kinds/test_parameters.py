"""Parameters are checked here or nowhere: Lance ignores unknown ones and, of some kinds, mistyped ones."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lancewright.errors import InvalidRequestError, UnsupportedError
from lancewright.kinds.lance_native.parameters import check_stable_row_ids, validate_parameters
from lancewright.kinds.lance_native.vector_model import take_model
from lancewright.kinds.registry import find_kind, list_kinds
from lancewright.model.columns import Column

VECTOR = pa.list_(pa.float32(), 16)
TYPES = {
    "btree": pa.int64(), "bitmap": pa.int64(), "zonemap": pa.int64(), "bloomfilter": pa.int64(),
    "label_list": pa.list_(pa.string()), "ngram": pa.string(), "fm": pa.string(), "inverted": pa.string(),
    "minhash_lsh": pa.string(), "json": pa.json_(), "rtree": pa.binary(),
}  # fmt: skip
REQUIRED = {"json": {"path": "a"}}


def column(type_: pa.DataType, **metadata: str) -> Column:
    extension = tuple(("ARROW:extension:name", name) for name in metadata.values())
    return Column(names=("c",), field_id=0, leaf_ids=(0,), type=type_, metadata=extension)


def check(kind: str, type_: pa.DataType | None = None, **given: Any) -> dict[str, Any]:
    arrow_type = type_ or TYPES.get(kind, VECTOR)
    metadata = {"extension": "geoarrow.wkb"} if kind == "rtree" else {}
    return validate_parameters(
        find_kind(kind), column(arrow_type, **metadata), {**REQUIRED.get(kind, {}), **given}
    )


@pytest.mark.parametrize("kind", [kind.name for kind in list_kinds()])
def test_no_parameters_are_valid_for_every_kind_and_those_filled_in_are_json(kind: str) -> None:
    parameters = check(kind)

    assert json.loads(json.dumps(parameters)) == parameters
    assert check(kind, **parameters) == parameters


@pytest.mark.parametrize("kind", [kind.name for kind in list_kinds()])
def test_an_unknown_parameter_is_an_error_that_lists_the_known_ones(kind: str) -> None:
    with pytest.raises(InvalidRequestError, match="has no parameter 'bogus'") as caught:
        check(kind, bogus=1)

    assert all(parameter.name in caught.value.remedy for parameter in find_kind(kind).parameters)


def test_a_misspelt_parameter_is_an_error_that_suggests_the_right_one() -> None:
    with pytest.raises(InvalidRequestError, match="Did you mean 'zone_size'"):
        check("btree", zonesize=10)


WRONG = [
    ("btree", {"zone_size": "7"}, "must be int"),
    ("btree", {"zone_size": True}, "must be int"),
    ("btree", {"zone_size": 7.0}, "must be int"),
    ("btree", {"zone_size": 0}, "at least 1"),
    ("zonemap", {"rows_per_zone": 0}, "at least 1"),
    ("bloomfilter", {"probability": 1.0}, "cannot be 1.0"),
    ("bloomfilter", {"probability": float("nan")}, "cannot be nan"),
    ("bloomfilter", {"probability": 0}, "cannot be 0"),
    ("bloomfilter", {"number_of_items": 0}, "at least 1"),
    ("rtree", {"page_size": 1}, "at least 2"),
    ("inverted", {"stem": "yes"}, "must be bool"),
    ("inverted", {"stem": 1}, "must be bool"),
    ("inverted", {"language": "Klingon"}, "Choose one of: Arabic"),
    ("inverted", {"custom_stop_words": "the"}, "must be list of str"),
    ("inverted", {"custom_stop_words": ["the"], "remove_stop_words": False}, "no effect"),
    ("inverted", {"block_size": 64}, "128, 256"),
    ("inverted", {"block_size": 256, "format_version": 1}, "needs format_version=3"),
    ("inverted", {"format_version": 4}, "1, 2, 3"),
    ("inverted", {"base_tokenizer": "klingon"}, "is not one of simple"),
    ("inverted", {"base_tokenizer": "simple", "analyzer": "code"}, "go together"),
    ("inverted", {"split_identifiers": True}, "need analyzer='code'"),
    ("inverted", {"min_ngram_length": 2}, "need base_tokenizer='ngram'"),
    ("inverted", {"base_tokenizer": "ngram", "min_ngram_length": 5}, "larger than max_ngram_length"),
    ("inverted", {"document_granularity": "list_element"}, "needs a list column"),
    ("inverted", {"lance_tokenizer": "json"}, "needs a JSON column"),
    ("inverted", {"max_token_length": 0}, "at least 1"),
    ("inverted", {"memory_limit": 0}, "at least 1"),
    ("minhash_lsh", {"num_hashes": 30, "num_bands": 7}, "not a multiple"),
    ("minhash_lsh", {"num_hashes": 30}, "not a multiple of num_bands"),
    ("minhash_lsh", {"num_hashes": 4097}, "at most 4,096"),
    ("minhash_lsh", {"num_bands": 257}, "at most 256"),
    ("minhash_lsh", {"tokenizer": "simple"}, "must be a mapping"),
    ("minhash_lsh", {"tokenizer": {"with_position": True}}, "has no parameter 'with_position'"),
    ("minhash_lsh", {"tokenizer": {"stem": "yes"}}, "must be bool"),
    ("minhash_lsh", {"tokenizer": {"base_tokenizer": "jieba/default"}}, "cannot be recorded"),
    ("json", {"path": None}, "needs path"),
    ("json", {"path": "$.b.c"}, "not one key"),
    ("json", {"path": "b.c"}, "not one key"),
    ("json", {"target_index_type": "inverted"}, "Choose one of"),
    ("json", {"target_data_type": "Boolean"}, "Choose one of"),
    ("json", {"target_index_type": "ngram", "target_data_type": "Int64"}, "must be 'Utf8'"),
    ("json", {"target_index_parameters": {"rows_per_zone": 5}}, "'btree' has no parameter rows_per_zone"),
    ("json", {"target_index_parameters": {"zone_size": 0}}, "at least 1"),
    ("json", {"target_index_parameters": "{"}, "must be a mapping"),
    ("ivf_flat", {"metric": "manhattan"}, "Choose one of: l2"),
    ("ivf_flat", {"metric": "hamming"}, "needs a column of uint8"),
    ("ivf_flat", {"num_partitions": 0}, "at least 1"),
    ("ivf_flat", {"num_sub_vectors": 4}, "has no parameter 'num_sub_vectors'"),
    ("ivf_flat", {"filter_nan": False}, "has no parameter 'filter_nan'"),
    ("ivf_pq", {"num_sub_vectors": 3}, "not divisible by num_sub_vectors"),
    ("ivf_pq", {"num_bits": 6}, "Choose one of: 4, 8"),
    ("ivf_pq", {"num_bits": 4, "num_sub_vectors": 1}, "must be even"),
    ("ivf_pq", {"pq_codebook": np.zeros((1, 256, 16), "f4")}, "give ivf_centroids as well"),
    ("ivf_sq", {"num_bits": 8}, "has no parameter 'num_bits'"),
    ("ivf_rq", {"num_bits": 10}, "at most 9"),
    ("ivf_hnsw_flat", {"m": 3}, "at least 4"),
    ("ivf_hnsw_flat", {"m": 30, "ef_construction": 20}, "smaller than m"),
    ("ivf_hnsw_sq", {"ef_construction": 10}, r"smaller than m \(20\)"),
    ("ivf_flat", {"ivf_centroids": np.zeros((4, 8), "f4")}, "8 wide and the column 16"),
    ("ivf_flat", {"ivf_centroids": np.zeros((4, 16), "f4"), "num_partitions": 7}, "num_partitions is 7"),
    ("ivf_flat", {"ivf_centroids": np.full((4, 16), np.nan, "f4")}, "NaN"),
    ("ivf_flat", {"ivf_centroids": np.zeros(16, "f4")}, "2 dimensions"),
    ("ivf_flat", {"ivf_centroids": np.zeros((4, 16), "i4")}, "2 dimensions"),
    ("ivf_flat", {"ivf_centroids": [[0.0] * 16]}, "cannot be"),
]


@pytest.mark.parametrize(
    ("kind", "given", "message"), WRONG, ids=lambda value: None if callable(value) else str(value)[:40]
)
def test_a_wrong_parameter_is_one_error_that_says_what_is_wrong(
    kind: str, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        check(kind, **given)


@pytest.mark.parametrize("kind", [kind.name for kind in list_kinds()])
def test_a_number_that_no_machine_counts_to_is_refused(kind: str) -> None:
    counts = [entry for entry in find_kind(kind).parameters if entry.type == "int" and not entry.choices]

    for parameter in counts:
        with pytest.raises(InvalidRequestError, match=f"{kind}.{parameter.name} cannot be"):
            check(kind, **{parameter.name: 2**64})


def test_a_vector_width_that_a_kind_cannot_cut_is_an_error() -> None:
    with pytest.raises(InvalidRequestError, match="num_sub_vectors has no default"):
        check("ivf_pq", pa.list_(pa.float32(), 7))
    with pytest.raises(InvalidRequestError, match="not divisible by 8"):
        check("ivf_rq", pa.list_(pa.float32(), 12))


def test_values_are_normalised_to_what_lance_spells() -> None:
    assert check("inverted", language="german")["language"] == "German"
    assert check("ivf_flat", metric="L2")["metric"] == "l2"
    assert check("ivf_flat", metric="euclidean")["metric"] == "l2"
    assert check("btree", zone_size=np.int64(7)) == {"zone_size": 7}
    assert check("bloomfilter", probability=np.float32(0.5)) == {"probability": 0.5}
    assert check("json", target_index_parameters='{"zone_size": 7}')["target_index_parameters"] == {
        "zone_size": 7
    }


def test_none_means_not_given_except_where_it_has_a_meaning() -> None:
    assert check("btree", zone_size=None) == {}
    assert check("inverted", max_token_length=None)["max_token_length"] is None


def test_what_must_not_drift_between_builds_is_filled_in() -> None:
    assert check("ivf_pq") == {"metric": "l2", "num_bits": 8, "num_sub_vectors": 1}
    assert check("ivf_rq") == {"metric": "l2", "num_bits": 5}
    assert check("ivf_flat", pa.list_(pa.uint8(), 16)) == {"metric": "hamming"}
    assert check("ivf_flat", pa.list_(VECTOR)) == {"metric": "cosine"}
    assert check("json") == {"path": "a", "target_index_type": "btree"}


@pytest.mark.parametrize("type_", [np.float16, np.float32, np.float64])
def test_a_model_given_as_arrays_is_kept_apart_from_the_json_parameters(type_: Any) -> None:
    centroids = np.arange(64, dtype=type_).reshape(4, 16)
    codebook = np.zeros((2, 16, 8), type_)

    parameters = check("ivf_pq", num_sub_vectors=2, num_bits=4, ivf_centroids=centroids, pq_codebook=codebook)
    plain, model = take_model(parameters)

    assert plain == {"metric": "l2", "num_sub_vectors": 2, "num_bits": 4, "num_partitions": 4}
    assert model is not None
    assert model.centroids is not None
    assert np.stack(model.centroids.to_numpy(zero_copy_only=False)).dtype == type_
    assert model.centroids.to_pylist() == centroids.tolist()


def test_a_codebook_of_another_shape_is_an_error_that_names_the_right_one() -> None:
    centroids = np.zeros((4, 16), "f4")

    with pytest.raises(InvalidRequestError, match="Shape it 2 x 256 x 8"):
        check("ivf_pq", num_sub_vectors=2, ivf_centroids=centroids, pq_codebook=np.zeros((2, 16, 8), "f4"))
    with pytest.raises(InvalidRequestError, match="first side is num_sub_vectors: 2"):
        check("ivf_pq", num_sub_vectors=2, ivf_centroids=centroids, pq_codebook=np.zeros((4, 128, 8), "f4"))


@pytest.mark.parametrize("target", ["btree", "zonemap", "bloomfilter", "fm"])
def test_json_targets_that_lose_rows_on_stable_row_ids_are_refused_there(target: str) -> None:
    with pytest.raises(
        UnsupportedError, match=f"target '{target}' does not work on a table with stable row ids"
    ):
        check_stable_row_ids(find_kind("json"), check("json", target_index_type=target))


def test_other_kinds_and_targets_work_on_stable_row_ids() -> None:
    check_stable_row_ids(find_kind("btree"), {})
    check_stable_row_ids(find_kind("json"), check("json", target_index_type="bitmap"))
