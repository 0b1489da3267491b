"""Turns what Spark says when a whole job fails into one of our errors. Task failures do not come this way."""

from __future__ import annotations

import re

from lancewright.errors import LancewrightError, TasksFailedError, UnsupportedError

_NO_PACKAGE = re.compile(r"No module named '?([A-Za-z]\w*)|cannot import name .* from '?lancewright")
# Too old for the modules of this package to be imported; one that is not so old is told by the task itself.
_OLD_LANCE = re.compile(r"pylance \S+ is installed; lancewright needs \d+ or newer")
_ENVIRONMENT = re.compile(
    r"PYTHON_VERSION_MISMATCH|Python in worker has different version|minimum .*(pandas|PyArrow)|PACKAGE_NOT_INSTALLED|UNSUPPORTED_PACKAGE_VERSION"
)
_OTHER_VERSION = re.compile(r"The worker has lancewright \S+, the driver \S+?(?=\.? |\.?$)", re.MULTILINE)
# A classic session that was stopped has no context any more, and says so as Python does.
_CLOSED = re.compile(
    r"NO_ACTIVE_SESSION|SparkContext was shut ?down|stopped SparkContext|SESSION_CLOSED"
    r"|'NoneType' object has no attribute '(?:sc|_jvm|_jsc)'"
)
_MEANINGFUL = re.compile(
    r"^(?!\s*at |\s*File |Traceback|\s*$).*(Error|Exception|failure|lost|exited).*$", re.MULTILINE
)
_MESSAGE_MAX = 400


def translate_spark_error(error: BaseException, fragments: tuple[int, ...]) -> LancewrightError:
    """Say what to do; the caller raises it ``from`` the original."""
    text = str(error)
    missing = _NO_PACKAGE.search(text)
    if missing:
        package = missing.group(1) or "lancewright"
        return UnsupportedError(
            f"Spark's Python workers cannot import {package}",
            "Install lancewright on every executor, or ship an environment with spark.archives / --archives, "
            "and point PYSPARK_PYTHON at it.",
        )
    old_lance = _OLD_LANCE.search(text)
    if old_lance:
        return UnsupportedError(
            f"Spark's executors have an old pylance: {old_lance.group(0)}",
            "Install there the release that the driver has.",
        )
    other_version = _OTHER_VERSION.search(text)
    if other_version:
        return UnsupportedError(
            other_version.group(0), "Install the same version on the driver and on every executor."
        )
    if _ENVIRONMENT.search(text):
        return UnsupportedError(
            f"Spark's Python workers do not fit the driver: {_gist(text)}",
            "Use the same Python, pandas and pyarrow on driver and executors.",
        )
    if _CLOSED.search(text):
        return TasksFailedError(
            "The Spark session is closed",
            "Start a session, pass it to lancewright.open, then make the same call again: finished tasks are kept.",
            fragments,
        )
    return TasksFailedError(
        f"Spark could not run the job: {_gist(text)}",
        "Look at the executor logs, then run the same call again: finished tasks are kept and not repeated.",
        fragments,
    )


def _gist(text: str) -> str:
    match = _MEANINGFUL.search(text)
    return (match.group(0) if match else text.strip().split("\n", maxsplit=1)[0]).strip()[:_MESSAGE_MAX]
