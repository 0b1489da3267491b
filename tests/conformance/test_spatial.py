"""Kind ``spatial`` keeps every promise of the contract. Functions of geometries are in ``tests/properties/test_spatial.py``."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lancewright.kinds.spatial.kind import SpatialKind
from lancewright.testing import Case, KindHarness, run_check
from lancewright.testing.checks import CHECKS
from support.golden import GOLDEN

TYPES = ((pa.float64(), pa.float64()), (pa.float32(), pa.float64()), (pa.binary(),))
HARNESS = KindHarness(
    kind=SpatialKind, cases=tuple(Case(types=types) for types in TYPES), merges=True, golden=GOLDEN
)


@pytest.mark.parametrize("name", CHECKS)
def test_the_kind_keeps_its_promises(name: str) -> None:
    result = run_check(HARNESS, name)

    assert result.passed, result.details
