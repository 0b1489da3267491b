"""An embedded session is set up for one machine, and leaves what the user has chosen alone."""

from __future__ import annotations

import os

import pytest

from lancewright.spark.session import _is_one_process, _launch_environment, _launch_settings


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_SUBMIT_OPTS", "MALLOC_ARENA_MAX", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("master", "expected"),
    [("local", True), ("local[*]", True), ("local[2,3]", True), ("local-cluster[2,1,1024]", False), ("spark://host:7077", False)],
)  # fmt: skip
def test_only_a_session_of_one_process_does_without_checksums(master: str, expected: bool) -> None:
    assert _is_one_process(master) is expected


def test_a_jvm_of_ours_keeps_its_memory_and_what_the_user_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_ARENA_MAX", "7")
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine=1")

    settings = _launch_settings("local[*]", is_quiet=True)

    assert "MALLOC_ARENA_MAX" not in settings
    assert int(settings["MALLOC_TRIM_THRESHOLD_"]) > 0
    assert settings["SPARK_SUBMIT_OPTS"].startswith("-Dmine=1 -Dlog4j2.configurationFile=")
    assert _launch_settings("spark://host:7077", is_quiet=False) == {}


def test_the_environment_of_a_launch_is_gone_after_it_also_when_it_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine=1")

    with pytest.raises(RuntimeError, match="-Dours=1"):
        _fail_to_launch({"SPARK_SUBMIT_OPTS": "-Dours=1", "MALLOC_ARENA_MAX": "2"})

    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Dmine=1"
    assert "MALLOC_ARENA_MAX" not in os.environ


def _fail_to_launch(settings: dict[str, str]) -> None:
    with _launch_environment(settings):
        raise RuntimeError(os.environ["SPARK_SUBMIT_OPTS"])
