"""Merging segments gives the segment that building over their rows would have given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancewright.kinds.contract import Part
from lancewright.kinds.segment.store import WritingStore
from lancewright.testing.checks.asking import offers_of
from lancewright.testing.expecting import expect
from lancewright.testing.fake import MemoryPlace
from lancewright.testing.stores import PlainStore

if TYPE_CHECKING:
    from lancewright.testing.harness import Case
    from lancewright.testing.laboratory import Laboratory

_TRIES = 20


def check_a_merge_is_a_build_over_all_rows(laboratory: Laboratory) -> None:
    """Rows move to the numbers they are given."""
    for case in laboratory.harness.cases if laboratory.harness.merges else ():
        _compare(laboratory, case, drop=0.0)


def check_a_merge_drops_the_rows_it_is_told_to(laboratory: Laboratory) -> None:
    """Deleted rows go, all of them if need be."""
    for case in laboratory.harness.cases if laboratory.harness.merges else ():
        _compare(laboratory, case, drop=0.4)
        _compare(laboratory, case, drop=1.0)


def _compare(laboratory: Laboratory, case: Case, drop: float) -> None:
    kind, spec = laboratory.kind, laboratory.spec(case)
    parts = [laboratory.build(case, laboratory.rows(case, count)) for count in (70, 50)]
    total = sum(len(part.columns[0]) for part in parts)
    target = laboratory.random.permutation(total)
    target[laboratory.random.random(total) < drop] = -1
    merged = tuple(
        pa.concat_arrays(list(columns)) for columns in zip(*(p.columns for p in parts), strict=True)
    )
    kept = np.flatnonzero(target >= 0)
    order = kept[np.argsort(target[kept])]
    moves = np.full(total, -1)
    moves[order] = np.arange(len(order))
    place = MemoryPlace()
    store = WritingStore(place)
    given = [
        Part(reader=part.opened().reader, renumber=moves[start : start + len(part.columns[0])])
        for part, start in zip(parts, (0, len(parts[0].columns[0])), strict=True)
    ]
    expect(kind.merge(spec, given, store) is not None, "the kind merges, as its harness says")
    whole = laboratory.build(case, tuple(column.take(pa.array(order)) for column in merged))
    reader = kind.open(spec, PlainStore(place))
    for _ in range(_TRIES):
        for offer in offers_of(whole, laboratory.group(case)):
            if offer.probe.probe is not None and not offer.probe.negated:
                found = frozenset(reader.lookup(offer.probe.probe))
                built = frozenset(whole.opened().reader.lookup(offer.probe.probe))
                expect(
                    found == built, f"a merged segment names {sorted(found ^ built)[:5]} as a built one does"
                )
