"""A merge leaves fewer segments that answer the same, and keeps off those that Lance would merge wrongly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pytest

import lancewright as lw
from lancewright.build.rounds import BuildOptions
from lancewright.kinds.btree.empty_ranges import count_parts
from lancewright.maintain.merge import merge_indexes, plan_merge
from lancewright.maintain.merge_plan import MergeRules
from lancewright.observe.sinks import MemorySink
from lancewright.runtime.local_runner import LocalRunner
from lancewright.table.lance_compat import segment_to_lance
from lancewright.table.location import table_ref
from lancewright.table.snapshot_reader import read_snapshot
from support.busy_table import (
    CASES,
    append,
    busy_table,
    delete,
    rewrite_column,
    update_rows,
    wrong_answers,
    wrong_index_answers,
)
from support.runners import BusyRunner

if TYPE_CHECKING:
    from pathlib import Path

    from lancewright.maintain.merge import MergeReceipt

NO_WAIT = BuildOptions(sleep=lambda _seconds: None, poll_s=0.05)
ONE = MergeRules(segments=1)
BOTH_MODES = pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
MERGED = sorted(set(CASES) - {"ivf_sq"})


def segments_of(uri: str) -> tuple[frozenset[int], ...]:
    return tuple(
        frozenset(segment.covered) for segment in read_snapshot(table_ref(uri)).segments_named("ours")
    )


def create(uri: str, kind: str, segments: int | None = 4, **more: object) -> None:
    case = CASES[kind]
    lw.open(uri, progress=False).create_index(
        case.column, kind=kind, name="ours", segments=segments, **{**case.parameters, **more}
    )


def merge(uri: str, runner: LocalRunner | None = None, rules: MergeRules = ONE) -> MergeReceipt:
    receipt = merge_indexes(table_ref(uri), runner or LocalRunner(), MemorySink(), NO_WAIT, ["ours"], rules)
    assert receipt.indexes[0].problem is None
    return receipt


@pytest.mark.parametrize("kind", MERGED)
@BOTH_MODES
def test_merged_segments_answer_as_those_they_were_made_of(tmp_path: Path, kind: str, stable: bool) -> None:
    uri = busy_table(str(tmp_path / "table"), stable_row_ids=stable).uri
    create(uri, kind)
    delete(uri)

    merge(uri)

    assert segments_of(uri) == (frozenset(range(8)),)
    assert wrong_answers(uri, CASES[kind]) == []
    assert wrong_index_answers(uri, CASES[kind], range(8)) == []


@pytest.mark.parametrize("kind", ["bitmap", "bloomfilter", "btree", "label_list", "ngram", "zonemap"])
def test_segments_that_wait_for_a_deferred_compaction_are_merged_and_have_caught_up(
    tmp_path: Path, kind: str
) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, kind)
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=350, defer_index_remap=True)

    merge(uri)

    assert len(segments_of(uri)) == 1
    assert wrong_answers(uri, CASES[kind]) == []


@pytest.mark.parametrize("kind", ["inverted", "ivf_flat", "ivf_pq"])
def test_segments_that_a_merge_would_not_translate_are_left_alone(tmp_path: Path, kind: str) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, kind)
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=350, defer_index_remap=True)
    before = segments_of(uri)

    receipt = merge(uri)

    assert segments_of(uri) == before
    assert "deferred compaction" in receipt.indexes[0].refused[0]


def test_segments_of_a_scalar_quantizer_are_never_merged(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, "ivf_sq", segments=None)
    append(uri)
    lance.dataset(uri).optimize.optimize_indices(index_names=["ours"], num_indices_to_merge=0)
    assert len(segments_of(uri)) == 2

    receipt = merge(uri)

    assert len(segments_of(uri)) == 2
    assert "recall" in receipt.indexes[0].refused[0]


def test_new_codes_are_merged_with_each_other_and_not_with_codes_merged_before(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, "ivf_pq", segments=1)
    for start in (10_000, 20_000, 30_000):
        append(uri, start)
        lw.open(uri, progress=False).refresh("ours")

    receipt = merge(uri)

    assert "merged before" in receipt.indexes[0].refused[0]
    assert segments_of(uri) == (frozenset(range(8)), frozenset({8, 9, 10}))
    assert wrong_answers(uri, CASES["ivf_pq"]) == []


def test_vectors_of_other_models_are_not_merged(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    dataset = lance.dataset(uri)
    own = [
        dataset.create_index_uncommitted(
            "vector", "IVF_FLAT", name="ours", metric="L2", num_partitions=2, replace=True, fragment_ids=ids
        )
        for ids in ([0, 1, 2, 3], [4, 5, 6, 7])
    ]
    dataset.commit_existing_index_segments("ours", "vector", own)

    receipt = merge(uri)

    assert receipt.rounds == 0
    assert len(segments_of(uri)) == 2


@pytest.mark.parametrize("kind", ["bitmap", "label_list", "inverted"])
def test_old_values_that_an_update_left_are_not_merged_into_new_ones(tmp_path: Path, kind: str) -> None:
    uri = busy_table(str(tmp_path / "table"), stable_row_ids=True).uri
    create(uri, kind)
    update_rows(uri, 150, 420)

    receipt = merge(uri)

    assert receipt.indexes[0].segments_after > 1
    lw.open(uri, progress=False).refresh("ours")
    assert wrong_answers(uri, CASES[kind]) == []
    merge(uri)
    assert wrong_answers(uri, CASES[kind]) == []


@pytest.mark.parametrize("kind", ["btree", "ivf_flat", "inverted", "zonemap"])
@BOTH_MODES
def test_old_values_of_a_column_rewritten_in_place_are_not_merged_into_new_ones(
    tmp_path: Path, kind: str, stable: bool
) -> None:
    uri = busy_table(str(tmp_path / "table"), stable_row_ids=stable).uri
    create(uri, kind)
    rewrite_column(uri, CASES[kind].column, 2)
    lw.open(uri, progress=False).refresh("ours")

    merge(uri)

    assert wrong_answers(uri, CASES[kind]) == []
    assert wrong_index_answers(uri, CASES[kind], range(8)) == []


@pytest.mark.parametrize("kind", ["bitmap", "btree", "inverted", "label_list", "zonemap"])
@BOTH_MODES
@pytest.mark.parametrize("merged_by", ["us", "lance"])
def test_a_merged_segment_over_later_fragments_is_not_taken_for_one_that_is_older_than_they(
    tmp_path: Path, kind: str, stable: bool, merged_by: str
) -> None:
    uri = busy_table(str(tmp_path / "table"), stable_row_ids=stable).uri
    create(uri, kind, segments=1)
    table = lw.open(uri, progress=False)
    for start in (10_000, 20_000):
        append(uri, start)
        table.refresh("ours")
    if merged_by == "us":
        merge(uri)
    else:
        dataset = lance.dataset(uri)
        sources = [segment_to_lance(one) for one in read_snapshot(table_ref(uri)).segments_named("ours")]
        dataset.commit_existing_index_segments(
            "ours", CASES[kind].column, [dataset.merge_existing_index_segments(sources)]
        )
    assert segments_of(uri) == (frozenset(range(10)),)

    rewrite_column(uri, CASES[kind].column, 8)
    table.refresh("ours")

    assert wrong_answers(uri, CASES[kind]) == []
    assert wrong_index_answers(uri, CASES[kind], range(10)) == []


def test_ranges_and_rows_as_they_lie_are_merged_into_ranges(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, "btree", segments=None, layout="range", ranges=3)
    append(uri)
    lw.open(uri, progress=False).refresh("ours")
    delete(uri)

    merge(uri)

    assert segments_of(uri) == (frozenset(range(9)),)
    (segment,) = read_snapshot(table_ref(uri)).segments_named("ours")
    assert count_parts(segment) > 0
    assert wrong_answers(uri, CASES["btree"]) == []
    assert wrong_index_answers(uri, CASES["btree"], range(9)) == []


def test_a_merge_and_a_refresh_at_once_lose_nothing(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, "btree")
    append(uri)

    merge(
        uri,
        BusyRunner([lambda: lw.open(uri, progress=False).refresh("ours")], stage="merge_index_segments"),
    )

    covered = frozenset[int]().union(*segments_of(uri))
    assert covered == frozenset(range(9))
    assert sorted(map(len, segments_of(uri))) == [1, 8]
    assert wrong_answers(uri, CASES["btree"]) == []


def test_a_merge_of_what_another_merged_meanwhile_leaves_theirs(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, "btree")

    merge(uri, BusyRunner([lambda: merge(uri)], stage="merge_index_segments"))

    assert segments_of(uri) == (frozenset(range(8)),)
    assert wrong_answers(uri, CASES["btree"]) == []


def test_an_index_dropped_while_it_is_merged_stays_dropped(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, "btree")

    merge(uri, BusyRunner([lambda: lance.dataset(uri).drop_index("ours")], stage="merge_index_segments"))

    assert segments_of(uri) == ()


def test_without_a_number_segments_are_merged_only_when_there_are_enough_of_a_size(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    create(uri, "btree", segments=3)

    assert not plan_merge(table_ref(uri), ["ours"]).indexes[0].is_due
    append(uri)
    lw.open(uri, progress=False).refresh("ours")
    assert plan_merge(table_ref(uri), ["ours"]).indexes[0].segments_after == 1
