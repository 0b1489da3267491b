"""Kind ``interval`` keeps every promise of the contract."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lancewright.kinds.interval.kind import IntervalKind
from lancewright.testing import Case, KindHarness, run_check
from lancewright.testing.checks import CHECKS
from support.golden import GOLDEN

TYPES = (pa.int64(), pa.uint8(), pa.float64(), pa.float32(), pa.date32(), pa.timestamp("ns"))
HARNESS = KindHarness(
    kind=IntervalKind, cases=tuple(Case(types=(type_, type_)) for type_ in TYPES), merges=True, golden=GOLDEN
)


@pytest.mark.parametrize("name", CHECKS)
def test_the_kind_keeps_its_promises(name: str) -> None:
    result = run_check(HARNESS, name)

    assert result.passed, result.details
