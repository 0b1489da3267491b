"""Kind ``key`` keeps every promise of the contract."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lancewright.testing import run_check, usual_harness
from lancewright.testing.checks import CHECKS
from support.golden import GOLDEN

HARNESS = replace(usual_harness("key"), golden=GOLDEN)


@pytest.mark.parametrize("name", CHECKS)
def test_the_kind_keeps_its_promises(name: str) -> None:
    result = run_check(HARNESS, name)

    assert result.passed, result.details
