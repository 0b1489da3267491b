"""The model that all segments of a vector index share: written, read, completed, honoured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.lance import indices as native

from lancewright.errors import CorruptIndexError, InvalidRequestError, UnsupportedError
from lancewright.kinds.lance_native.parameters import validate_parameters
from lancewright.kinds.lance_native.segments import build_segment, merge_segments
from lancewright.kinds.lance_native.training import choose_num_partitions, train_model
from lancewright.kinds.lance_native.vector_model import VectorModel, check_model, take_model
from lancewright.kinds.registry import find_kind
from unit.kinds.laboratory import column_of, commit

if TYPE_CHECKING:
    from pathlib import Path

WIDTH = 16
ROWS = 1200


def vectors(values: np.ndarray) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).ravel()), values.shape[-1])


def random_vectors(count: int = ROWS, type_: str = "f4") -> np.ndarray:
    centers = np.random.default_rng(1).normal(size=(8, WIDTH)) * 5
    random = np.random.default_rng(2)
    return (centers[random.integers(0, 8, count)] + random.normal(size=(count, WIDTH))).astype(type_)


def write(folder: Path, values: pa.Array, name: str = "value") -> lance.LanceDataset:
    table = pa.table({"id": range(len(values)), name: values})
    return lance.write_dataset(table, str(folder / "t"), max_rows_per_file=max(len(values) // 4, 1))


def train(
    dataset: lance.LanceDataset, kind_name: str, given: VectorModel | None = None, **parameters: Any
) -> VectorModel:
    kind, column = find_kind(kind_name), column_of(dataset)
    plain, parts = take_model(validate_parameters(kind, column, parameters))
    return train_model(dataset, kind, column, plain, given or parts)


def index(
    dataset: lance.LanceDataset, kind_name: str, *, merged: bool = False, **parameters: Any
) -> lance.LanceDataset:
    kind, column = find_kind(kind_name), column_of(dataset)
    plain, parts = take_model(validate_parameters(kind, column, parameters))
    model = VectorModel.from_bytes(train_model(dataset, kind, column, plain, parts).to_bytes())
    groups = [[0, 1, 2, 3]] if kind.single_segment else [[0, 1], [2, 3]]
    segments = [build_segment(dataset, kind, column, plain, group, "ix", model=model) for group in groups]
    return commit(dataset, [merge_segments(dataset, segments)] if merged else segments)


def recall(dataset: lance.LanceDataset, queries: np.ndarray, metric: str = "l2") -> float:
    k = 10
    found = 0
    for query in queries:
        nearest = {"column": "value", "q": query, "k": k, "metric": metric}
        exact = dataset.to_table(columns=["id"], nearest={**nearest, "use_index": False})["id"].to_pylist()
        got = dataset.to_table(columns=["id"], nearest={**nearest, "nprobes": 2, "ef": 100})["id"].to_pylist()
        found += len(set(exact) & set(got))
    return found / (k * len(queries))


@pytest.mark.parametrize("type_", ["f2", "f4", "f8"])
def test_a_model_survives_its_file_bit_by_bit(type_: str) -> None:
    values = random_vectors(8, type_)
    model = VectorModel(
        metric="cosine",
        centroids=vectors(values),
        codebook=vectors(values * 2),
        rabitq=native.build_rq_model(WIDTH, 5),
    )

    again = VectorModel.from_bytes(model.to_bytes())

    assert again == model
    assert again.centroids is not None
    assert again.centroids.type == vectors(values).type


def test_a_model_of_binary_vectors_or_without_parts_survives_its_file_too() -> None:
    binary = VectorModel(metric="hamming", centroids=vectors(np.arange(32, dtype="u1").reshape(2, 16)))
    empty = VectorModel(metric="l2")

    assert VectorModel.from_bytes(binary.to_bytes()) == binary
    assert VectorModel.from_bytes(empty.to_bytes()) == empty


def test_a_damaged_model_file_is_an_error_that_says_to_train_again() -> None:
    data = VectorModel(metric="l2", centroids=vectors(random_vectors(8))).to_bytes()

    for damaged in (b"", b"pickle", data[:100], data[: len(data) // 2], data.replace(b"l2", b"??")):
        with pytest.raises(CorruptIndexError, match="cannot be read"):
            VectorModel.from_bytes(damaged)


def test_a_model_with_nan_is_never_made() -> None:
    values = random_vectors(8)
    values[3, 3] = np.nan

    with pytest.raises(InvalidRequestError, match="NaN"):
        VectorModel(metric="l2", centroids=vectors(values))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (VectorModel(metric="dot"), "trained for the metric 'dot'"),
        (VectorModel(metric="l2", centroids=vectors(np.zeros((4, 8), "f4"))), "8 wide and the column 16"),
        (
            VectorModel(metric="l2", centroids=vectors(np.zeros((3, 16), "f4"))),
            "has 3 partitions, asked for are 4",
        ),
        (VectorModel(metric="l2", rabitq=native.build_rq_model(24, 5)), "for 24 dimensions"),
        (VectorModel(metric="l2", rabitq=native.build_rq_model(16, 1)), "and 1 bits"),
    ],
)
def test_a_model_of_another_column_or_request_is_an_error(
    tmp_path: Path, model: VectorModel, message: str
) -> None:
    column = column_of(write(tmp_path, vectors(random_vectors(8))))

    with pytest.raises(InvalidRequestError, match=message):
        check_model(model, column, {"metric": "l2", "num_partitions": 4, "num_bits": 5})


def test_parts_passed_in_are_kept_exactly_and_only_the_rest_is_trained(tmp_path: Path) -> None:
    dataset = write(tmp_path, vectors(random_vectors()))
    centroids = random_vectors(5, "f8")

    model = train(dataset, "ivf_pq", ivf_centroids=centroids, num_bits=4, num_sub_vectors=4)

    assert model.centroids == vectors(centroids)
    assert model.codebook is not None
    assert len(model.codebook) == 16
    assert train(dataset, "ivf_pq", given=model, num_bits=4, num_sub_vectors=4) == model


@pytest.mark.parametrize("type_", ["f2", "f4", "f8"])
@pytest.mark.parametrize("column_type", ["f2", "f4", "f8"])
def test_a_model_of_another_float_width_than_the_column_is_honoured(
    tmp_path: Path, column_type: str, type_: str
) -> None:
    values = random_vectors(type_=column_type)
    codebook = np.random.default_rng(3).normal(size=(8, 16, 2)).astype(type_)
    parameters = {"num_bits": 4, "num_sub_vectors": 8, "ivf_centroids": random_vectors(3).astype(type_)}

    trained = index(write(tmp_path / "1", vectors(values)), "ivf_pq", **parameters)
    given = index(write(tmp_path / "2", vectors(values)), "ivf_pq", **parameters, pq_codebook=codebook)

    assert recall(trained, values[:3]) > 0.3
    assert recall(given, values[:3]) > 0


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("ivf_flat", {"centroids"}),
        ("ivf_sq", {"centroids"}),
        ("ivf_hnsw_sq", {"centroids"}),
        ("ivf_pq", {"centroids", "codebook"}),
        ("ivf_hnsw_pq", {"centroids", "codebook"}),
        ("ivf_rq", {"centroids", "rabitq"}),
    ],
)
def test_each_kind_gets_the_parts_it_needs_and_no_more(tmp_path: Path, kind: str, parts: set[str]) -> None:
    model = train(write(tmp_path, vectors(random_vectors())), kind)

    assert {part for part in ("centroids", "codebook", "rabitq") if getattr(model, part) is not None} == parts


@pytest.mark.parametrize(
    ("kind", "rows", "size", "expected"),
    [
        ("ivf_flat", 20_000, None, 4), ("ivf_rq", 20_000, None, 4), ("ivf_pq", 20_000, None, 2),
        ("ivf_sq", 20_000, None, 2), ("ivf_hnsw_pq", 20_000, None, 1), ("ivf_flat", 20_000, 1000, 20),
        ("ivf_flat", 1, None, 1), ("ivf_flat", 10**9, None, 4096),
    ],
)  # fmt: skip
def test_the_number_of_partitions_follows_lances_own_choice(
    kind: str, rows: int, size: int | None, expected: int
) -> None:
    assert choose_num_partitions(find_kind(kind), rows, size) == expected


@pytest.mark.parametrize("kind", ["ivf_flat", "ivf_rq", "ivf_hnsw_sq"])
def test_a_handful_of_vectors_is_enough(tmp_path: Path, kind: str) -> None:
    dataset = write(tmp_path, vectors(random_vectors(8)))

    assert train(dataset, kind).num_partitions == 1
    assert (
        index(dataset, kind)
        .to_table(nearest={"column": "value", "q": np.zeros(WIDTH, "f4"), "k": 5})
        .num_rows
        == 5
    )


def test_too_few_vectors_for_a_codebook_is_an_error_with_both_numbers(tmp_path: Path) -> None:
    dataset = write(tmp_path, vectors(random_vectors(200)))

    with pytest.raises(InvalidRequestError, match=r"has 200 vectors .* needs 256") as caught:
        train(dataset, "ivf_pq")

    assert "num_bits" in caught.value.remedy


def test_more_partitions_than_vectors_is_an_error_with_both_numbers(tmp_path: Path) -> None:
    dataset = write(tmp_path, vectors(random_vectors(200)))

    with pytest.raises(InvalidRequestError, match=r"has 200 vectors .* needs 300") as caught:
        train(dataset, "ivf_flat", num_partitions=300)

    assert "num_partitions" in caught.value.remedy


def test_null_and_nan_vectors_are_left_out_of_training(tmp_path: Path) -> None:
    values = random_vectors()
    values[::3] = np.nan
    mask = pa.array([row % 2 == 0 for row in range(ROWS)])
    holed = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), WIDTH, mask=mask)

    model = train(write(tmp_path, holed), "ivf_pq", num_partitions=4, num_bits=4, num_sub_vectors=4)

    assert model.num_partitions == 4


@pytest.mark.parametrize("hole", ["null", "nan"])
def test_a_column_without_a_single_vector_is_an_error_that_says_so(tmp_path: Path, hole: str) -> None:
    values = np.full((40, WIDTH), np.nan, "f4")
    mask = pa.array([hole == "null"] * 40)
    dataset = write(tmp_path, pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), WIDTH, mask=mask))

    with pytest.raises((UnsupportedError, InvalidRequestError), match=r"no vector|has 0 vectors"):
        train(dataset, "ivf_flat")


def test_a_build_without_a_model_is_refused(tmp_path: Path) -> None:
    dataset = write(tmp_path, vectors(random_vectors(40)))
    kind, column = find_kind("ivf_flat"), column_of(dataset)

    with pytest.raises(InvalidRequestError, match="needs a trained model"):
        build_segment(dataset, kind, column, {"metric": "l2"}, [0], "ix")


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("type_", ["f2", "f4", "f8"])
def test_flat_segments_that_share_a_model_find_what_a_scan_finds(
    tmp_path: Path, type_: str, metric: str
) -> None:
    values = random_vectors(type_=type_)

    indexed = index(
        write(tmp_path, vectors(values)), "ivf_flat", metric=metric, num_partitions=2, merged=True
    )

    assert recall(indexed, values[:5], metric) == 1.0


def test_binary_vectors_are_trained_and_found_by_hamming_distance(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 256, (400, WIDTH)).astype("u1")

    indexed = index(write(tmp_path, vectors(values)), "ivf_flat", num_partitions=2)

    assert recall(indexed, values[:5], "hamming") >= 0.9  # equal distances may be ordered either way


def test_several_vectors_per_row_are_indexed_by_cosine_distance(tmp_path: Path) -> None:
    values = random_vectors()
    several = pa.ListArray.from_arrays(pa.array(np.arange(0, ROWS + 1, 3), pa.int32()), vectors(values))

    indexed = index(write(tmp_path, several), "ivf_flat", num_partitions=2)

    nearest = {"column": "value", "q": values[30:31], "k": 1, "nprobes": 2}
    assert indexed.to_table(columns=["id"], nearest=nearest)["id"].to_pylist() == [10]


RECALL = [
    ("ivf_flat", {}), ("ivf_pq", {"num_sub_vectors": 8}), ("ivf_sq", {}), ("ivf_rq", {}), ("ivf_hnsw_flat", {}),
    ("ivf_hnsw_pq", {"num_sub_vectors": 8}), ("ivf_hnsw_sq", {}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "parameters"), RECALL)
def test_recall_equals_that_of_a_build_in_one_process(
    tmp_path: Path, kind: str, parameters: dict[str, Any]
) -> None:
    values = random_vectors()
    queries = values[::60]
    dataset = write(tmp_path, vectors(values))
    model = train(dataset, kind, num_partitions=2, **parameters)
    shared = {"ivf_centroids": model.centroids}
    shared |= {} if model.codebook is None else {"pq_codebook": model.codebook}
    shared |= {} if model.rabitq is None else {"rabitq_model": model.rabitq}
    mergeable = find_kind(kind).mergeable

    ours = recall(index(dataset, kind, merged=mergeable, **parameters, **shared), queries)
    alone = write(tmp_path / "alone", vectors(values))
    native_index = alone.create_index_uncommitted(
        "value",
        find_kind(kind).lance_name,
        name="ix",
        num_partitions=2,
        fragment_ids=[0, 1, 2, 3],
        **parameters,
        **shared,
    )

    assert ours >= recall(commit(alone, [native_index]), queries) - 0.01
