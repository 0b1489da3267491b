"""Measures a piece of work over a whole family of processes: wall time, CPU seconds, the largest memory of any one."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_TICKS = os.sysconf("SC_CLK_TCK")
_POLL_S = 0.2


@dataclass(slots=True)
class Usage:
    """What the work cost; filled when the block ends. Memory is the peak resident size of a Python process."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    python_peak_mib: float = 0.0


@contextmanager
def measure() -> Iterator[Usage]:
    """Measure the block, in this process and everything it started, now or before."""
    usage = Usage()
    watch = _Watch()
    before = watch.cpu_by_process()
    started = time.monotonic()
    watch.start()
    try:
        yield usage
    finally:
        usage.wall_s = time.monotonic() - started
        watch.stop()
        after = watch.seen
        usage.cpu_s = sum(cpu - before.get(process, 0.0) for process, cpu in after.items())
        usage.python_peak_mib = watch.python_peak_kib / 1024


class _Watch:
    def __init__(self) -> None:
        self.seen: dict[tuple[int, str], float] = {}
        self.python_peak_kib = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._look()

    def cpu_by_process(self) -> dict[tuple[int, str], float]:
        self._look()
        return dict(self.seen)

    def _run(self) -> None:
        while not self._stop.wait(_POLL_S):
            self._look()

    def _look(self) -> None:
        for process in _family(os.getpid()):
            try:
                fields = Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()
                status = Path(f"/proc/{process}/status").read_text(errors="replace")
                command = Path(f"/proc/{process}/cmdline").read_text(errors="replace")
            except OSError:
                continue
            self.seen[process, fields[19]] = (int(fields[11]) + int(fields[12])) / _TICKS
            if "python" in command.split("\0")[0] or "ray::" in command:
                self.python_peak_kib = max(self.python_peak_kib, _resident_kib(status))


def _resident_kib(status: str) -> int:
    line = next((line for line in status.splitlines() if line.startswith("VmRSS")), "VmRSS: 0 kB")
    return int(line.split()[1])


def _family(root: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    family, left = [], [root]
    while left:
        process = left.pop()
        family.append(process)
        left += parents.get(process, [])
    return family
