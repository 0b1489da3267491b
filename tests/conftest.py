"""Fixtures every test may ask for. Spark starts once per run, and only when a test asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import is_hypothesis_test, seed, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Under ``CI`` Hypothesis fixes its examples by the name of the test: give every table of a parametrised test its own."""
    if isinstance(item, pytest.Function) and settings.default.derandomize and is_hypothesis_test(item.obj):
        seed(item.nodeid)(item.obj)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A classic session on two local cores."""
    from support.sessions import classic_session

    session = classic_session()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session through Spark Connect."""
    from support.sessions import connect_session

    with connect_session(tmp_path_factory.mktemp("connect")) as session:
        yield session
