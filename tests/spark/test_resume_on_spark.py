"""A driver that dies on Spark leaves finished segments behind, and the next call goes on with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pytest

import lancewright as lw
from lancewright.observe.events import SegmentReused, TaskFinished
from lancewright.observe.sinks import MemorySink
from support.build_program import start
from support.busy_table import CASES, busy_table, wrong_answers
from support.traces import scratch
from support.waiting import finished_segments, kill, wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
FRAGMENTS = 12


def test_after_a_killed_driver_the_next_call_on_spark_builds_only_what_is_missing(
    spark: SparkSession, tmp_path: Path
) -> None:
    uri = busy_table(str(tmp_path / "table"), fragments=FRAGMENTS, rows_per_fragment=6_000).uri
    before = lance.dataset(uri).version
    driver = start(uri=uri, master="local[2]", column="text", kind="ngram", name="ours", segments=FRAGMENTS)
    wait_for(lambda: bool(finished_segments(uri)), driver)
    kill(driver)
    finished = finished_segments(uri)
    assert lance.dataset(uri).version == before

    sink = MemorySink()
    table = lw.open(uri, spark=spark, sink=sink, progress=False)
    table.create_index("text", kind="ngram", name="ours", segments=FRAGMENTS)

    reused = [event for event in sink.events if isinstance(event, SegmentReused)]
    built = [event for event in sink.events if isinstance(event, TaskFinished)]
    assert {event.segment for event in reused} == finished
    assert built
    assert sorted(f for event in (*reused, *built) for f in event.fragments) == list(range(FRAGMENTS))
    assert wrong_answers(uri, CASES["ngram"]) == []
    assert not Path(uri, "_lancewright").exists()
    assert len(scratch(uri)) <= 2
    assert not finished & {Path(path).name for path in scratch(uri)}
