"""Answers which finished segments are merged into one, so that an index ends with few segments. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from lancewright.build.groups import cut_contiguous

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lancewright.table.conflict import BuiltSegment

# One merge is one task: this bounds what one executor reads and writes, and what one query opens.
SEGMENT_BYTES_TARGET = 4 << 30
# Past this many segments a query pays more for opening them than one longer merge costs.
SEGMENTS_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePolicy:
    """How many segments an index may end with: exactly ``segments`` when given, else by size."""

    segments: int | None = None
    segment_bytes_target: int = SEGMENT_BYTES_TARGET
    segments_max: int = SEGMENTS_MAX


def choose_segment_count(size_bytes: int, policy: MergePolicy) -> int:
    """The number of segments for an index of this size."""
    if policy.segments is not None:
        return policy.segments
    return max(1, min(policy.segments_max, -(-size_bytes // policy.segment_bytes_target)))


def plan_merges(
    built: Sequence[BuiltSegment], policy: MergePolicy, version: int
) -> tuple[tuple[BuiltSegment, ...], ...]:
    """Group segments, in fragment order, into the final ones; a group of one stays as it is.

    A trimmed segment, or one read from another version, is never merged: a merge would carry over its stale postings.
    It counts towards the number all the same.
    """
    ordered = sorted(built, key=_first_fragment)
    runs = [list(run) for _, run in groupby(ordered, key=lambda candidate: _is_mergeable(candidate, version))]
    shares = _share_count(runs, policy, version)
    return tuple(group for run, share in zip(runs, shares, strict=True) for group in _cut_run(run, share))


def _share_count(runs: Sequence[Sequence[BuiltSegment]], policy: MergePolicy, version: int) -> list[int]:
    """How many segments each run ends as: as many as it has where they stay, else one, and more where it shrinks most."""
    sizes = [sum(map(_size, run)) for run in runs]
    free = [place for place, run in enumerate(runs) if _is_mergeable(run[0], version)]
    shares = [1 if place in free else len(run) for place, run in enumerate(runs)]
    total = choose_segment_count(sum(sizes[place] for place in free), policy)
    if policy.segments is None:
        total = min(total + sum(shares) - len(free), policy.segments_max)
    while sum(shares) < total and (
        divisible := [place for place in free if shares[place] < len(runs[place])]
    ):
        shares[max(divisible, key=lambda place: sizes[place] / shares[place])] += 1
    return shares


def _cut_run(run: Sequence[BuiltSegment], count: int) -> list[tuple[BuiltSegment, ...]]:
    cuts = cut_contiguous([_size(candidate) for candidate in run], count)
    return [tuple(run[place] for place in cut) for cut in cuts]


def _size(candidate: BuiltSegment) -> int:
    return max(1, candidate.segment.size_bytes or 0)


def _is_mergeable(candidate: BuiltSegment, version: int) -> bool:
    return not candidate.trimmed and candidate.segment.dataset_version == version


def _first_fragment(candidate: BuiltSegment) -> int:
    covered = candidate.segment.covered
    return covered.min() if covered else -1
