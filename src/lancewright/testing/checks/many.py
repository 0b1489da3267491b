"""Many keys at once have the same rows as one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lancewright.testing.expecting import expect
from lancewright.testing.oracle import sort_keys

if TYPE_CHECKING:
    from lancewright.testing.laboratory import Laboratory


def check_many_keys_at_once_have_all_their_rows(laboratory: Laboratory) -> None:
    """No pair of an asked key and an equal row is missing, and a key with a NULL has none."""
    if not laboratory.harness.looks_up_many:
        return
    for case in laboratory.harness.cases:
        built = laboratory.build(case, laboratory.rows(case, 150))
        asked = laboratory.rows(case, 80)
        keys = pa.RecordBatch.from_arrays(list(asked), [key.name for key in built.spec.keys])
        places, rows = built.opened().lookup_many(keys)
        found = set(zip(places.tolist(), rows.tolist(), strict=True))
        have = list(zip(*(sort_keys(column) for column in built.columns), strict=True))
        want = list(zip(*(sort_keys(column) for column in asked), strict=True))
        expected = {
            (place, row)
            for place, key in enumerate(want)
            if None not in key
            for row, own in enumerate(have)
            if own == key
        }
        expect(expected <= found, f"pairs {sorted(expected - found)[:5]} are found")
        expect(all(None not in want[place] for place, _ in found), "a key with a NULL has no rows")
