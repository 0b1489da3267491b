"""Waiting for something a build does, and ending what was started."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str], timeout_s: float = 120) -> None:
    """Wait until the condition holds; fail when the process ends first."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert process.poll() is None, "the process ended before it could be killed"
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.01)


def finished_segments(uri: str) -> set[str]:
    """The segments that the journals of builds of this table have on record."""
    return {path.stem for path in Path(uri).glob("_lancewright/builds/*/segments/*.json")}


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a process and all it started, at once."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def descendants(process_id: int) -> list[int]:
    """The process ids of everything below a process."""
    children = [
        int(child)
        for task in Path(f"/proc/{process_id}/task").glob("*/children")
        for child in task.read_text().split()
    ]
    return [below for child in children for below in (child, *descendants(child))]


def command_line(process_id: int) -> str:
    """How a process was started; empty when it is gone."""
    try:
        return Path(f"/proc/{process_id}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""
