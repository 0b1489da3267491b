"""A merge of sorted segments comes out the same whoever runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancewright as lw
from lancewright.build.range_copy import copy_to_plain
from lancewright.build.range_merge import RangeMerge, merge_ranges
from lancewright.model.columns import find_column
from lancewright.runtime.local_runner import LocalRunner
from lancewright.spark.runner import SparkRunner
from lancewright.table.commit import IndexChange, commit_segments
from lancewright.table.location import table_ref
from lancewright.table.segment_files import SegmentFolder
from lancewright.table.snapshot_reader import read_snapshot
from support.range_delta import RangeDelta, build_delta
from support.tables import ids

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_every_runner_merges_alike_and_the_answers_are_those_of_a_scan(
    spark: SparkSession, connect: SparkSession, tmp_path: Path
) -> None:
    uri = str(tmp_path / "table")
    random = np.random.default_rng(5)

    def rows(start: int, count: int) -> pa.Table:
        words = [f"user-{number}" for number in random.zipf(1.4, count) % 5_000]
        mask = random.random(count) < 0.1
        return pa.table({"id": np.arange(start, start + count), "text": pa.array(words, mask=mask)})

    lance.write_dataset(rows(0, 40_000), uri, max_rows_per_file=8_000)
    lw.open(uri, progress=False).create_index("text", kind="btree", name="ours", ranges=4, page_rows=256)
    lance.write_dataset(rows(40_000, 9_000), uri, mode="append")
    lance.dataset(uri).delete("id % 7 = 2")
    table = table_ref(uri)
    snapshot = read_snapshot(table)
    column = find_column(snapshot.columns, "text")
    covered = {fragment for segment in snapshot.segments_named("ours") for fragment in segment.covered}
    delta = build_delta(
        RangeDelta(
            table=table,
            snapshot=snapshot,
            name="ours",
            column=column,
            fragments=set(snapshot.fragments_by_id) - covered,
            parameters={"ranges": 2, "page_rows": 100},
        ),
        SparkRunner(spark),
    )
    commit_segments(table, snapshot, IndexChange(add=(delta,)))
    snapshot = read_snapshot(table)
    sources = snapshot.segments_named("ours")
    merge = RangeMerge(
        table=table, snapshot=snapshot, column=column, sources=sources, parameters={"ranges": 5}
    )

    runners = (LocalRunner(), SparkRunner(spark), SparkRunner(connect))
    merged = [merge_ranges(merge, runner) for runner in runners]

    contents = [content(uri, one.segment, column.type) for one in merged]
    assert contents[0] == contents[1] == contents[2]
    assert [one.rows_per_range for one in merged] == [merged[0].rows_per_range] * 3
    commit_segments(table, snapshot, IndexChange(remove=sources, add=(merged[1].segment,)))
    dataset = lance.dataset(uri)
    for question in (
        "text = 'user-7'",
        "text LIKE 'user-12%'",
        "text IS NULL",
        "text >= 'user-9'",
        "text != 'user-1'",
    ):
        assert ids(dataset, question, use_index=True) == ids(dataset, question, use_index=False)
    assert dataset.stats.index_stats("ours")["num_unindexed_rows"] == 0


def content(uri: str, segment: Any, type_: pa.DataType) -> list[tuple[Any, int]]:
    """Values and row addresses in order, through the plain copy."""
    table = table_ref(uri)
    copy = copy_to_plain(table, segment, type_)
    file = SegmentFolder(table, copy.uuid).open_reader("page_data.lance")
    rows = pa.Table.from_batches(list(file.read(0, file.rows, 10_000)))
    return list(zip(rows["values"].to_pylist(), rows["ids"].to_pylist(), strict=True))
