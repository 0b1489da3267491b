"""A range-sorted BTree keeps answering rightly through everything that happens to a table, and a bad build leaves nothing."""

from __future__ import annotations

import dataclasses
import errno
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancewright as lw
from lancewright.build import range_spill
from lancewright.build.range_worker import gather_one
from lancewright.errors import InvalidRequestError, TasksFailedError
from lancewright.runtime.local_runner import LocalRunner
from support.build_program import start
from support.runners import UnusedRunner
from support.tables import DIMENSION, append_rows, ids, plan_uses_index, rows, write_table
from support.traces import scratch
from support.waiting import kill, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lancewright.runtime.exchange import ExchangeJob

RANGES = 4
DEFER = "lance.compaction.defer_index_remap"
MODES = pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
QUESTIONS = (
    "number = 123", "number < 40", "number <= 40", "number > 960", "number >= 960", "number != 5", "number = 77777",
    "number BETWEEN 240 AND 260", "number NOT BETWEEN 20 AND 980", "number IN (1, 250, 251, 999, 5555)",
    "number NOT IN (1, 2)", "number IS NULL", "number IS NOT NULL", "NOT (number < 900)", "number = 7 OR number IS NULL",
    "number > 500 AND id < 800", "NOT (number = 3 OR number > 100)", "number >= 0",
)  # fmt: skip


def build(uri: str, column: str = "number", **parameters: Any) -> lw.Receipt:
    chosen = {"ranges": RANGES, "page_rows": 32, **parameters}
    receipt = lw.open(uri, progress=False).create_index(
        column, kind="btree", layout="range", name="ours", **chosen
    )
    assert isinstance(receipt, lw.Receipt)
    return receipt


def wrong(uri: str, questions: tuple[str, ...] = QUESTIONS) -> list[str]:
    dataset = lance.dataset(uri)
    return [
        question
        for question in questions
        if ids(dataset, question, use_index=True) != ids(dataset, question, use_index=False)
    ]


def files(uri: str) -> set[str]:
    return {str(path.relative_to(uri)) for path in Path(uri).rglob("*") if path.is_file()}


def index_files(uri: str) -> set[str]:
    return {Path(name).name for name in files(uri) if name.startswith("_indices")}


def update_numbers(uri: str) -> None:
    lance.dataset(uri).update({"number": "number + 5"}, where="id % 7 = 2")


def update_others(uri: str) -> None:
    lance.dataset(uri).update({"category": "'changed'"}, where="id % 7 = 3")


