"""The golden segments of the kinds that come with the package.

Run as a program after a kind was given a new format: it writes what is missing, and never changes what is there.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from lancewright.kinds.composite.kind import CompositeKind
from lancewright.kinds.hnsw.kind import HnswKind
from lancewright.kinds.interval.kind import IntervalKind
from lancewright.kinds.key.kind import KeyKind
from lancewright.kinds.spatial.kind import SpatialKind
from lancewright.testing import Case, KindHarness, write_golden

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
_I, _T, _F = pa.int64(), pa.string(), pa.float64()
_KINDS = (
    (CompositeKind, ((_I, _T), (pa.bool_(), _F, _T), (pa.uint64(), _F, pa.timestamp("ns"), _T))),
    (KeyKind, ((_T,), (_I, _T))),
    (IntervalKind, ((_I, _I), (_F, _F), (pa.timestamp("ns"), pa.timestamp("ns")))),
    (HnswKind, ((pa.list_(pa.float32(), 4),),)),
    (SpatialKind, ((_F, _F), (pa.float32(), _F))),
)
KEPT = tuple(
    KindHarness(
        kind=kind,
        cases=tuple(Case(types=types) for types in several),
        # A graph ranks, and answers no filter.
        filters=kind is not HnswKind,
        golden=GOLDEN,
    )
    for kind, several in _KINDS
)

if __name__ == "__main__":
    for harness in KEPT:
        for path in write_golden(harness):
            print(path)  # noqa: T201  a program
