"""Spark sessions for tests: a classic one and one through a Connect server of its own, both on loopback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_START_TIMEOUT_S = 120.0


def classic_session(master: str = "local[2]") -> SparkSession:
    """Start a quiet classic session."""
    from lancewright.spark.session import embedded_session

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return embedded_session(master)


@contextmanager
def connect_session(folder: Path) -> Iterator[SparkSession]:
    """Run a Connect server in a process of its own and give a session on it; the server ends by its process id."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    with _connect_server(folder) as port:
        session = ConnectSession.builder.remote(f"sc://127.0.0.1:{port}").create()
        try:
            yield session  # type: ignore[misc] # both kinds of session have the DataFrame API
        finally:
            session.stop()


@contextmanager
def _connect_server(folder: Path) -> Iterator[int]:
    port = free_port()
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    command = [
        str(home / "bin" / "spark-submit"),
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--master",
        "local[2]",
        "--driver-memory",
        "1g",
        "--conf",
        "spark.ui.enabled=false",
        "--conf",
        "spark.connect.grpc.binding.address=127.0.0.1",
        "--conf",
        f"spark.connect.grpc.binding.port={port}",
        "spark-internal",
    ]
    with (folder / "connect.log").open("w") as log:
        server = subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, cwd=folder, start_new_session=True
        )
        try:
            _wait_for_port(port, server)
            yield port
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(timeout=60)


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for_port(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"the Connect server ended with {server.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise TimeoutError("the Connect server did not open its port")
