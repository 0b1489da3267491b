"""Chooses which segments of an index are merged into one: neighbours of about the same size, never what must not be. Pure.

Size-tiered: a segment is merged with others of its tier, so that over an index's life a row is copied once per tier and not
once per merge. Nothing is merged whose merge would bring old values back.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from lancewright.build.groups import cut_contiguous
from lancewright.build.merge_policy import SEGMENT_BYTES_TARGET, SEGMENTS_MAX
from lancewright.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lancewright.model.index import Segment

# Below this a segment is small: opening it costs a query as much as reading it.
SMALL_BYTES = 16 << 20
TIER_FACTOR = 4
SEGMENTS_PER_TIER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRules:
    """How far an index is merged: to ``segments`` when given, else by tiers, up to a size and below a number."""

    segments: int | None = None
    segment_bytes_target: int = SEGMENT_BYTES_TARGET
    segments_max: int = SEGMENTS_MAX
    segments_per_tier: int = SEGMENTS_PER_TIER
    small_bytes: int = SMALL_BYTES

    def __post_init__(self) -> None:
        """Refuse numbers that make no index."""
        if self.segments is not None and (isinstance(self.segments, bool) or self.segments < 1):
            raise InvalidRequestError(
                f"segments={self.segments!r} makes no index", "Ask for one segment or more."
            )


def choose_groups(
    segments: Sequence[Segment], refusals: Mapping[str, str], likeness: Mapping[str, str], rules: MergeRules
) -> tuple[tuple[Segment, ...], ...]:
    """Groups of two or more, each to become one segment.

    ``refusals`` says by uuid what must not be merged. ``likeness`` names by uuid what segments must have in common.
    """
    ordered = sorted(segments, key=lambda segment: segment.covered.min() if segment.covered else -1)
    runs = [
        list(run)
        for allowed, run in groupby(
            ordered, key=lambda segment: None if segment.uuid in refusals else likeness.get(segment.uuid, "")
        )
        if allowed is not None
    ]
    many = [run for run in runs if len(run) > 1]
    fixed = len(segments) - sum(len(run) for run in many)
    if rules.segments is not None:
        groups = _cut_to(many, max(len(many), rules.segments - fixed))
    else:
        groups = [group for run in many for group in _tiers(run, rules)]
        count = len(segments) - sum(len(group) - 1 for group in groups)
        if count > rules.segments_max:
            groups = _cut_to(many, max(len(many), rules.segments_max - fixed))
    return tuple(tuple(group) for group in groups if len(group) > 1)


def _tiers(run: Sequence[Segment], rules: MergeRules) -> list[list[Segment]]:
    """Neighbours of one tier, when there are enough of them, in pieces no larger than the target."""
    groups = []
    for _, found in groupby(run, key=lambda segment: _tier(_size(segment), rules)):
        members = list(found)
        if len(members) < rules.segments_per_tier:
            continue
        sizes = [_size(segment) for segment in members]
        count = -(-sum(sizes) // rules.segment_bytes_target)
        groups += [[members[place] for place in cut] for cut in cut_contiguous(sizes, count)]
    return groups


def _tier(size: int, rules: MergeRules) -> int:
    tier, bound = 0, rules.small_bytes
    while size >= bound:
        tier, bound = tier + 1, bound * TIER_FACTOR
    return tier


def _cut_to(runs: Sequence[Sequence[Segment]], count: int) -> list[list[Segment]]:
    """Share a number of segments out over the runs by size, at least one to each."""
    sizes = [sum(map(_size, run)) for run in runs]
    counts = [1] * len(runs)
    for _ in range(count - len(runs)):
        room = [place for place in range(len(runs)) if counts[place] < len(runs[place])]
        if not room:
            break
        counts[max(room, key=lambda place: sizes[place] / counts[place])] += 1
    return [
        [run[place] for place in cut]
        for run, parts in zip(runs, counts, strict=True)
        for cut in cut_contiguous([_size(segment) for segment in run], parts)
    ]


def _size(segment: Segment) -> int:
    return max(1, segment.size_bytes or 0)
