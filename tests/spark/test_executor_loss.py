"""An executor that dies takes its running tasks with it, and nothing else."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pyspark
import pytest

import lancewright as lw
from support.build_program import outcome, start
from support.busy_table import CASES, busy_table, is_served, wrong_answers
from support.traces import listing
from support.waiting import command_line, descendants, finished_segments, wait_for

pytestmark = pytest.mark.spark
FRAGMENTS = 8


def spark_home(folder: Path) -> Path:
    """Spark under another name: a local cluster writes its executors' logs below its home."""
    folder.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (folder / entry.name).symlink_to(entry)
    return folder


def test_a_build_completes_when_one_executor_is_killed_while_it_works(tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table"), fragments=FRAGMENTS, rows_per_fragment=12_000).uri
    events = tmp_path / "events.jsonl"
    driver = start(
        {"SPARK_HOME": str(spark_home(tmp_path / "spark"))},
        uri=uri,
        master="local-cluster[2,1,1024]",
        events=str(events),
        column="text",
        kind="ngram",
        name="ours",
        segments=FRAGMENTS,
    )
    wait_for(lambda: bool(finished_segments(uri)), driver)
    executors = [
        pid for pid in descendants(driver.pid) if "CoarseGrainedExecutorBackend" in command_line(pid)
    ]

    os.kill(executors[0], signal.SIGKILL)

    assert len(executors) == 2
    assert len(finished_segments(uri)) < FRAGMENTS
    assert outcome(driver)["error"] is None
    (info,) = [info for info in lw.open(uri, progress=False).indexes() if info.name == "ours"]
    assert info.coverage.is_complete
    assert len(info.segments) == FRAGMENTS
    assert is_served(uri, CASES["ngram"])
    assert wrong_answers(uri, CASES["ngram"]) == []
    assert not [path for path in listing(uri) if path.startswith("_lancewright")]
    told = [json.loads(line) for line in events.read_text().splitlines()]
    finished = [event for event in told if event["event"] == "TaskFinished" and event["stage"] == "build"]
    assert sorted(fragment for event in finished for fragment in event["fragments"]) == list(range(FRAGMENTS))
