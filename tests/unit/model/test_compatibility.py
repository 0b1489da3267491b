"""Which manifest entries may be used, and under what name they are grouped."""

from __future__ import annotations

import pytest

from lancewright.kinds import registry
from lancewright.model.compatibility import NATIVE_TYPES, group_segments, judge_native, kind_of_segment
from lancewright.model.index import SkipReason
from support.values import column, segment, snapshot

BTREE = "/lance.table.BTreeIndexDetails"


@pytest.mark.parametrize(("type_url", "known"), NATIVE_TYPES.items())
def test_the_newest_known_version_may_be_used_and_the_next_may_not(
    type_url: str, known: tuple[str, int]
) -> None:
    kind, newest = known

    assert judge_native(segment({0}, type_url=type_url, index_version=newest)) is None
    verdict = judge_native(segment({0}, type_url=type_url, index_version=newest + 1))

    assert verdict is not None
    assert verdict.reason is SkipReason.TOO_NEW
    assert f"{kind} version {newest + 1} is newer than {newest}" in verdict.explanation


@pytest.mark.parametrize(
    "type_url", ["/example.Custom", "/foo.BTreeIndexDetails", "/lance.table.BTreeIndexDetails2"]
)
def test_an_unknown_type_may_not_be_used_and_the_explanation_names_it(type_url: str) -> None:
    verdict = judge_native(segment({0}, type_url=type_url))

    assert verdict is not None
    assert verdict.reason is SkipReason.UNKNOWN_TYPE
    assert type_url in verdict.explanation


@pytest.mark.parametrize("type_url", [None, ""])
def test_an_entry_without_a_type_may_not_be_used(type_url: str | None) -> None:
    entry = segment({0}, type_url=type_url)

    verdict = judge_native(entry)

    assert verdict is not None
    assert verdict.reason is SkipReason.NO_TYPE
    assert kind_of_segment(entry) == "unknown"


@pytest.mark.parametrize("type_url", [BTREE.upper(), BTREE.lower(), f"type.googleapis.com{BTREE}"])
def test_a_type_is_compared_as_lance_does_without_case_and_without_what_stands_before_the_slash(
    type_url: str,
) -> None:
    entry = segment({0}, type_url=type_url)

    assert judge_native(entry) is None
    assert kind_of_segment(entry) == "btree"


@pytest.mark.parametrize("kind", registry.list_kinds(), ids=lambda kind: kind.name)
def test_a_segment_of_every_kind_we_build_may_be_used(kind: registry.NativeKind) -> None:
    entry = segment({0}, type_url=kind.type_url, index_version=kind.index_version_max)

    assert judge_native(entry) is None
    assert kind_of_segment(entry) in {kind.name, "vector"}


def test_segments_of_one_name_are_one_index_in_the_order_of_the_manifest() -> None:
    entries = (segment({0}, "b"), segment({1}, "a"), segment({2}, "b"))

    indexes = snapshot(segments=entries).indexes

    assert [(index.name, index.kind, index.columns) for index in indexes] == [
        ("b", "btree", ("id",)),
        ("a", "btree", ("id",)),
    ]
    assert indexes[0].segments == (entries[0], entries[2])


def test_bookkeeping_of_lance_is_no_index_but_stays_a_segment() -> None:
    entry = segment(
        None, "__lance_frag_reuse", field_ids=(), type_url="/lance.table.FragmentReuseIndexDetails"
    )

    table = snapshot(segments=[entry])

    assert table.indexes == ()
    assert table.segments == (entry,)
    assert entry.is_system


def test_a_segment_whose_column_is_gone_is_skipped_before_its_type_is_looked_at() -> None:
    entry = segment({0}, field_ids=(77,), type_url="/example.Custom")

    (index,) = snapshot(segments=[entry]).indexes

    assert index.segments == ()
    assert [skipped.reason for skipped in index.skipped] == [SkipReason.COLUMN_DROPPED]
    assert "field 77" in index.skipped[0].explanation
    assert index.columns == ()


def test_one_unusable_segment_does_not_hide_the_usable_ones() -> None:
    usable, unusable = segment({0}), segment({1}, index_version=99)

    (index,) = snapshot(segments=[unusable, usable]).indexes

    assert index.kind == "btree"
    assert index.segments == (usable,)
    assert [skipped.segment for skipped in index.skipped] == [unusable]


def test_another_judge_decides_when_one_is_given() -> None:
    entry = segment({0}, type_url="/example.Custom")

    (index,) = group_segments((entry,), {0: column("id")}, judge=lambda _segment: None)

    assert index.segments == (entry,)


def test_the_size_of_an_index_is_unknown_when_one_segment_does_not_list_its_files() -> None:
    assert segment({0}).size_bytes is None
    assert segment({0}, files=()).size_bytes == 0
    (index,) = snapshot(segments=[segment({0}), segment({1}, files=())]).indexes
    assert index.size_bytes is None
