"""Which rows a segment may know from before an update, and which indexes may be asked."""

from __future__ import annotations

import numpy as np

from lancewright.query.search.trust import (
    find_stale,
    may_be_stale,
    older_than_compaction,
    trusts_scalar_indexes,
)
from support.values import fragment, segment, snapshot

INVERTED = "/lance.table.InvertedIndexDetails"
BITMAP = "/lance.table.BitmapIndexDetails"
FM = "/lance.index.pb.FMIndexDetails"
VECTOR = "/lance.index.pb.VectorIndexDetails"
HNSW_SQ, FLAT = b"\x1a\x02\x08\x14*\x02\x08\x08", b"\x08\x01B\x00"
REUSE = "/lance.table.FragmentReuseIndexDetails"


def test_a_row_is_stale_when_a_segment_was_built_between_its_creation_and_its_last_update() -> None:
    table = snapshot(
        [fragment(0), fragment(1)],
        [
            segment([0], type_url=INVERTED, dataset_version=4),
            segment([1], type_url=INVERTED, dataset_version=8),
        ],
        stable_row_ids=True,
    )
    created = np.array([1, 1, 1, 5, 6, 4], dtype=np.uint64)
    updated = np.array([1, 4, 5, 8, 6, 7], dtype=np.uint64)

    stale = find_stale(table.indexes[0], created, updated)

    assert stale.tolist() == [False, False, True, False, False, True]


def test_segments_of_one_version_or_rows_that_change_their_id_are_never_stale() -> None:
    apart = [
        segment([0], type_url=INVERTED, dataset_version=4),
        segment([1], type_url=INVERTED, dataset_version=8),
    ]
    together = [segment([place], type_url=INVERTED, dataset_version=4) for place in (0, 1)]
    fragments = [fragment(0), fragment(1)]

    def verdict(segments: list, *, stable: bool) -> bool:
        table = snapshot(fragments, segments, stable_row_ids=stable)
        return may_be_stale(table, table.indexes[0])

    assert verdict(apart, stable=True)
    assert not verdict(apart, stable=False)
    assert not verdict(together, stable=True)


def test_filters_are_not_answered_by_indexes_of_which_one_may_be_wrong() -> None:
    fragments = [fragment(0), fragment(1)]
    fine = [segment([0, 1], name="fine")]
    stale = [segment([place], name="bits", type_url=BITMAP, dataset_version=place + 1) for place in (0, 1)]

    assert trusts_scalar_indexes(snapshot(fragments, fine, stable_row_ids=True))
    assert trusts_scalar_indexes(snapshot(fragments, [*fine, *stale], stable_row_ids=False))
    assert not trusts_scalar_indexes(snapshot(fragments, [*fine, *stale], stable_row_ids=True))
    assert not trusts_scalar_indexes(snapshot(fragments, [segment([0], name="sub", type_url=FM)]))


def test_only_graphs_older_than_a_deferred_compaction_are_set_aside() -> None:
    reuse = segment([], name="__lance_frag_reuse", type_url=REUSE, dataset_version=5)

    def set_aside(version: int, details: bytes) -> int:
        entry = segment([0], type_url=VECTOR, details=details, dataset_version=version)
        table = snapshot([fragment(0)], [entry, reuse])
        index = table.index("ix")
        assert index is not None
        return len(older_than_compaction(table, index))

    assert set_aside(5, HNSW_SQ) == 1
    assert set_aside(6, HNSW_SQ) == 0
    assert set_aside(5, FLAT) == 0
