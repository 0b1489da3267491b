"""Adds the options of the kit to pytest. A module of its own, so that loading it imports nothing else."""

from __future__ import annotations

from typing import Any


def pytest_addoption(parser: Any) -> None:  # Any: pytest is not needed to import this
    """Say which kind ``lancewright.testing.suite`` tries."""
    group = parser.getgroup("lancewright")
    group.addoption("--index-kind", default=None, help="name of the index kind to try")
    group.addoption("--index-harness", default=None, help="module:NAME of a lancewright.testing.KindHarness")
