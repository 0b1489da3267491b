"""Kind ``spatial`` keeps every promise of the contract. Functions of geometries are in ``tests/properties/test_spatial.py``."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from lancewright.kinds.spatial.kind import SpatialKind
from lancewright.testing import Case, KindHarness, Ranking, run_check
from lancewright.testing.checks import CHECKS
from support.golden import GOLDEN


def metres(longitude: float, latitude: float) -> float:
    """How far a place is from 1.5 degrees east, 0.5 south."""
    if not (math.isfinite(longitude) and math.isfinite(latitude)):
        return math.nan
    across = (
        math.cos(math.radians(latitude))
        * math.cos(math.radians(-0.5))
        * math.sin(math.radians(longitude - 1.5) / 2) ** 2
    )
    chord = math.sqrt(math.sin(math.radians(latitude + 0.5) / 2) ** 2 + across)
    return 2 * 6_371_008.7714 * math.asin(chord)


POINTS = ((pa.float64(), pa.float64()), (pa.float32(), pa.float64()))
NEAR = Ranking(query={"near": (1.5, -0.5)}, score=metres, descending=False)
HARNESSES = {
    "points": KindHarness(
        kind=SpatialKind,
        cases=tuple(Case(types=types) for types in POINTS),
        rankings=(NEAR,),
        merges=True,
        golden=GOLDEN,
    ),
    "geometries": KindHarness(
        kind=SpatialKind, cases=(Case(types=(pa.binary(),)),), merges=True, golden=GOLDEN
    ),
}


@pytest.mark.parametrize("of", HARNESSES)
@pytest.mark.parametrize("name", CHECKS)
def test_the_kind_keeps_its_promises(name: str, of: str) -> None:
    result = run_check(HARNESSES[of], name)

    assert result.passed, result.details
