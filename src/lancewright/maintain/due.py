"""Answers from a manifest alone whether a table may need something: compaction, catching up, a refresh or a merge. Pure.

It may say so where a closer look finds nothing. What it cannot see are damaged files, and lists that were rewritten in place before
a compaction hid that: a thorough run finds those.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from lancewright.maintain.judgement import TRANSLATED_BY_REWRITE, is_waiting
from lancewright.maintain.merge_plan import MergeRules, choose_groups
from lancewright.model.coverage import measure_coverage
from lancewright.model.segment_details import is_ours
from lancewright.table.conflict import find_overlap

if TYPE_CHECKING:
    from lancewright.maintain.policy import Policy
    from lancewright.model.index import IndexState
    from lancewright.model.snapshot import Fragment, TableSnapshot


def find_due(snapshot: TableSnapshot, policy: Policy) -> tuple[str, ...]:
    """The steps of a policy that may have something to do."""
    looks = {
        "compact": policy.compact and _may_compact(snapshot, policy),
        "catch_up": policy.catch_up and _may_catch_up(snapshot),
        "refresh": policy.refresh and any(_may_refresh(snapshot, index) for index in snapshot.indexes),
        "merge": policy.merge and any(_may_merge(index) for index in snapshot.indexes),
    }
    return tuple(step for step, is_due in looks.items() if is_due)


def _may_compact(snapshot: TableSnapshot, policy: Policy) -> bool:
    deleted = (
        fragment.deleted_rows > policy.deleted_share * fragment.physical_rows
        for fragment in snapshot.fragments
    )
    return any(deleted) or any(
        count >= policy.fragments_min for count in _small_neighbours(snapshot, policy.rows_per_fragment)
    )


def _may_catch_up(snapshot: TableSnapshot) -> bool:
    """True when a segment waits that can be written anew, or when none waits any more and the notes can go."""
    if not snapshot.deferred:
        return False
    waiting = {segment.uuid for segment in snapshot.segments if is_waiting(segment, snapshot.deferred)} - {
        segment.uuid for segment in snapshot.segments if segment.is_system
    }
    return not waiting or any(
        segment.uuid in waiting and (index.kind in TRANSLATED_BY_REWRITE or is_ours(segment.type_url))
        for index in snapshot.indexes
        for segment in index.segments
    )


def _small_neighbours(snapshot: TableSnapshot, rows_per_fragment: int) -> list[int]:
    """How many neighbours could become one each time: small, and covered by the same segments, as Lance wants it."""
    owners: dict[int, list[str]] = {}
    for segment in snapshot.segments:
        for fragment in segment.covered:
            owners.setdefault(fragment, []).append(segment.uuid)

    def belongs(fragment: Fragment) -> tuple[bool, tuple[str, ...]]:
        return fragment.rows < rows_per_fragment, tuple(sorted(owners.get(fragment.id, ())))

    runs = groupby(snapshot.fragments, key=belongs)
    return [sum(1 for _ in run) for (is_small, _), run in runs if is_small]


def _may_refresh(snapshot: TableSnapshot, index: IndexState) -> bool:
    if not index.segments:
        return False
    coverage = measure_coverage(snapshot, index)
    if coverage.gaps and snapshot.rows:
        return True
    if any(not segment.live for segment in coverage.segments) and len(index.segments) > 1:
        return True
    return bool(find_overlap(index.segments)) or _may_hold_old_values(snapshot, index)


def _may_hold_old_values(snapshot: TableSnapshot, index: IndexState) -> bool:
    """Values that changed in place show in the files; rows that were updated do not, on stable row ids."""
    several = len({segment.dataset_version for segment in index.segments}) > 1
    known = snapshot.columns_by_field_id
    columns = [known[field_id] for field_id in index.segments[0].field_ids if field_id in known]
    is_compound = any(column.field_id not in column.leaf_ids for column in columns)
    if not several and not is_compound:
        return False
    leaf_ids = tuple(leaf for column in columns for leaf in column.leaf_ids)
    rewritten = (
        len(fragment.files) > 1 or fragment.was_rewritten(leaf_ids) for fragment in snapshot.fragments
    )
    updated = (
        snapshot.stable_row_ids and several and any(fragment.deleted_rows for fragment in snapshot.fragments)
    )
    return updated or any(rewritten)


def _may_merge(index: IndexState) -> bool:
    return bool(choose_groups(index.segments, {}, {}, MergeRules()))
