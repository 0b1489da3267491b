"""Counts the rows that a table once had and has no more, as far as its manifest tells."""

from __future__ import annotations

from typing import Any

from lancewright.table.manifest_messages import Manifest


def count_gone_rows(dataset: Any) -> int:  # Any: pylance's dataset is untyped
    """How many rows were deleted from a table with stable row ids, at most.

    Once their fragments are compacted nothing tells Lance that they are gone: an index still ranks them, and they take places among its
    best. With row addresses a compaction leaves them out of the index.
    """
    if not dataset.has_stable_row_ids:
        return 0
    manifest = Manifest.FromString(dataset._ds.serialized_manifest())  # noqa: SLF001 - pylance has no public way to it
    return max(0, int(manifest.next_row_id) - int(dataset.count_rows()))
