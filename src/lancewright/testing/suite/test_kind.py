"""One test for each promise of the contract, tried on the kind named on the command line."""

from __future__ import annotations

import importlib

import pytest

from lancewright.testing.checks import CHECKS, OPTIONAL
from lancewright.testing.harness import KindHarness, usual_harness
from lancewright.testing.run import run_check


@pytest.fixture(scope="session")
def harness(request: pytest.FixtureRequest) -> KindHarness:
    """The harness named, or the usual one for the kind named."""
    named = request.config.getoption("--index-harness")
    if named:
        module, _, attribute = named.partition(":")
        found = getattr(importlib.import_module(module), attribute)
        made = found if isinstance(found, KindHarness) else found()
        assert isinstance(made, KindHarness), f"{named} is no KindHarness"  # noqa: S101 - a test
        return made
    kind = request.config.getoption("--index-kind")
    if not kind:
        pytest.skip("name a kind with --index-kind, or its harness with --index-harness")
    return usual_harness(kind)


@pytest.mark.parametrize("name", sorted(set(CHECKS) - OPTIONAL))
def test_mandatory(harness: KindHarness, name: str) -> None:
    """Every kind keeps this promise."""
    result = run_check(harness, name)

    assert result.passed, result.details  # noqa: S101 - a test


@pytest.mark.parametrize("name", sorted(OPTIONAL))
def test_optional(harness: KindHarness, name: str) -> None:
    """A good kind keeps this promise; one that does not still conforms."""
    result = run_check(harness, name)

    if not result.passed:
        pytest.xfail(result.problem)
