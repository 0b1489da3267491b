"""Kind ``hnsw`` keeps every promise of the contract, by each metric and for each type of numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from lancewright.kinds.hnsw.kind import HnswKind
from lancewright.testing import Case, KindHarness, Ranking, run_check
from lancewright.testing.checks import CHECKS
from support.golden import GOLDEN

if TYPE_CHECKING:
    from collections.abc import Callable

WIDTH = 4
QUERY = (1.0, -0.5, 2.0, 0.25)
BITS = (3, 0, 255, 7)


def l2(vector: list[float]) -> float:
    return (
        math.fsum((one - other) ** 2 for one, other in zip(vector, QUERY, strict=True))
        if finite(vector)
        else math.nan
    )


def dot(vector: list[float]) -> float:
    return (
        1 - math.fsum(one * other for one, other in zip(vector, QUERY, strict=True))
        if finite(vector)
        else math.nan
    )


def cosine(vector: list[float]) -> float:
    if not finite(vector) or not any(vector):
        return math.nan
    return 1 - (1 - dot(vector)) / (math.hypot(*vector) * math.hypot(*QUERY))


def haversine(place: list[float]) -> float:
    longitude, latitude = place
    if not finite(place) or abs(latitude) > 90:
        return math.nan
    across = math.cos(math.radians(latitude)) * math.sin(math.radians(longitude - 1) / 2) ** 2
    return 12_742_017.5428 * math.asin(math.sqrt(math.sin(math.radians(latitude) / 2) ** 2 + across))


def hamming(vector: list[int]) -> float:
    return sum((one ^ other).bit_count() for one, other in zip(vector, BITS, strict=True))


def jaccard(vector: list[int]) -> float:
    either = sum((one | other).bit_count() for one, other in zip(vector, BITS, strict=True))
    return 1 - sum((one & other).bit_count() for one, other in zip(vector, BITS, strict=True)) / either


def finite(vector: list[float]) -> bool:
    return all(map(math.isfinite, vector))


def harness(
    metric: str, type_: pa.DataType, score: Callable[..., float], query: tuple[float, ...]
) -> KindHarness:
    return KindHarness(
        kind=HnswKind,
        cases=(Case(types=(pa.list_(type_, len(query)),), parameters={"metric": metric}),),
        rankings=(Ranking(query={"vector": query}, score=score, descending=False, recall=0.9),),
        filters=False,
    )


HARNESSES = {
    "l2 of float32": replace(harness("l2", pa.float32(), l2, QUERY), golden=GOLDEN),
    "l2 of float64": harness("l2", pa.float64(), l2, QUERY),
    "cosine of float32": harness("cosine", pa.float32(), cosine, QUERY),
    "dot of float16": harness("dot", pa.float16(), dot, QUERY),
    "haversine of float32": harness("haversine", pa.float32(), haversine, (1.0, 0.0)),
    "hamming of bits": harness("hamming", pa.uint8(), hamming, BITS),
    "jaccard of bits": harness("jaccard", pa.uint8(), jaccard, BITS),
}


RANKING = [name for name in CHECKS if "rank" in name or "best" in name or "allowed" in name]
# What has nothing to do with the metric is tried once.
FIRST, *OTHERS = HARNESSES


@pytest.mark.parametrize(
    ("of", "name"),
    [*((FIRST, name) for name in CHECKS), *((of, name) for of in OTHERS for name in RANKING)],
)
def test_the_kind_keeps_its_promises(of: str, name: str) -> None:
    result = run_check(HARNESSES[of], name)

    assert result.passed, result.details


def test_the_metrics_here_are_those_of_the_kind() -> None:
    from lancewright.kinds.hnsw.metrics import METRICS

    vectors = np.random.default_rng(0).normal(size=(20, WIDTH)).astype("f4")
    measures = {"l2": l2, "dot": dot, "cosine": cosine}

    for name, measure in measures.items():
        found = METRICS[name].distances(np.array(QUERY, "f4"), vectors)
        np.testing.assert_allclose(found, [measure(one) for one in vectors.tolist()], rtol=1e-9)
