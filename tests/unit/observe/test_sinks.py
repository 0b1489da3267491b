"""What the sinks promise."""

from __future__ import annotations

import io
import json
import logging
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from lancewright.errors import InvalidRequestError
from lancewright.observe.events import (
    CommitConflicted,
    Event,
    IndexDropped,
    JournalCleaned,
    StageFinished,
    TaskFailed,
)
from lancewright.observe.sinks import FanOutSink, JsonLinesSink, LoggingSink, MemorySink, NullSink

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lancewright.observe.sinks import Sink

DROPPED = IndexDropped(job_id="j", index="by_name", version=4)
CLEANED = JournalCleaned(job_id="j", files=2)
CONFLICTED = CommitConflicted(
    job_id="j", indexes=("by_name",), version=3, attempt=1, fragments_lost=(1, 2), problem="compacted"
)
FAILED = TaskFailed(
    job_id="j",
    stage="build",
    task_id="t1",
    index="by_name",
    fragments=(0,),
    attempt=1,
    attempts_max=4,
    problem="lost",
)


def noon() -> datetime:
    return datetime(2026, 1, 2, 12, tzinfo=UTC)


class BrokenSink:
    """Raises at every event, and remembers how often it was asked and whether it was closed."""

    def __init__(self, *, fails_to_close: bool = False) -> None:
        self.asked = 0
        self.closed = 0
        self.fails_to_close = fails_to_close

    def record(self, event: Event) -> None:
        self.asked += 1
        raise OSError(f"no space left for {type(event).__name__}")

    def close(self) -> None:
        self.closed += 1
        if self.fails_to_close:
            raise OSError("still no space left")


class TestNullSink:
    def test_it_takes_an_event_and_forgets_it(self) -> None:
        sink = NullSink()

        sink.record(DROPPED)

        assert vars(sink) == {}


class TestMemorySink:
    def test_it_keeps_events_in_their_order(self) -> None:
        sink = MemorySink()

        sink.record(DROPPED)
        sink.record(CLEANED)

        assert sink.events == (DROPPED, CLEANED)

    def test_it_finds_the_events_of_one_class(self) -> None:
        sink = MemorySink()

        sink.record(DROPPED)
        sink.record(CLEANED)

        assert sink.of(JournalCleaned) == (CLEANED,)
        assert sink.of(StageFinished) == ()
        assert sink.of(Event) == (DROPPED, CLEANED)

    def test_it_loses_nothing_when_several_threads_record(self) -> None:
        sink = MemorySink()

        in_threads(8, lambda: record_often(sink, CLEANED, times=500))

        assert len(sink.events) == 4_000


class TestLoggingSink:
    def test_it_writes_one_sentence_to_the_logger_of_the_package(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.INFO, logger="lancewright"):
            LoggingSink().record(DROPPED)

        assert caplog.record_tuples == [
            ("lancewright", logging.INFO, "Dropped index 'by_name'; the table is now at version 4.")
        ]

    @pytest.mark.parametrize("event", [FAILED, CONFLICTED])
    def test_failures_and_conflicts_are_warnings(
        self, event: Event, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.INFO, logger="lancewright"):
            LoggingSink().record(event)

        assert [record.levelno for record in caplog.records] == [logging.WARNING]

    def test_a_percent_sign_in_a_problem_does_no_harm(self, caplog: pytest.LogCaptureFixture) -> None:
        event = IndexDropped(job_id="j", index="100%s", version=1)

        with caplog.at_level(logging.INFO, logger="lancewright"):
            LoggingSink().record(event)

        assert "100%s" in caplog.text


