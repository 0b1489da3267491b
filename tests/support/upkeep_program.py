"""A driver of its own that runs one verb of upkeep and is killed at its n-th event; without a number it lives.

Prints the names of the events it heard of, as one JSON list.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lancewright as lw
from lancewright.observe.sinks import NullSink

if TYPE_CHECKING:
    from lancewright.observe.events import Event


def run(uri: str, verb: str, dies_at: int | None = None, **options: Any) -> list[str] | None:
    """Run the verb in a process of its own; the events, or None when it was killed."""
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    request = {"uri": uri, "verb": verb, "dies_at": dies_at, "options": options}
    driver = subprocess.run(
        [sys.executable, __file__, json.dumps(request)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        check=False,
        text=True,
    )
    if driver.returncode == -signal.SIGKILL:
        return None
    assert driver.returncode == 0, driver.stderr
    return list(json.loads(driver.stdout.strip().splitlines()[-1]))


class CountingSink(NullSink):
    """Kills its own process at the n-th event."""

    def __init__(self, dies_at: int | None) -> None:
        self._dies_at = dies_at
        self.heard: list[str] = []

    def record(self, event: Event) -> None:
        self.heard.append(type(event).__name__)
        if len(self.heard) - 1 == self._dies_at:
            os.kill(os.getpid(), signal.SIGKILL)


def call(table: lw.Table, verb: str, options: dict[str, Any]) -> None:
    """Call a verb with options that came as JSON: ages in seconds."""
    ages = {
        name: timedelta(seconds=options[name]) for name in ("older_than", "orphan_age") if name in options
    }
    getattr(table, verb)(**{**options, **ages})


def main(uri: str, verb: str, dies_at: int | None, options: dict[str, Any]) -> None:
    sink = CountingSink(dies_at)
    call(lw.open(uri, sink=sink, progress=False), verb, options)
    sys.stdout.write(json.dumps(sink.heard) + "\n")


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
