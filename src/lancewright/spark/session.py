"""Makes an embedded Spark session for the demo, the command line and small machines; real clusters bring their own."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from lancewright.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_LAUNCH_OPTIONS = "SPARK_SUBMIT_OPTS"
_LOG_SETTINGS = "log4j2.configurationFile"


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
    is_quiet = _may_choose_logging(master)
    if not is_quiet:
        builder = builder.config("spark.log.level", "ERROR")
    try:
        with warnings.catch_warnings(), _quiet_launch() if is_quiet else nullcontext():
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


@contextmanager
def _quiet_launch() -> Iterator[None]:
    """Let a JVM start without telling at length how it will log."""
    before = os.environ.get(_LAUNCH_OPTIONS)
    settings = Path(__file__).with_name("quiet-log4j2.properties").as_uri()
    os.environ[_LAUNCH_OPTIONS] = " ".join(filter(None, [before, f"-D{_LOG_SETTINGS}={settings}"]))
    try:
        yield
    finally:
        if before is None:
            del os.environ[_LAUNCH_OPTIONS]
        else:
            os.environ[_LAUNCH_OPTIONS] = before
