"""Which indexes a compaction could leave with an empty range, as far as a manifest tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lancewright.kinds.btree.empty_ranges import find_empty_range_risk
from lancewright.model.index import SegmentFile
from lancewright.table.config import DEFER_REMAP_KEY
from support.values import fragment, segment, snapshot

if TYPE_CHECKING:
    from lancewright.model.index import Segment

DEFERRED = {DEFER_REMAP_KEY: "true"}


def with_files(*names: str, **changes: Any) -> Segment:
    files = tuple(SegmentFile(path=name, size_bytes=1) for name in names)
    return segment([0], files=files, **changes)


def ranged(parts: int, **changes: Any) -> Segment:
    names = [f"part_{number}_page_data.lance" for number in range(parts)]
    return with_files(*names, "page_lookup.lance", **changes)


@pytest.mark.parametrize(
    ("stable", "config", "named"),
    [
        (False, {}, DEFER_REMAP_KEY),
        (False, {DEFER_REMAP_KEY: "false"}, DEFER_REMAP_KEY),
        (True, {}, "stable row ids"),
        (True, DEFERRED, "stable row ids"),
    ],
)
def test_ranges_that_a_compaction_rewrites_at_once_are_at_risk(
    stable: bool, config: dict[str, str], named: str
) -> None:
    segments = [ranged(3), ranged(2)]
    table = snapshot([fragment(0)], segments, stable_row_ids=stable, config=config)

    risk = find_empty_range_risk(table, "ix")

    assert risk is not None
    assert risk.segments == tuple(segments)
    assert named in risk.reason
    assert risk.remedy


def test_deferred_remap_protects_ranges() -> None:
    table = snapshot([fragment(0)], [ranged(3)], config=DEFERRED)

    assert find_empty_range_risk(table, "ix") is None


@pytest.mark.parametrize(
    "safe",
    [
        ranged(1),
        with_files("page_data.lance", "page_lookup.lance"),
        with_files("part_1_docs.lance", "part_2_docs.lance", type_url="/lance.table.InvertedIndexDetails"),
        ranged(3, type_url="/example.Custom"),
        segment([0]),
    ],
    ids=["one part", "plain", "inverted", "custom", "no files listed"],
)
def test_what_has_no_second_range_is_safe(safe: Segment) -> None:
    table = snapshot([fragment(0)], [safe])

    assert find_empty_range_risk(table, "ix") is None


def test_only_the_segments_of_that_name_with_ranges_are_named() -> None:
    ours, plain = ranged(3), with_files("page_data.lance", "page_lookup.lance")
    table = snapshot([fragment(0)], [plain, ours, ranged(3, name="other")])

    risk = find_empty_range_risk(table, "ix")

    assert risk is not None
    assert risk.segments == (ours,)
