"""A dry run says what a build would do, and leaves no trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lancewright as lw
from lancewright.observe.events import BuildPlanned
from lancewright.observe.sinks import MemorySink
from support.folders import list_files
from support.tables import write_table

if TYPE_CHECKING:
    from pathlib import Path

REQUESTS = [
    lw.IndexRequest(column="number", kind="btree"),
    lw.IndexRequest(column="text", kind="inverted", segments=3),
    lw.IndexRequest(column="vector", kind="ivf_sq", parameters={"num_partitions": 4}),
    lw.IndexRequest(column="category", kind="bitmap", train=False),
]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Eight fragments of 91 rows, nine of each hundred deleted."""
    uri = str(tmp_path / "table.lance")
    write_table(uri, rows_per_fragment=100, delete="id % 11 = 3")
    return uri


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request.kind)
def test_a_dry_run_writes_nothing(uri: str, request_: lw.IndexRequest) -> None:
    """Not a file, not a folder, not a version; and no event says otherwise."""
    before = list_files(uri)
    sink = MemorySink()
    table = lw.open(uri, sink=sink, progress=False)

    table.create_index(
        request_.column,
        kind=request_.kind,
        segments=request_.segments,
        train=request_.train,
        dry_run=True,
        **request_.parameters,
    )

    assert list_files(uri) == before
    assert sink.events == ()


def test_a_plan_tells_tasks_rows_bytes_and_memory(uri: str) -> None:
    """Per index and for all of them, which share one job."""
    table = lw.open(uri, progress=False)

    plan = table.plan_indexes(REQUESTS)

    rows = table.snapshot().rows
    by_kind = {index.spec.kind: index for index in plan.indexes}
    assert [index.rows for index in plan.indexes] == [rows, rows, rows, 0]
    assert plan.rows == 3 * rows
    assert plan.tasks == sum(len(index.groups) for index in plan.indexes)
    assert by_kind["inverted"].segments_expected == 3
    assert by_kind["ivf_sq"].segments_expected == len(by_kind["ivf_sq"].groups) == 1
    assert plan.estimated_bytes == sum(index.estimated_bytes for index in plan.indexes) > 0
    assert plan.task_memory_bytes == max(index.task_memory_bytes for index in plan.indexes) > 0


def test_a_build_does_what_its_plan_said(uri: str) -> None:
    """The same tasks over the same rows of the same version, and as many segments."""
    sink = MemorySink()
    table = lw.open(uri, sink=sink, progress=False)
    plan = table.plan_indexes(REQUESTS)

    receipt = table.create_indexes(REQUESTS)

    (planned,) = sink.of(BuildPlanned)
    assert (planned.tasks, planned.rows, planned.version) == (plan.tasks, plan.rows, plan.version)
    assert [entry.segments for entry in receipt.indexes] == [
        index.segments_expected for index in plan.indexes
    ]


def test_a_dry_run_refuses_what_the_build_would_refuse(uri: str) -> None:
    """A typing error is worth hearing of before the cluster is there."""
    table = lw.open(uri, progress=False)

    with pytest.raises(lw.InvalidRequestError, match="numbre"):
        table.create_index("numbre", kind="btree", dry_run=True)