class TestJsonLinesSink:
    def test_each_event_is_one_line_with_its_class_and_its_time(self) -> None:
        stream = io.StringIO()

        sink = JsonLinesSink(stream, clock=noon)
        sink.record(CONFLICTED)
        sink.record(CLEANED)

        first, second = map(json.loads, stream.getvalue().splitlines())
        assert first == {
            "event": "CommitConflicted",
            "at": "2026-01-02T12:00:00+00:00",
            "job_id": "j",
            "indexes": ["by_name"],
            "version": 3,
            "attempt": 1,
            "fragments_lost": [1, 2],
            "problem": "compacted",
        }
        assert second["event"] == "JournalCleaned"

    def test_a_line_can_be_read_while_the_file_is_still_open(self, tmp_path: Path) -> None:
        path = tmp_path / "events.jsonl"

        with JsonLinesSink(path, clock=noon) as sink:
            sink.record(CLEANED)
            written = path.read_text(encoding="utf-8")

        assert json.loads(written)["files"] == 2

    def test_a_second_build_appends_to_the_same_file(self, tmp_path: Path) -> None:
        path = tmp_path / "events.jsonl"

        for event in (DROPPED, CLEANED):
            with JsonLinesSink(str(path), clock=noon) as sink:
                sink.record(event)

        assert [line["event"] for line in lines_of(path)] == ["IndexDropped", "JournalCleaned"]

    def test_a_line_cut_off_by_a_crash_does_not_spoil_the_next(self, tmp_path: Path) -> None:
        path = tmp_path / "events.jsonl"
        path.write_text('{"event": "StageSta', encoding="utf-8")

        with JsonLinesSink(path, clock=noon) as sink:
            sink.record(CLEANED)

        assert json.loads(path.read_text(encoding="utf-8").splitlines()[1])["event"] == "JournalCleaned"

    def test_long_lines_of_two_writers_do_not_mix(self, tmp_path: Path) -> None:
        path = tmp_path / "events.jsonl"
        long = CommitConflicted(
            job_id="j",
            indexes=("a",),
            version=1,
            attempt=1,
            fragments_lost=tuple(range(5_000)),
            problem="x",
        )

        with JsonLinesSink(path, clock=noon) as one, JsonLinesSink(path, clock=noon) as other:
            writers = iter((one, other))
            in_threads(2, lambda: record_often(next(writers), long, times=50))

        assert [len(line["fragments_lost"]) for line in lines_of(path)] == [5_000] * 100

    def test_text_in_any_language_stays_readable(self, tmp_path: Path) -> None:
        path = tmp_path / "events.jsonl"

        with JsonLinesSink(path, clock=noon) as sink:
            sink.record(IndexDropped(job_id="j", index="größe\n名前", version=1))

        assert "größe\\n名前" in path.read_text(encoding="utf-8")

    def test_a_count_that_came_out_of_numpy_is_written_as_a_number(self) -> None:
        stream = io.StringIO()

        JsonLinesSink(stream, clock=noon).record(JournalCleaned(job_id="j", files=np.int64(3)))  # type: ignore[arg-type]  # what a careless caller passes

        assert json.loads(stream.getvalue())["files"] == 3

    def test_a_stream_of_the_caller_stays_open(self) -> None:
        stream = io.StringIO()

        with JsonLinesSink(stream, clock=noon) as sink:
            sink.record(CLEANED)

        assert not stream.closed

    def test_it_can_be_closed_twice(self, tmp_path: Path) -> None:
        sink = JsonLinesSink(tmp_path / "events.jsonl", clock=noon)

        sink.close()
        sink.close()

    def test_the_system_clock_tells_the_zone(self) -> None:
        stream = io.StringIO()

        JsonLinesSink(stream).record(CLEANED)

        assert datetime.fromisoformat(json.loads(stream.getvalue())["at"]).tzinfo is not None

    def test_a_path_that_cannot_be_written_is_an_invalid_request(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidRequestError, match=r"Cannot append events to .*missing"):
            JsonLinesSink(tmp_path / "missing" / "events.jsonl")


class TestFanOutSink:
    def test_every_sink_gets_every_event(self) -> None:
        first, second = MemorySink(), MemorySink()

        FanOutSink(first, second).record(DROPPED)

        assert first.events == second.events == (DROPPED,)

    def test_a_raising_sink_does_not_stop_the_others(self) -> None:
        memory = MemorySink()

        sink = FanOutSink(BrokenSink(), memory)
        sink.record(DROPPED)
        sink.record(CLEANED)

        assert memory.events == (DROPPED, CLEANED)

    def test_a_raising_sink_is_dropped_with_one_warning(self, caplog: pytest.LogCaptureFixture) -> None:
        broken = BrokenSink()

        sink = FanOutSink(broken)
        sink.record(DROPPED)
        sink.record(CLEANED)

        assert broken.asked == 1
        assert [record.getMessage() for record in caplog.records] == [
            "BrokenSink failed and gets no more events: OSError: no space left for IndexDropped"
        ]

    @pytest.mark.parametrize("fails_to_close", [False, True])
    def test_a_dropped_sink_is_closed_once(self, *, fails_to_close: bool) -> None:
        broken = BrokenSink(fails_to_close=fails_to_close)

        with FanOutSink(broken) as sink:
            sink.record(DROPPED)

        assert broken.closed == 1

    def test_closing_closes_every_sink_even_if_one_fails_to(self, caplog: pytest.LogCaptureFixture) -> None:
        broken, sound = ClosingBadly(), ClosingWell()

        with FanOutSink(broken, MemorySink(), sound):
            pass

        assert sound.closed
        assert [record.levelno for record in caplog.records] == [logging.WARNING]

    def test_the_stop_key_still_stops(self) -> None:
        class Stopped:
            def record(self, event: Event) -> None:
                raise KeyboardInterrupt(event)

        with pytest.raises(KeyboardInterrupt):
            FanOutSink(Stopped()).record(DROPPED)


class ClosingBadly(MemorySink):
    def close(self) -> None:
        raise OSError("gone")


class ClosingWell(MemorySink):
    closed = False

    def close(self) -> None:
        self.closed = True


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def record_often(sink: Sink, event: Event, *, times: int) -> None:
    for _ in range(times):
        sink.record(event)


def in_threads(count: int, work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
