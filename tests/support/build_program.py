"""A driver of its own, to be killed or run beside another: builds one index as its arguments say, in JSON.

Prints one JSON line at its end: the receipt, or the error. ``events`` names a file for the events, one line each;
``dies_at`` an event at which the driver is killed, ``user`` the number of a user without rights to become first; ``unused_runner`` fails when it is asked to work;
``workers_path`` is where Spark's workers look for packages first.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

import lancewright as lw
from lancewright.observe.sinks import JsonLinesSink, NullSink
from lancewright.spark.session import embedded_session
from support.runners import UnusedRunner

if TYPE_CHECKING:
    from lancewright.observe.events import Event


def start(environment: dict[str, str] | None = None, **request: Any) -> subprocess.Popen[str]:
    """Start a driver in a process group of its own; see ``main`` for what the request may hold."""
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        [sys.executable, __file__, json.dumps(request)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=TemporaryFile(),  # a pipe that nobody reads would stop a talkative driver
        text=True,
        start_new_session=True,
    )


def outcome(driver: subprocess.Popen[str], timeout_s: float = 240) -> dict[str, Any]:
    """Wait for the driver's end and return what it printed last."""
    output, _ = driver.communicate(timeout=timeout_s)
    lines = output.strip().splitlines()
    assert lines, f"the driver ended with {driver.returncode} and said nothing"
    return dict(json.loads(lines[-1]))


class DyingSink(NullSink):
    """Kills its own process when it hears of a certain event."""

    def __init__(self, event: str) -> None:
        self._event = event

    def record(self, event: Event) -> None:
        if type(event).__name__ == self._event:
            os.kill(os.getpid(), signal.SIGKILL)


def main(uri: str, **request: Any) -> None:
    master, events, dies_at = (request.pop(name, None) for name in ("master", "events", "dies_at"))
    options, column = request.pop("storage_options", None), request.pop("column")
    assert lw.open  # imported while this process may still read its modules
    if (user := request.pop("user", None)) is not None:
        os.setuid(user)
    if (path := request.pop("workers_path", None)) is not None:
        os.environ["PYTHONPATH"] = path
    spark = embedded_session(master) if master else None
    sink = DyingSink(dies_at) if dies_at else JsonLinesSink(Path(events)) if events else NullSink()
    runner = UnusedRunner() if request.pop("unused_runner", False) else None
    table = lw.open(uri, spark=spark, runner=runner, sink=sink, storage_options=options, progress=False)
    try:
        receipt = table.create_index(column, **request)
        end = {"error": None, "version": receipt.version, "segments": receipt.indexes[0].segments}
    except lw.LancewrightError as error:
        end = {"error": type(error).__name__, "problem": error.problem, "remedy": error.remedy}
    sys.stdout.write(json.dumps(end) + "\n")
    if spark is not None:
        spark.stop()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
