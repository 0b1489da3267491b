"""A file of the table that cannot be read is nobody's wrong request: finished work is kept, and the next call goes on."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pytest

import lancewright as lw
from lancewright.observe.events import SegmentReused, TaskFinished
from lancewright.observe.sinks import MemorySink
from support.busy_table import CASES, busy_table, compact, wrong_answers
from support.runners import BusyRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lancewright.runtime.task import Job, Task, TaskOutcome

FRAGMENTS = 8
BROKEN = 3


class InterruptedRunner(BusyRunner):
    """Builds one task after the other, and lets another writer act before the last."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__()
        self._once = [act]

    def map(self, job: Job, tasks: Sequence[Task], on_outcome: Callable[[TaskOutcome], None]) -> None:
        """Run all tasks but the last, act, run the last."""
        super().map(job, tasks[:-1], on_outcome)
        if self._once:
            self._once.pop()()
        super().map(job, tasks[-1:], on_outcome)


def data_file(uri: str, fragment: int) -> Path:
    return Path(uri, "data", lance.dataset(uri).get_fragment(fragment).data_files()[0].path)


def build(uri: str, kind: str, runner: BusyRunner | None = None) -> MemorySink:
    case, sink = CASES[kind], MemorySink()
    table = lw.open(uri, runner=runner, sink=sink, progress=False)
    table.create_index(case.column, kind=kind, name="ours", segments=FRAGMENTS, **case.parameters)
    return sink


@pytest.mark.parametrize("damage", ["gone", "overwritten", "cut short"])
@pytest.mark.parametrize("kind", ["btree", "bitmap", "inverted", "ngram", "ivf_flat"])
def test_a_file_that_cannot_be_read_fails_its_own_task_and_costs_nothing_else(
    tmp_path: Path, kind: str, damage: str
) -> None:
    uri = busy_table(str(tmp_path / "table"), fragments=FRAGMENTS).uri
    file = data_file(uri, BROKEN)
    content = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(bytes(len(content)) if damage == "overwritten" else content[: len(content) // 2])

    with pytest.raises(lw.TasksFailedError) as failure:
        build(uri, kind)
    file.write_bytes(content)
    sink = build(uri, kind)

    assert failure.value.fragments == (BROKEN,)
    assert "change the request" not in str(failure.value).lower()
    assert [event.fragments for event in sink.of(TaskFinished) if event.stage == "build"] == [(BROKEN,)]
    assert wrong_answers(uri, CASES[kind]) == []
    assert not Path(uri, "_lancewright").exists()


@pytest.mark.parametrize("kind", ["btree", "inverted"])
def test_a_version_that_is_cleaned_up_while_it_is_read_costs_what_was_compacted(
    tmp_path: Path, kind: str
) -> None:
    uri = busy_table(str(tmp_path / "table"), fragments=FRAGMENTS).uri

    def tidy() -> None:
        compact(uri, [6, 7])
        lance.dataset(uri).cleanup_old_versions(older_than=timedelta(0))

    with pytest.raises(lw.TasksFailedError) as failure:
        build(uri, kind, InterruptedRunner(tidy))
    sink = build(uri, kind)

    assert failure.value.fragments == (7,)
    assert "cleanup" in str(failure.value)
    assert sorted(fragment for event in sink.of(SegmentReused) for fragment in event.fragments) == list(
        range(6)
    )
    assert [event.fragments for event in sink.of(TaskFinished) if event.stage == "build"] == [(8,)]
    assert wrong_answers(uri, CASES[kind]) == []
    assert not Path(uri, "_lancewright").exists()