def merge_rows(uri: str) -> None:
    fresh = rows(600, start=3_700, seed=9)
    merge = lance.dataset(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(fresh)


def delete_rows(uri: str) -> None:
    lance.dataset(uri).delete("id % 5 = 1 OR number BETWEEN 300 AND 320")


def append_and_optimize(uri: str, **options: Any) -> None:
    append_rows(uri)
    lance.dataset(uri).optimize.optimize_indices(**options)


def compact(uri: str) -> None:
    delete_rows(uri)
    lance.dataset(uri).optimize.compact_files()


def compact_deferred(uri: str) -> None:
    delete_rows(uri)
    dataset = lance.dataset(uri)
    # Lance refuses to defer on tables with stable row ids.
    dataset.optimize.compact_files(defer_index_remap=not dataset.has_stable_row_ids)


def prewarm(uri: str) -> None:
    lance.dataset(uri).prewarm_index("ours")


def clean_up(uri: str) -> None:
    lance.dataset(uri).cleanup_old_versions(older_than=timedelta(0))


ACTS: dict[str, Callable[[str], object]] = {
    "delete": delete_rows,
    "update the column": update_numbers,
    "update another column": update_others,
    "merge_insert": merge_rows,
    "append": append_rows,
    "optimize": append_and_optimize,
    "optimize into a delta": lambda uri: append_and_optimize(uri, num_indices_to_merge=0),
    "compact": compact,
    "compact deferred": compact_deferred,
    "prewarm": prewarm,
    "clean up": clean_up,
}


@MODES
@pytest.mark.parametrize("act", ACTS)
def test_answers_stay_right_after(tmp_path: Path, act: str, stable: bool) -> None:
    uri = str(tmp_path / "table")
    write_table(uri, stable_row_ids=stable, delete="id % 11 = 3")
    build(uri)
    assert wrong(uri) == []

    ACTS[act](uri)

    assert wrong(uri) == []
    assert plan_uses_index(lance.dataset(uri), "number = 123")


@MODES
@pytest.mark.parametrize("seed", range(4))
def test_answers_stay_right_after_all_of_it_in_any_order(tmp_path: Path, seed: int, stable: bool) -> None:
    uri = str(tmp_path / "table")
    write_table(uri, fragments=4, stable_row_ids=stable)
    build(uri)

    for place in np.random.default_rng(seed).permutation(len(ACTS)):
        name = list(ACTS)[place]
        ACTS[name](uri)
        assert (name, wrong(uri)) == (name, [])


@pytest.mark.parametrize(
    "gone", ["number BETWEEN 240 AND 760", "number < 300 OR number IS NULL", "number > 600", "number <> 250"]
)
@MODES
def test_a_compaction_after_all_rows_of_a_range_went_leaves_no_empty_part(
    tmp_path: Path, stable: bool, gone: str
) -> None:
    """Lance's reader dies on a range without pages, and an immediate compaction would make one.

    The rows go from every fragment, so that every fragment is rewritten.
    """
    uri = str(tmp_path / "table")
    write_table(uri, stable_row_ids=stable)
    build(uri)
    lance.dataset(uri).delete(gone)

    lance.dataset(uri).optimize.compact_files()

    assert wrong(uri) == []
    lance.dataset(uri).optimize.optimize_indices()
    assert wrong(uri) == []
    append_and_optimize(uri)
    assert wrong(uri) == []
    assert lance.dataset(uri).stats.index_stats("ours")["num_unindexed_rows"] == 0


def test_a_table_with_row_addresses_gets_ranges_and_deferred_remap(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    write_table(uri)

    build(uri)

    assert lance.dataset(uri).config()[DEFER] == "true"
    parts = [name for name in index_files(uri) if name.startswith("part_")]
    assert len(parts) == RANGES
    assert index_files(uri) == {*parts, "page_lookup.lance"}
    assert not any(name.startswith("_lancewright") for name in files(uri))


def test_a_table_with_stable_row_ids_gets_the_plain_layout_and_keeps_its_settings(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    write_table(uri, stable_row_ids=True)
    before = lance.dataset(uri).config()

    build(uri)

    assert index_files(uri) == {"page_data.lance", "page_lookup.lance"}
    assert lance.dataset(uri).config() == before


@pytest.mark.parametrize("kind", ["fm", "ivf_hnsw_flat", "ivf_hnsw_sq", "ivf_hnsw_pq"])
def test_beside_an_index_that_deferred_remap_harms_the_layout_is_plain(tmp_path: Path, kind: str) -> None:
    uri = str(tmp_path / "table")
    write_table(uri)
    table = lw.open(uri, progress=False)
    vector: dict[str, Any] = {"num_partitions": 2}
    if kind == "ivf_hnsw_pq":
        vector |= {"num_sub_vectors": DIMENSION // 4, "num_bits": 4}
    if kind == "fm":
        table.create_index("text", kind=kind, name="other")
    else:
        table.create_index("vector", kind=kind, name="other", **vector)
    before = lance.dataset(uri).config()

    build(uri)

    (ours,) = [info for info in table.indexes() if info.name == "ours"]
    (segment,) = ours.segments
    assert {path.name for path in (Path(uri) / "_indices" / segment.uuid).iterdir()} == {
        "page_data.lance",
        "page_lookup.lance",
    }
    assert lance.dataset(uri).config() == before
    assert wrong(uri) == []


@MODES
def test_an_untrained_index_is_empty_and_answers(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path / "table")
    write_table(uri, fragments=2, stable_row_ids=stable)

    build(uri, train=False)

    (info,) = lw.open(uri, progress=False).indexes()
    assert info.name == "ours"
    assert set(info.coverage.covered) == set()
    assert wrong(uri) == []


@MODES
def test_fragments_that_a_compaction_put_out_of_order_are_indexed_rightly(
    tmp_path: Path, stable: bool
) -> None:
    uri = str(tmp_path / "table")
    dataset = write_table(
        uri, stable_row_ids=stable, delete="id BETWEEN 1000 AND 1480 OR id BETWEEN 1500 AND 1980"
    )
    dataset.optimize.compact_files(target_rows_per_fragment=100)
    order = [fragment.fragment_id for fragment in lance.dataset(uri).get_fragments()]

    build(uri, "category", ranges=6, page_rows=9)

    assert len(order) < 8
    words = ("alpha", "beta", "kappa", "zeta")
    questions = (*(f"category = '{word}'" for word in words), "category IS NULL")
    assert wrong(uri, questions) == []


def test_replacing_keeps_the_answers_and_one_segment(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    write_table(uri)
    build(uri)
    delete_rows(uri)
    append_rows(uri)

    build(uri, ranges=7, replace=True)

    (info,) = lw.open(uri, progress=False).indexes()
    assert len(info.segments) == 1
    assert wrong(uri) == []


def test_more_ranges_than_rows_and_pages_of_one_row_answer_rightly(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    write_table(uri, fragments=2, rows_per_fragment=10)

    build(uri, ranges=1_000, page_rows=1)

    assert wrong(uri) == []


def test_a_range_that_spills_answers_rightly(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    texts = pa.array([f"{number % 977:0200d}" for number in range(120_000)])
    lance.write_dataset(pa.table({"id": np.arange(120_000), "text": texts}), uri, max_rows_per_file=20_000)

    build(uri, "text", ranges=1, page_rows=512, task_memory_mib=16)

    assert (
        wrong(uri, (f"text = '{3:0200d}'", f"text < '{5:0200d}'", f"text >= '{970:0200d}'", "text IS NULL"))
        == []
    )


@pytest.mark.parametrize(
    "asked",
    [
        {"ranges": 0}, {"ranges": -1}, {"rows_per_range": 0}, {"ranges": 2, "rows_per_range": 10}, {"segments": 2},
        {"segments": 0}, {"task_memory_mib": 1}, {"page_rows": 0}, {"page_rows": 8, "zone_size": 8}, {"ranges": "many"},
        {"layout": "fragment", "ranges": 2}, {"layout": "sideways"}, {"layout": None, "ranges": 3, "segments": 2},
        {"layout": "fragment", "keep_ranges": True}, {"layout": "fragment", "defer_remap": False},
        {"keep_ranges": "yes"}, {"defer_remap": 0},
    ],
    ids=str,
)  # fmt: skip
def test_a_request_that_cannot_be_meant_is_refused_before_anything_runs(
    tmp_path: Path, asked: dict[str, Any]
) -> None:
    uri = str(tmp_path / "table")
    write_table(uri, fragments=1, rows_per_fragment=10)
    before = files(uri)
    parameters = {name: value for name, value in {"layout": "range", **asked}.items() if value is not None}

    with pytest.raises(InvalidRequestError):
        lw.open(uri, runner=UnusedRunner(), progress=False).create_index("number", kind="btree", **parameters)  # type: ignore[arg-type]

    assert files(uri) == before


def fail_third_range(settings: Any, number: int, blobs: Any) -> Any:
    if number == 2:
        next(iter(blobs))
        raise RuntimeError("the machine broke")
    return gather_one(settings, number, blobs)


def fail_cut(_settings: Any, _payload: Any) -> Iterator[tuple[int, bytes]]:
    raise OSError("the disk broke")
    yield 0, b""


def lose_rows(settings: Any, number: int, blobs: Any) -> Any:
    return gather_one(settings, number, list(blobs)[1:])


class BrokenRunner(LocalRunner):
    """Runs an exchange with one function of it exchanged for a broken one."""

    def __init__(self, **changes: Any) -> None:
        super().__init__(threads=2)
        self._changes = changes

    def exchange(self, job: ExchangeJob, *rest: Any) -> None:
        super().exchange(dataclasses.replace(job, **self._changes), *rest)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cut": fail_cut}, TasksFailedError),
        ({"gather": lose_rows}, lw.errors.CorruptIndexError),
    ],
    ids=["cut", "lost rows"],
)
def test_an_exchange_that_fails_leaves_no_file_and_no_setting(
    tmp_path: Path, changes: dict[str, Any], error: type[Exception]
) -> None:
    uri = str(tmp_path / "table")
    write_table(uri)
    before = files(uri)

    table = lw.open(uri, runner=BrokenRunner(**changes), progress=False)
    with pytest.raises(error):
        table.create_index("number", kind="btree", layout="range", ranges=RANGES)

    assert files(uri) == before
    build(uri)
    assert wrong(uri) == []


def test_ranges_that_were_finished_are_kept_and_only_the_others_are_sorted_again(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    write_table(uri)
    first = BrokenRunner(gather=fail_third_range)
    with pytest.raises(TasksFailedError, match="the machine broke"):
        lw.open(uri, runner=first, progress=False).create_index(
            "number", kind="btree", name="ours", ranges=RANGES, page_rows=32
        )
    kept = {name for name in index_files(uri) if name.startswith("part_")}

    second = CountingRunner()
    lw.open(uri, runner=second, progress=False).create_index(
        "number", kind="btree", name="ours", ranges=RANGES, page_rows=32
    )

    assert len(kept) == RANGES - 1
    assert second.gathered == [2]
    assert kept < index_files(uri)
    assert wrong(uri) == []
    assert not any(name.startswith("_lancewright") for name in files(uri))


@pytest.mark.parametrize("change", [append_rows, delete_rows, update_numbers])
def test_finished_ranges_are_not_used_for_a_table_that_changed(
    tmp_path: Path, change: Callable[[str], object]
) -> None:
    uri = str(tmp_path / "table")
    write_table(uri)
    first = BrokenRunner(gather=fail_third_range)
    with pytest.raises(TasksFailedError):
        lw.open(uri, runner=first, progress=False).create_index(
            "number", kind="btree", name="ours", ranges=RANGES, page_rows=32
        )
    kept = {name for name in index_files(uri) if name.startswith("part_")}
    change(uri)

    build(uri)

    assert kept.isdisjoint(index_files(uri))
    assert wrong(uri) == []
    assert not any(name.startswith("_lancewright") for name in files(uri))


def test_a_range_that_fails_once_is_sorted_again_within_the_call(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    write_table(uri)
    runner = CountingRunner(fail_first=True)

    lw.open(uri, runner=runner, progress=False).create_index(
        "number", kind="btree", name="ours", ranges=RANGES, page_rows=32
    )

    assert sorted(runner.gathered[:RANGES]) == list(range(RANGES))
    assert len(runner.gathered) == RANGES + 1
    assert wrong(uri) == []


class CountingRunner(LocalRunner):
    """Notes which ranges are gathered; with ``fail_first`` the first one breaks."""

    def __init__(self, *, fail_first: bool = False) -> None:
        super().__init__(threads=1)
        self.gathered: list[int] = []
        self._fail_first = fail_first

    def exchange(self, job: ExchangeJob, *rest: Any) -> None:
        def gather(settings: Any, number: int, blobs: Any) -> Any:
            self.gathered.append(number)
            if self._fail_first and len(self.gathered) == 1:
                raise RuntimeError("the machine broke")
            return gather_one(settings, number, blobs)

        super().exchange(dataclasses.replace(job, gather=gather), *rest)


def test_a_killed_driver_loses_only_the_ranges_that_were_not_finished(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    keys = np.random.default_rng(4).permutation(300_000)
    lance.write_dataset(pa.table({"id": np.arange(300_000), "number": keys}), uri, max_rows_per_file=50_000)
    asked = {"kind": "btree", "name": "ours", "ranges": 60, "page_rows": 512}
    driver = start(uri=uri, column="number", **asked)
    wait_for(lambda: bool(list(Path(uri).glob("_lancewright/builds/*/ranges/*/*.json"))), driver)
    kill(driver)
    kept = {path.stem for path in Path(uri).glob("_lancewright/builds/*/ranges/*/*.json")}

    runner = CountingRunner()
    lw.open(uri, runner=runner, progress=False).create_index("number", **asked)  # type: ignore[arg-type]

    assert 0 < len(kept) < 60
    assert {int(number) for number in kept}.isdisjoint(runner.gathered)
    assert len(runner.gathered) == 60 - len(kept)
    assert wrong(uri, ("number = 77", "number < 500", "number >= 299000", "number IS NULL")) == []
    assert scratch(uri) == []


def test_a_full_disk_is_told_and_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri, scratch_folder = str(tmp_path / "table"), tmp_path / "scratch"
    scratch_folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch_folder))
    texts = pa.array([f"{number % 977:0200d}" for number in range(120_000)])
    lance.write_dataset(pa.table({"id": np.arange(120_000), "text": texts}), uri, max_rows_per_file=20_000)
    before = files(uri)

    def full(path: str, mode: str) -> Any:
        Path(path).write_bytes(b"half a run")
        raise OSError(errno.ENOSPC, f"No space left for {path} ({mode})")

    monkeypatch.setattr(range_spill.pa, "OSFile", full)
    with pytest.raises(InvalidRequestError, match=r"disk.*is full") as caught:
        build(uri, "text", ranges=1, page_rows=512, task_memory_mib=16)

    assert "TMPDIR" in caught.value.remedy
    assert files(uri) == before
    assert list(scratch_folder.iterdir()) == []


@pytest.mark.parametrize("column", ["tags", "vector", "nested", "document"])
def test_a_column_that_has_no_order_is_refused_before_anything_runs(tmp_path: Path, column: str) -> None:
    uri = str(tmp_path / "table")
    write_table(uri, fragments=1, rows_per_fragment=10)
    before = files(uri)

    with pytest.raises(InvalidRequestError):
        lw.open(uri, runner=UnusedRunner(), progress=False).create_index(column, kind="btree")  # type: ignore[arg-type]

    assert files(uri) == before


def test_memory_that_is_less_than_one_value_holds_still_gives_a_right_index(tmp_path: Path) -> None:
    """The budget bounds what is gathered, not the size of a value: each then makes a run of its own."""
    uri = str(tmp_path / "table")
    texts = [chr(97 + number % 26) * 6_000_000 for number in range(12)]
    lance.write_dataset(pa.table({"id": np.arange(12), "text": texts}), uri, max_rows_per_file=4)

    build(uri, "text", ranges=2, page_rows=4, task_memory_mib=16)

    assert wrong(uri, ("text < 'b'", "text >= 'k'", "text IS NULL")) == []
