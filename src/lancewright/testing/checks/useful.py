"""An index is there to read less."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewright.model.predicate import conjuncts
from lancewright.testing.checks.asking import ask, offers_of
from lancewright.testing.expecting import expect

if TYPE_CHECKING:
    from lancewright.testing.laboratory import Laboratory

_ROWS = 300_000
_SHARE = 0.1


def check_a_lookup_of_one_value_reads_a_small_part_of_the_segment(laboratory: Laboratory) -> None:
    """Of 300,000 different rows, less than a tenth of the bytes."""
    if not (laboratory.harness.filters and laboratory.harness.reads_less):
        return
    case = laboratory.harness.cases[0]
    columns = laboratory.many_rows(case, _ROWS)
    built = laboratory.build(case, columns, batch=50_000)
    parts = conjuncts(laboratory.equal(case, columns, _ROWS // 3))
    offer = next((one for one in offers_of(built, parts) if one.probe.probe is not None), None)
    if offer is None:
        return
    size = sum(len(content) for content in built.place.files.values())
    built.place.bytes_read = 0
    found = ask(built, offer)
    expect(_ROWS // 3 in found, "the row itself is found")
    expect(len(found) < _SHARE * _ROWS, f"one key names few rows, not {len(found):,} of {_ROWS:,}")
    expect(built.place.bytes_read < _SHARE * size, f"{built.place.bytes_read:,} of {size:,} bytes are few")
