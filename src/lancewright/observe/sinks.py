"""Answers where events go: nowhere, into memory, the log, a file of JSON lines, or several of these.

It does not decide what is worth an event, and it does not draw: the progress bar is in ``progress``.
Every sink may be called from several threads, because a polling thread reports the tasks of a cluster.
"""

from __future__ import annotations

import io
import json
import logging
import operator
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, TextIO, TypeVar, runtime_checkable

from lancewright.errors import InvalidRequestError
from lancewright.observe.clock import system_clock
from lancewright.observe.describe import describe_event, event_fields
from lancewright.observe.events import CommitConflicted, Event, TaskFailed

if TYPE_CHECKING:
    from types import TracebackType

    from lancewright.observe.clock import Clock

EventType = TypeVar("EventType", bound=Event)

_logger = logging.getLogger("lancewright")


class Sink(Protocol):
    """Takes every event of a job, in the order in which the driver learns of them."""

    def record(self, event: Event) -> None:
        """Keep or show one event."""


@runtime_checkable
class Closable(Protocol):
    """A sink that holds something, such as a file or a terminal line, until it is closed."""

    def close(self) -> None:
        """Let go of it; a second call does nothing."""


class ClosesOnExit:
    """Makes a sink with ``close`` usable in a ``with`` statement."""

    __slots__ = ()

    def close(self) -> None:
        """Let go of what the sink holds; a second call does nothing."""

    def __enter__(self) -> Self:
        """Use the sink inside the block."""
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the sink, whether the block ended well or not."""
        self.close()


class NullSink:
    """Forgets every event."""

    def record(self, event: Event) -> None:
        """Do nothing."""


class MemorySink:
    """Keeps every event, for tests and for reports at the end of a job."""

    def __init__(self) -> None:
        """Start with no events."""
        self._events: list[Event] = []

    @property
    def events(self) -> tuple[Event, ...]:
        """What was recorded so far, oldest first."""
        return tuple(self._events)

    def record(self, event: Event) -> None:
        """Keep the event."""
        self._events.append(event)  # list.append and tuple(list) are atomic in CPython: no lock is needed

    def of(self, event_type: type[EventType]) -> tuple[EventType, ...]:
        """The events of one class, oldest first."""
        return tuple(event for event in self.events if isinstance(event, event_type))


class LoggingSink:
    """Writes one sentence per event to the logger ``lancewright``: failures and conflicts as warnings."""

    def record(self, event: Event) -> None:
        """Log the event."""
        level = event_level(event)
        if _logger.isEnabledFor(level):
            _logger.log(level, "%s", describe_event(event))


def event_level(event: Event) -> int:
    """The logging level of an event: WARNING for what went wrong and is tried again, else INFO."""
    return logging.WARNING if isinstance(event, (TaskFailed, CommitConflicted)) else logging.INFO


class JsonLinesSink(ClosesOnExit):
    """Writes one JSON object per line: ``event`` (its class), ``at`` (ISO time), then the event's fields.

    A path is appended to, and each line is one write, so that two jobs can share a file. A stream is
    flushed after each line and stays open: it belongs to the caller.
    """

    def __init__(self, target: str | Path | TextIO, *, clock: Clock = system_clock) -> None:
        """Open the path, or take the stream as it is."""
        self._owns_stream = isinstance(target, (str, Path))
        self._stream = _open_lines(Path(target)) if isinstance(target, (str, Path)) else target
        self._clock = clock
        self._lock = threading.Lock()

    def record(self, event: Event) -> None:
        """Write the event as one line."""
        line = {"event": type(event).__name__, "at": self._clock().isoformat(), **event_fields(event)}
        # operator.index: counts that come out of NumPy are integers to everyone but the JSON encoder.
        text = json.dumps(line, ensure_ascii=False, default=operator.index)
        with self._lock:
            self._stream.write(f"{text}\n")
            self._stream.flush()

    def close(self) -> None:
        """Close the file; a stream of the caller stays open."""
        if self._owns_stream:
            self._stream.close()


class BorrowedSink:
    """Passes events on to a sink that somebody else opened and will close."""

    def __init__(self, owner: Sink) -> None:
        """Keep the sink; never close it."""
        self._owner = owner

    def record(self, event: Event) -> None:
        """Pass the event on."""
        self._owner.record(event)


class FanOutSink(ClosesOnExit):
    """Gives each event to several sinks. One that raises is closed and dropped, with one warning in the log.

    Watching a build must not break it: a full disk under the event log costs the log, not the index.
    """

    def __init__(self, *sinks: Sink) -> None:
        """Start with these sinks, asked in this order."""
        self._sinks = sinks
        self._lock = threading.Lock()

    def record(self, event: Event) -> None:
        """Give the event to every sink that still works."""
        for sink in self._sinks:
            try:
                sink.record(event)
            except Exception as error:  # noqa: BLE001 - whatever a sink raises, the build goes on
                self._drop(sink, error)

    def close(self) -> None:
        """Close the sinks that can be closed, each even if another one fails to."""
        for sink in self._sinks:
            try:
                if isinstance(sink, Closable):
                    sink.close()
            except Exception as error:  # noqa: BLE001 - as in record
                self._drop(sink, error)

    def _drop(self, broken: Sink, error: Exception) -> None:
        with self._lock:
            kept = tuple(sink for sink in self._sinks if sink is not broken)
            is_first_failure = len(kept) < len(self._sinks)
            self._sinks = kept
        if not is_first_failure:
            return
        _logger.warning(
            "%s failed and gets no more events: %s: %s", type(broken).__name__, type(error).__name__, error
        )
        if isinstance(broken, Closable):
            with suppress(Exception):
                broken.close()


def _open_lines(path: Path) -> TextIO:
    """Append to ``path`` without a buffer: a line is one write and cannot mix with another writer's."""
    try:
        ends_mid_line = _ends_mid_line(path)
        raw = path.open("ab", buffering=0)
    except OSError as error:
        raise InvalidRequestError(
            f"Cannot append events to {path}: {error.strerror}",
            "Name a file in an existing, writable directory",
        ) from error
    stream = io.TextIOWrapper(raw, encoding="utf-8", newline="\n", write_through=True)
    if ends_mid_line:
        stream.write("\n")
    return stream


def _ends_mid_line(path: Path) -> bool:
    """True when an earlier writer died in the middle of a line."""
    if not path.exists() or path.stat().st_size == 0:
        return False
    with path.open("rb") as stream:
        stream.seek(-1, io.SEEK_END)
        return stream.read(1) != b"\n"
