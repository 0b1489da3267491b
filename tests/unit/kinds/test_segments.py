"""What building and merging segments promises, for every kind."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lancewright.errors import InvalidRequestError, UnsupportedError
from lancewright.kinds.lance_native.parameters import validate_parameters
from lancewright.kinds.lance_native.segments import build_segment, merge_segments
from lancewright.kinds.registry import find_kind
from lancewright.model.compatibility import kind_of_segment
from lancewright.table.lance_compat import segment_from_lance, segment_to_lance
from support.tables import rows
from unit.kinds.laboratory import (
    KINDS,
    SCALAR_KINDS,
    TEXT_KINDS,
    VECTOR_KINDS,
    cases,
    column_of,
    commit,
    make_table,
    plan_asks_index,
    predicates,
    set_up,
    wrong_answers,
)

EVERY_CASE = [(case, stable) for stable in (False, True) for case in cases(stable_row_ids=stable)]
MERGEABLE = [
    (case, stable)
    for case, stable in EVERY_CASE
    if find_kind(case.split(":")[0]).mergeable
]  # fmt: skip


@pytest.mark.parametrize(("case", "stable"), EVERY_CASE)
def test_two_segments_answer_like_a_scan_over_nulls_and_deleted_rows(
    tmp_path: Path, case: str, stable: bool
) -> None:
    dataset = make_table(tmp_path, KINDS[case][0], stable_row_ids=stable, fragments=8)
    bench = set_up(dataset, case)

    segments = [bench.build(dataset, [0, 1, 2]), bench.build(dataset, [3, 4, 5, 6, 7])]
    committed = dataset.commit_existing_index_segments("ix", "value", segments)

    assert wrong_answers(committed, case, bench, tmp_path) == []


@pytest.mark.parametrize(("case", "stable"), MERGEABLE)
def test_a_merged_segment_answers_like_a_scan(tmp_path: Path, case: str, stable: bool) -> None:
    dataset = make_table(tmp_path, KINDS[case][0], stable_row_ids=stable)
    bench = set_up(dataset, case)

    merged = merge_segments(dataset, [bench.build(dataset, [0, 1]), bench.build(dataset, [2, 3])])
    committed = commit(dataset, [merged])

    assert set(merged.fragment_ids) == {0, 1, 2, 3}
    assert wrong_answers(committed, case, bench, tmp_path) == []


@pytest.mark.parametrize("case", SCALAR_KINDS)
def test_the_plan_of_each_predicate_the_kind_answers_asks_the_index(tmp_path: Path, case: str) -> None:
    dataset = make_table(tmp_path, SCALAR_KINDS[case][0])
    bench = set_up(dataset, case)

    committed = commit(dataset, [bench.build(dataset, [0, 1]), bench.build(dataset, [2, 3])])

    # A zone map cannot exclude a zone for "not equal", so Lance scans.
    asked = [predicate for predicate in predicates(case) if not (case == "zonemap" and "!=" in predicate)]
    assert [predicate for predicate in asked if not plan_asks_index(committed, predicate)] == []


@pytest.mark.parametrize(("case", "stable"), [pair for pair in EVERY_CASE if pair[0] != "json:bitmap"])
def test_an_untrained_segment_covers_nothing_and_hides_no_row(
    tmp_path: Path, case: str, stable: bool
) -> None:
    dataset = make_table(tmp_path, KINDS[case][0], stable_row_ids=stable)
    bench = set_up(dataset, case)

    empty = build_segment(
        dataset, bench.kind, bench.column, bench.parameters, [0, 1, 2, 3], "ix", train=False
    )
    committed = commit(dataset, [empty])

    assert set(empty.fragment_ids) == set()
    if case != "minhash_lsh":  # a search of near duplicates needs an index: there is no scan to compare with
        assert wrong_answers(committed, case, bench, tmp_path) == []


def test_an_untrained_json_index_over_bitmaps_is_refused(tmp_path: Path) -> None:
    dataset = make_table(tmp_path, "json")
    bench = set_up(dataset, "json:bitmap")

    with pytest.raises(UnsupportedError, match="no empty JSON index"):
        build_segment(dataset, bench.kind, bench.column, bench.parameters, [], "ix", train=False)


@pytest.mark.parametrize("case", KINDS)
def test_a_built_segment_tells_its_kind_and_survives_conversion(tmp_path: Path, case: str) -> None:
    dataset = make_table(tmp_path, KINDS[case][0])
    bench = set_up(dataset, case)

    segment = segment_from_lance(bench.build(dataset, [0, 1]))

    assert kind_of_segment(segment) == bench.kind.name
    assert segment_from_lance(segment_to_lance(segment)) == segment


def test_a_text_segment_is_finished_on_the_worker_and_leaves_no_staging_file(tmp_path: Path) -> None:
    dataset = make_table(tmp_path, "text")
    bench = set_up(dataset, "inverted")

    index = bench.build(dataset, [0, 1])

    files = {path.name for path in Path(dataset.uri, "_indices").rglob("*.lance")}
    assert files == {file.path for file in index.files}
    assert not any(file.path.startswith("staging") for file in index.files)


def test_a_text_segment_on_a_branch_leaves_no_staging_file_either(tmp_path: Path) -> None:
    dataset = make_table(tmp_path, "text")
    dataset.create_branch("dev")
    branch = lance.dataset(dataset.uri).checkout_version(("dev", None))
    bench = set_up(dataset, "inverted")

    bench.build(branch, [0, 1])

    staged = [path for path in Path(dataset.uri).rglob("*.lance") if "staging" in path.parts]
    assert staged == []


@pytest.mark.parametrize("case", [name for name in VECTOR_KINDS if name.endswith("_sq")])
def test_segments_with_scalar_quantization_are_never_merged(tmp_path: Path, case: str) -> None:
    dataset = make_table(tmp_path, "vector")
    bench = set_up(dataset, case)
    segments = [bench.build(dataset, [0, 1]), bench.build(dataset, [2, 3])]

    with pytest.raises(UnsupportedError, match="without losing recall"):
        merge_segments(dataset, segments)


def test_json_segments_are_never_merged(tmp_path: Path) -> None:
    dataset = make_table(tmp_path, "json")
    bench = set_up(dataset, "json")

    with pytest.raises(UnsupportedError, match="does not merge JSON"):
        merge_segments(dataset, [bench.build(dataset, [0])])


def test_nothing_to_merge_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="no segments"):
        merge_segments(make_table(tmp_path, "number"), [])


def test_json_segments_agree_on_the_type_even_where_their_own_rows_suggest_another(tmp_path: Path) -> None:
    import pyarrow as pa

    documents = ['{"a": null}'] * 100 + ['{"a": 1.5}'] * 100 + ['{"a": 2}'] * 100
    table = pa.table({"id": range(300), "value": pa.array(documents, pa.json_())})
    dataset = lance.write_dataset(table, str(tmp_path / "t"), max_rows_per_file=100)
    column = column_of(dataset)
    kind = find_kind("json")
    parameters = validate_parameters(kind, column, {"path": "a"})

    segments = [build_segment(dataset, kind, column, parameters, [fragment], "ix") for fragment in range(3)]
    committed = commit(dataset, segments)

    assert committed.count_rows("json_get_float(value, 'a') >= 1.5") == 200


@pytest.mark.parametrize("target", ["btree", "bitmap", "zonemap", "bloomfilter"])
def test_the_type_of_a_json_key_that_no_row_has_must_be_named(tmp_path: Path, target: str) -> None:
    documents = pa.array([None, '{"b": 1}', '{"a": null}'] * 10, pa.json_())
    dataset = lance.write_dataset(pa.table({"value": documents}), str(tmp_path / "t"), max_rows_per_file=15)
    column, kind = column_of(dataset), find_kind("json")
    parameters = validate_parameters(kind, column, {"path": "a", "target_index_type": target})

    with pytest.raises(InvalidRequestError, match="target_data_type"):
        build_segment(dataset, kind, column, parameters, [0], "ix")

    segment = build_segment(dataset, kind, column, {**parameters, "target_data_type": "Int64"}, [0, 1], "ix")
    commit(dataset, [segment])
    lance.write_dataset(pa.table({"value": pa.array(['{"a": 5}'], pa.json_())}), dataset.uri, mode="append")
    for predicate in ("json_get_int(value, 'a') IN (5, 7)", "NOT (json_get_int(value, 'a') = 7)"):
        assert lance.dataset(dataset.uri).count_rows(predicate) == 1


def test_lances_refusal_arrives_as_an_error_of_ours_with_its_cause(tmp_path: Path) -> None:
    dataset = make_table(tmp_path, "number")
    bench = set_up(dataset, "btree")

    with pytest.raises(InvalidRequestError, match="could not build btree on value") as caught:
        bench.build(dataset, [99])

    assert caught.value.__cause__ is not None
    assert ".rs:" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "kind", "predicate"),
    [
        ("nested.x", "btree", "nested.x = 7"),
        ("nested.x", "bitmap", "nested.x = 7"),
        ("odd name-1", "btree", "`odd name-1` = 7"),
        ("odd name-1", "bitmap", "`odd name-1` = 7"),
    ],
)
def test_nested_columns_and_names_that_need_quoting_are_indexed(
    tmp_path: Path, path: str, kind: str, predicate: str
) -> None:
    dataset = lance.write_dataset(rows(400), str(tmp_path / "t"), max_rows_per_file=100)
    column = column_of(dataset, path)

    index = build_segment(dataset, find_kind(kind), column, {}, [0, 1, 2, 3], "ix")
    committed = dataset.commit_existing_index_segments("ix", column.path, [index])

    assert plan_asks_index(committed, predicate)
    assert (
        committed.count_rows(predicate)
        == committed.to_table(filter=predicate, use_scalar_index=False).num_rows
        > 0
    )


@pytest.mark.parametrize("query", ["alpha", "stale", "alpha beta"])
@pytest.mark.parametrize("merged", [False, True])
def test_scores_over_segments_equal_those_of_a_native_index(tmp_path: Path, merged: bool, query: str) -> None:
    dataset = make_table(tmp_path, "text")
    bench = set_up(dataset, "inverted")
    segments = [bench.build(dataset, [0]), bench.build(dataset, [1, 2, 3])]

    ours = commit(dataset, [merge_segments(dataset, segments)] if merged else segments)
    scores = {row["id"]: row["_score"] for row in search(ours, query)}
    ours.create_scalar_index("value", "INVERTED", name="ix", replace=True, **TEXT_KINDS["inverted"][1])
    native = {row["id"]: row["_score"] for row in search(lance.dataset(dataset.uri), query)}

    assert scores == pytest.approx(native)


def search(dataset: lance.LanceDataset, query: str) -> list[dict[str, float]]:
    return dataset.scanner(full_text_query=query, columns=["id", "_score"], limit=1000).to_table().to_pylist()
