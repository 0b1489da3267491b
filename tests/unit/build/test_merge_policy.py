"""Which finished segments are merged, and into how many."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewright.build.merge_policy import SEGMENTS_MAX, MergePolicy, choose_segment_count, plan_merges
from lancewright.model.index import SegmentFile
from support.values import built, fragment, snapshot

if TYPE_CHECKING:
    from lancewright.table.conflict import BuiltSegment

VERSION = 5
TABLE = snapshot([fragment(id_) for id_ in range(30)], version=VERSION)


@st.composite
def _finished(draw: st.DrawFn, *, mergeable: bool = False) -> list[BuiltSegment]:
    """Segments over neighbouring fragments, in any order; some trimmed, some of another version, some empty."""
    segments, start = [], 0
    for _ in range(draw(st.integers(0, 12))):
        end = min(30, start + draw(st.integers(0, 4)))
        size = draw(st.none() | st.integers(0, 1000))
        files = None if size is None else (SegmentFile(path="x", size_bytes=size),)
        entry = built(TABLE, range(start, end), files=files)
        if not mergeable and draw(st.booleans()):
            entry = replace(entry, trimmed=True)
        if not mergeable and draw(st.booleans()):
            entry = replace(entry, segment=replace(entry.segment, dataset_version=VERSION - 1))
        segments.append(entry)
        start = end
    return draw(st.permutations(segments))


POLICIES = st.builds(
    MergePolicy, segments=st.none() | st.integers(1, 9), segment_bytes_target=st.integers(1, 2000)
)


def _fits(entry: BuiltSegment) -> bool:
    return not entry.trimmed and entry.segment.dataset_version == VERSION


@given(_finished(), POLICIES)
def test_every_segment_is_in_exactly_one_group(finished: list[BuiltSegment], policy: MergePolicy) -> None:
    groups = plan_merges(finished, policy, VERSION)

    assert sorted(entry.segment.uuid for group in groups for entry in group) == sorted(
        entry.segment.uuid for entry in finished
    )
    assert all(groups)


@given(_finished(), POLICIES)
def test_a_trimmed_segment_or_one_of_another_version_is_never_merged(
    finished: list[BuiltSegment], policy: MergePolicy
) -> None:
    for group in plan_merges(finished, policy, VERSION):
        assert len(group) == 1 or all(_fits(entry) for entry in group)


@given(_finished(), POLICIES)
def test_only_neighbours_are_merged(finished: list[BuiltSegment], policy: MergePolicy) -> None:
    groups = plan_merges(finished, policy, VERSION)

    covers = [sorted(id_ for entry in group for id_ in entry.segment.covered) for group in groups]
    covers = [cover for cover in covers if cover]
    assert all(cover == list(range(cover[0], cover[-1] + 1)) for cover in covers)
    assert covers == sorted(covers)


@given(_finished(), st.integers(1, 9))
def test_segments_of_an_earlier_attempt_count_towards_what_was_asked_for(
    finished: list[BuiltSegment], segments: int
) -> None:
    groups = plan_merges(finished, MergePolicy(segments=segments), VERSION)

    ordered = sorted(finished, key=lambda entry: entry.segment.covered.min() if entry.segment.covered else -1)
    fixed = sum(not _fits(entry) for entry in ordered)
    runs = sum(fits for fits, _ in groupby(ordered, key=_fits))
    assert len(groups) <= max(segments, fixed + runs)


@given(_finished(mergeable=True).filter(bool), POLICIES)
def test_a_fresh_build_ends_with_as_many_segments_as_the_policy_says(
    finished: list[BuiltSegment], policy: MergePolicy
) -> None:
    size = sum(max(1, entry.segment.size_bytes or 0) for entry in finished)

    groups = plan_merges(finished, policy, VERSION)

    assert len(groups) == min(len(finished), choose_segment_count(size, policy))


@given(_finished(mergeable=True).filter(bool), st.integers(1, 9))
def test_merged_groups_are_about_equal_in_bytes(finished: list[BuiltSegment], segments: int) -> None:
    groups = plan_merges(finished, MergePolicy(segments=segments), VERSION)

    sizes = [sum(max(1, entry.segment.size_bytes or 0) for entry in group) for group in groups]
    largest = max(max(1, entry.segment.size_bytes or 0) for entry in finished)
    assert max(sizes) <= sum(sizes) / len(sizes) + largest


@given(st.integers(0, 1 << 50), st.integers(1, 1 << 40), st.integers(1, 100))
def test_the_number_of_segments_follows_the_size_up_to_a_bound(size: int, target: int, most: int) -> None:
    policy = MergePolicy(segment_bytes_target=target, segments_max=most)

    count = choose_segment_count(size, policy)

    assert 1 <= count <= most
    assert count == most or count * target >= size
    assert count == 1 or (count - 1) * target < size


@pytest.mark.parametrize("size", [0, 1, 1 << 60])
def test_a_number_that_was_asked_for_is_what_one_gets(size: int) -> None:
    assert choose_segment_count(size, MergePolicy(segments=200)) == 200


def test_an_index_never_ends_with_more_than_the_bound_whatever_its_size() -> None:
    assert choose_segment_count(1 << 60, MergePolicy()) == SEGMENTS_MAX


def test_nothing_finished_needs_no_merge() -> None:
    assert plan_merges([], MergePolicy(), VERSION) == ()
