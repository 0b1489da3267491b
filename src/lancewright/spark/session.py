"""Makes an embedded Spark session for the demo, the command line and small machines; real clusters bring their own."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lancewright.errors import UnsupportedError
from lancewright.spark.worker_process import KEPT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_LAUNCH_OPTIONS = "SPARK_SUBMIT_OPTS"
_LOG_SETTINGS = "log4j2.configurationFile"
# On one machine a shuffle's blocks never cross a network, and what passes through it here are a few large blobs of sorted
# numbers, which do not compress. Compressing and three checksums took half of the JVM's own time (1.7 against 3.3 CPU seconds
# a gigabyte); a build counts the rows that arrive, whatever the settings. Batches of a few blobs, and buffers that take one
# in a few steps, save another quarter (2.6 against 3.4 in all).
_ONE_MACHINE = {
    "spark.shuffle.compress": "false",
    "spark.shuffle.checksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableQueryLevelRollbackOnMismatch": "false",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2 << 20),
    "spark.sql.execution.python.udf.buffer.size": str(1 << 20),
    "spark.buffer.size": str(1 << 20),
}
# Arrow's buffers in the JVM: glibc keeps them for the next blob instead of giving every page back (1.6 against 2.9 system
# seconds a gigabyte).
_KEPT_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(KEPT_BYTES),
    "MALLOC_TRIM_THRESHOLD_": str(KEPT_BYTES),
    "MALLOC_ARENA_MAX": "2",
}


def open_session(master: str) -> SparkSession:
    """Open a session on a master, or through Spark Connect when the master is an ``sc://`` address."""
    if not master.startswith("sc://"):
        return embedded_session(master)
    try:
        from pyspark.sql.connect.session import SparkSession as ConnectSession

        return ConnectSession.builder.remote(master).getOrCreate()  # type: ignore[return-value] # same DataFrame API
    except ImportError as error:
        raise UnsupportedError(
            f"Spark Connect needs more packages: {error}", "Run: pip install 'lancewright[connect]'."
        ) from error
    except Exception as error:
        raise UnsupportedError(
            f"No Spark Connect server answered at {master}: {str(error).strip().splitlines()[0]}",
            "Check the address and that the server runs.",
        ) from error


def embedded_session(master: str = "local[*]", driver_memory: str = "1g") -> SparkSession:
    """Start (or get) a classic session on this machine, quiet and without a web page."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if master.startswith("local"):
        # Spark would start its workers with the `python3` of the PATH, which need not be the one that has this package.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession as Session

    builder = (
        Session.builder.master(master)
        .appName("lancewright")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", driver_memory)
        # The JVM only carries blobs here. Its second compiler took a quarter of the CPU time of sorting 10 million rows.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .config("spark.sql.shuffle.partitions", "8")
    )
    for name, value in _ONE_MACHINE.items() if _is_one_process(master) else ():
        builder = builder.config(name, value)
    is_quiet = _may_choose_logging(master)
    if not is_quiet:
        builder = builder.config("spark.log.level", "ERROR")
    try:
        with warnings.catch_warnings(), _launch_environment(_launch_settings(master, is_quiet=is_quiet)):
            # Starting a JVM forks this process for an instant; the child becomes Java before it could touch Lance.
            warnings.filterwarnings("ignore", message="lance is not fork-safe")
            spark = builder.getOrCreate()
    except Exception as error:
        raise UnsupportedError(
            f"Spark did not start on {master}: {str(error).strip().splitlines()[0]}",
            "Check the master's address; install a Java runtime of version 17 or newer and set JAVA_HOME; or work without Spark, "
            "with --local or without spark=.",
        ) from error
    return spark


def _may_choose_logging(master: str) -> bool:
    """True for a JVM on this machine, unless the environment says how it shall log."""
    chosen = _LOG_SETTINGS in os.environ.get(_LAUNCH_OPTIONS, "") or "SPARK_CONF_DIR" in os.environ
    return master.startswith("local") and not chosen


def _is_one_process(master: str) -> bool:
    return master.startswith("local") and not master.startswith("local-cluster")


def _launch_settings(master: str, *, is_quiet: bool) -> dict[str, str]:
    """What the environment of a new JVM shall have; what the user has set stays."""
    settings = {}
    if _is_one_process(master):
        settings = {name: value for name, value in _KEPT_MEMORY.items() if name not in os.environ}
    if is_quiet:
        quiet = Path(__file__).with_name("quiet-log4j2.properties").as_uri()
        options = (os.environ.get(_LAUNCH_OPTIONS), f"-D{_LOG_SETTINGS}={quiet}")
        settings[_LAUNCH_OPTIONS] = " ".join(filter(None, options))
    return settings


@contextmanager
def _launch_environment(settings: dict[str, str]) -> Iterator[None]:
    """Let a JVM start in an environment with these settings, and put this process's back as it was."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
