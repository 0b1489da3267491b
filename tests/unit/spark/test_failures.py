"""What Spark says when a whole job fails becomes an error that says what to do."""

from __future__ import annotations

import pytest

from lancewright.errors import LancewrightError, TasksFailedError, UnsupportedError
from lancewright.spark.failures import translate_spark_error


@pytest.mark.parametrize(
    ("text", "class_", "told"),
    [
        ("ModuleNotFoundError: No module named 'lancewright'", UnsupportedError, "cannot import lancewright"),
        ("ModuleNotFoundError: No module named 'lance'", UnsupportedError, "cannot import lance"),
        ("ModuleNotFoundError: No module named 'pyroaring'", UnsupportedError, "cannot import pyroaring"),
        (
            "UnsupportedError: pylance 0.30.0 is installed; lancewright needs 14 or newer. Run: pip install",
            UnsupportedError,
            "executors have an old pylance: pylance 0.30.0 is installed; lancewright needs 14 or newer",
        ),
        (
            "RuntimeError: The worker has lancewright 0.0.7, the driver 0.1.0. Install the same on both.",
            UnsupportedError,
            "The worker has lancewright 0.0.7, the driver 0.1.0",
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9",
            UnsupportedError,
            "fit the driver",
        ),
        ("Job aborted due to stage failure: Task 3 lost", TasksFailedError, "stage failure"),
        ("'NoneType' object has no attribute 'sc'", TasksFailedError, "session is closed"),
        ("'NoneType' object has no attribute '_jvm'", TasksFailedError, "session is closed"),
        ("[NO_ACTIVE_SESSION] No active Spark session found.", TasksFailedError, "session is closed"),
        (
            "Job 3 cancelled because SparkContext was shut down",
            TasksFailedError,
            "session is closed",
        ),
        ("Cannot call methods on a stopped SparkContext.", TasksFailedError, "session is closed"),
    ],
)
def test_each_failure_is_told_with_what_to_do(text: str, class_: type[LancewrightError], told: str) -> None:
    error = translate_spark_error(RuntimeError(text), (3, 4))

    assert type(error) is class_
    assert told in error.problem
    assert error.remedy


def test_a_failed_job_names_the_fragments_of_its_tasks() -> None:
    error = translate_spark_error(RuntimeError("Job aborted due to stage failure"), (3, 4))

    assert isinstance(error, TasksFailedError)
    assert error.fragments == (3, 4)


def test_a_closed_session_is_no_matter_of_executor_logs() -> None:
    error = translate_spark_error(AttributeError("'NoneType' object has no attribute 'sc'"), ())

    assert "executor logs" not in error.remedy
    assert "lancewright.open" in error.remedy
