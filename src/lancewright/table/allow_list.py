"""Writes a set of rows in the form in which Lance takes the rows a scan is restricted to.

Lance masks by ``_rowid``: on a table without stable row ids that is the address, with them it is not, and the ids of the rows
are looked up. They lie in the manifest, so that reads no data.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from lancewright.model.row_set import row_set

if TYPE_CHECKING:
    from lancewright.model.row_set import RowSet

_COUNT = struct.Struct("<I")
_ENTRY = struct.Struct("<II")


def encode_allow_list(dataset: Any, rows: RowSet) -> bytes:  # Any: pylance's dataset is untyped
    """The rows as a roaring treemap over ``_rowid``."""
    return encode_treemap(_row_ids(dataset, rows) if dataset.has_stable_row_ids else rows)


def encode_treemap(rows: RowSet) -> bytes:
    """A treemap: how many bitmaps, then for each the upper half of its values, its length and the bitmap."""
    parts = [_COUNT.pack(len(rows.fragments))]
    for upper, lower in rows.fragments.items():
        bitmap = lower.serialize()
        parts += [_ENTRY.pack(upper, len(bitmap)), bitmap]
    return b"".join(parts)


def _row_ids(dataset: Any, rows: RowSet) -> RowSet:  # Any: as above
    fragments = [dataset.get_fragment(fragment) for fragment in rows.fragments]
    if not fragments:
        return rows
    known = dataset.scanner(
        columns=[], fragments=fragments, with_row_id=True, with_row_address=True, scan_in_order=True
    ).to_table()
    wanted = np.isin(known["_rowaddr"].to_numpy(), rows.addresses(), assume_unique=True)
    # A set of 64-bit numbers in the same shape: the upper half of an id stands where a fragment's number does.
    return row_set(known["_rowid"].to_numpy()[wanted])
