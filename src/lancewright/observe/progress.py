"""Answers where a running build is, as a bar on a terminal or in a notebook, drawn from its events.

It writes nothing when standard error is neither: no bar ends up in a log file. It does not log failures.
"""

from __future__ import annotations

import atexit
import importlib
import sys
import threading
from typing import TYPE_CHECKING, Protocol, TextIO, TypeAlias

from rich.console import Console
from rich.live import Live

from lancewright.observe.clock import system_stopwatch
from lancewright.observe.events import Event, StageFinished, StageStarted, TaskFinished
from lancewright.observe.sinks import ClosesOnExit
from lancewright.observe.stage_progress import StageProgress, render_stages

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from lancewright.observe.clock import Stopwatch

_Key: TypeAlias = tuple[str, str]
"""Job and stage."""

_NOTEBOOK_PAUSE_S = 0.5
"""A notebook queues every update until the browser has drawn it; ten thousand tasks would choke it."""


class ProgressSink(ClosesOnExit):
    """Draws one line per running stage: tasks, rows, rows per second, time left.

    Close it, or use it in a ``with`` statement, so that a failed build leaves the terminal in order. It can
    be used again afterwards: the next ``StageStarted`` begins a new line.
    """

    def __init__(self, console: Console | None = None, *, stopwatch: Stopwatch = system_stopwatch) -> None:
        """Draw on ``console``, by default standard error or the notebook's cell."""
        self._console = _error_console() if console is None else console
        self._stopwatch = stopwatch
        self._lock = threading.Lock()
        self._stages: dict[_Key, StageProgress] = {}  # replaced, never changed: the drawing thread reads it
        self._tasks_seen: dict[_Key, set[str]] = {}
        self._view: _View | None = None

    def record(self, event: Event) -> None:
        """Start, advance or end the line of the event's stage; other events change nothing."""
        if not is_drawable(self._console):
            return
        with self._lock:
            match event:
                case StageStarted():
                    self._start(event)
                case TaskFinished():
                    self._advance(event)
                case StageFinished():
                    self._finish(event)
                case _:
                    return

    def close(self) -> None:
        """End what is drawn: lines of unfinished stages say that they stopped."""
        with self._lock:
            now_s = self._stopwatch()
            self._stages = {
                key: stage if stage.ended_s is not None else stage.stopped(now_s=now_s)
                for key, stage in self._stages.items()
            }
            self._hide()

    def _start(self, event: StageStarted) -> None:
        key = (event.job_id, event.stage)
        stage = StageProgress(
            stage=event.stage, tasks=event.tasks, rows=event.rows, started_s=self._stopwatch()
        )
        self._tasks_seen[key] = set()
        self._stages = {**self._stages, key: stage}
        if self._view is None:
            self._view = self._show()
        else:
            self._view.refresh(at_once=True)

    def _advance(self, event: TaskFinished) -> None:
        key = (event.job_id, event.stage)
        stage = self._stages.get(key)
        if self._view is None or stage is None or stage.ended_s is not None:
            return
        if event.task_id in self._tasks_seen[key]:  # a speculative or repeated attempt of the same task
            return
        self._tasks_seen[key].add(event.task_id)
        self._stages = {**self._stages, key: stage.advanced(rows=event.rows, now_s=self._stopwatch())}
        self._view.refresh(at_once=False)

    def _finish(self, event: StageFinished) -> None:
        key = (event.job_id, event.stage)
        stage = self._stages.get(key)
        if stage is None or stage.ended_s is not None:
            return
        self._stages = {**self._stages, key: stage.finished(now_s=self._stopwatch())}
        if all(stage.ended_s is not None for stage in self._stages.values()):
            self._hide()

    def _show(self) -> _View:
        if self._console.is_jupyter:
            return _NotebookView(self._render, self._stopwatch)
        return _TerminalView(self._console, self._render)

    def _hide(self) -> None:
        """Draw a last time and forget the lines, so that nothing runs between two stages."""
        view, self._view = self._view, None
        try:
            if view is not None:
                view.stop()
        finally:
            self._stages = {}
            self._tasks_seen = {}

    def _render(self) -> Table:
        return render_stages(self._stages.values(), now_s=self._stopwatch())


def is_drawable(console: Console) -> bool:
    """True for a notebook and for a terminal that can move its cursor."""
    return console.is_jupyter or (console.is_terminal and console.is_interactive)


class _View(Protocol):
    """Something that shows the lines until it is stopped."""

    def refresh(self, *, at_once: bool) -> None: ...

    def stop(self) -> None: ...


class _TerminalView:
    """Draws four times a second in a thread of rich, and hides the cursor meanwhile."""

    def __init__(self, console: Console, render: Callable[[], Table]) -> None:
        """Begin to draw."""
        # What others write meanwhile, rich prints above the bar, but on the bar's stream: standard output
        # may take that way only when it is a terminal too, or a pipe would not get what was meant for it.
        is_standard_error = console.file is sys.stderr
        self._live = Live(
            console=console,
            get_renderable=render,
            redirect_stderr=is_standard_error,
            redirect_stdout=is_standard_error and _is_terminal(sys.stdout),
        )
        self._live.start(refresh=True)
        atexit.register(self._live.stop)  # the cursor comes back even if nobody closes the sink

    def refresh(self, *, at_once: bool) -> None:
        """Leave it to the thread."""

    def stop(self) -> None:
        """Draw a last time, show the cursor, end the thread."""
        atexit.unregister(self._live.stop)
        self._live.stop()


class _NotebookView:
    """Replaces one output of the running cell, without a thread.

    Not rich's own notebook display: it needs ipywidgets, warns at every refresh without them, catches the
    output of other threads, and leaves nothing in a saved notebook.
    """

    def __init__(self, render: Callable[[], Table], stopwatch: Stopwatch) -> None:
        """Show the lines under the cell."""
        self._render = render
        self._stopwatch = stopwatch
        self._drawn_s = stopwatch()
        # IPython is no dependency of ours: it is there because this runs in a notebook.
        display = importlib.import_module("IPython.display").display
        self._output: _DisplayHandle = display(render(), display_id=True)

    def refresh(self, *, at_once: bool) -> None:
        """Draw again, unless that was done a moment ago."""
        now_s = self._stopwatch()
        if at_once or now_s - self._drawn_s >= _NOTEBOOK_PAUSE_S:
            self._drawn_s = now_s
            self._output.update(self._render())

    def stop(self) -> None:
        """Draw a last time."""
        self.refresh(at_once=True)


class _DisplayHandle(Protocol):
    def update(self, table: Table, /) -> None: ...


def _error_console() -> Console:
    """Standard error, asked whether it is a terminal: rich would believe FORCE_COLOR, which CI jobs set."""
    return Console(stderr=True, force_terminal=_is_terminal(sys.stderr))


def _is_terminal(stream: TextIO | None) -> bool:
    """False also for a missing or a closed stream."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False
