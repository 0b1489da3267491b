"""Scalar indexes built on Spark answer what a scan answers, whatever the row ids and the number of segments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

import lancewright as lw
from lancewright.observe.events import IndexCommitted, StageStarted
from lancewright.observe.sinks import MemorySink
from support.kind_cases import (
    FILTERED_KINDS,
    FRAGMENTS,
    KindCase,
    cases_for,
    change_after_build,
    unplanned_filters,
    write_kind_table,
    wrong_filters,
)

if TYPE_CHECKING:
    import lance
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Layout:
    """A row-id mode and a number of segments: 1 and 3 need final merging, 8 is one segment per fragment."""

    stable_row_ids: bool
    segments: int

    def __str__(self) -> str:
        return f"{'stable' if self.stable_row_ids else 'address'}-{self.segments}"


@dataclass(frozen=True)
class Built:
    """A table with an index of every kind, made by one call, and changed afterwards."""

    layout: Layout
    table: lw.Table
    receipt: lw.Receipt
    sink: MemorySink
    dataset: lance.LanceDataset


LAYOUTS = [Layout(stable, segments) for stable in (False, True) for segments in (1, 3, 8)]


@pytest.fixture(scope="module", params=LAYOUTS, ids=str)
def built(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Built:
    layout: Layout = request.param
    uri = str(tmp_path_factory.mktemp("scalar") / "table.lance")
    write_kind_table(uri, stable_row_ids=layout.stable_row_ids)
    sink = MemorySink()
    table = lw.open(uri, spark=spark, sink=sink, progress=False)
    cases = cases_for(stable_row_ids=layout.stable_row_ids)
    receipt = table.create_indexes([case.request(layout.segments) for case in cases])
    return Built(layout, table, receipt, sink, change_after_build(uri))


@pytest.mark.parametrize("kind", FILTERED_KINDS)
def test_filters_answer_with_the_index_as_without(built: Built, kind: str) -> None:
    """Rows deleted before and after the build, NULLs and an uncovered fragment make no difference."""
    filters = [filter_ for case in _cases(built, kind) for filter_ in (*case.served, *case.unserved)]

    wrong = wrong_filters(built.dataset, filters)

    assert wrong == []


@pytest.mark.parametrize("kind", FILTERED_KINDS)
def test_the_plan_asks_the_index_for_every_filter_its_kind_serves(built: Built, kind: str) -> None:
    """Right answers prove little if they came from a scan."""
    filters = [filter_ for case in _cases(built, kind) for filter_ in case.served]

    scanned = unplanned_filters(built.dataset, filters)

    assert scanned == []


def test_several_indexes_share_one_job_and_one_commit(built: Built) -> None:
    """All build tasks are one stage, all sorts and all merges at most one more each, and all is visible at once."""
    stages = [stage.stage for stage in built.sink.of(StageStarted)]
    versions = {event.version for event in built.sink.of(IndexCommitted)}

    merges = [] if built.layout.segments == FRAGMENTS else ["merge"]
    # Asked for several segments, a B-tree is built by fragments as the others are.
    sorts = ["sort"] if built.layout.segments == 1 else []
    assert stages == ["build", *sorts, *merges]
    assert versions == {built.receipt.version}


def test_an_index_has_as_many_segments_as_asked_for_and_covers_what_was_there(built: Built) -> None:
    """Each segment is a run of neighbouring fragments; only the fragment appended later is left out."""
    indexes = {info.name: info for info in built.table.indexes()}

    for entry in built.receipt.indexes:
        info = indexes[entry.name]
        runs = sorted(tuple(segment.covered) for segment in info.segments)
        assert len(info.segments) == built.layout.segments, entry.name
        assert [fragment for run in runs for fragment in run] == list(range(FRAGMENTS)), entry.name
        assert [gap.fragment_id for gap in info.coverage.gaps] == [FRAGMENTS], entry.name


def test_a_json_index_over_a_btree_is_refused_on_stable_row_ids(
    spark: SparkSession, tmp_path: object
) -> None:
    """Lance cannot build it: told before any task starts, with what to use instead."""
    dataset = write_kind_table(f"{tmp_path}/table.lance", stable_row_ids=True)
    sink = MemorySink()
    table = lw.open(dataset.uri, spark=spark, sink=sink, progress=False)

    with pytest.raises(lw.UnsupportedError, match="bitmap"):
        table.create_index("json_btree", kind="json", path="a")

    assert sink.of(StageStarted) == ()
    assert table.snapshot().version == dataset.version


def _cases(built: Built, kind: str) -> list[KindCase]:
    return [case for case in cases_for(stable_row_ids=built.layout.stable_row_ids) if case.kind == kind]
