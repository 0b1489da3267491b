"""Chooses what of an index whose kind is not Lance's is merged, or written anew after a deferred compaction. Reads no row."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancewright.kinds.registry import require_plugin
from lancewright.kinds.segment.judging import declared_as
from lancewright.maintain.judgement import EXPLANATIONS, Cause
from lancewright.maintain.kind_judgement import inherit_kind_request, judge
from lancewright.maintain.merge_plan import MergeRules, choose_groups
from lancewright.maintain.rewrite import begin_rewrite
from lancewright.model.segment_details import details_from_bytes

if TYPE_CHECKING:
    from collections.abc import Collection

    from lancewright.build.index_work import IndexWork
    from lancewright.maintain.evidence import Past
    from lancewright.maintain.judgement import Judgement
    from lancewright.model.index import IndexState, Segment
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.table.location import TableRef

OLD_FORMAT = "it has an older format than the kind writes now: build the index anew"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRewrite:
    """Groups of segments, each to become one, and of the others why not."""

    judgement: Judgement
    groups: tuple[tuple[Segment, ...], ...]
    refused: tuple[str, ...]

    def work(self, table: TableRef, snapshot: TableSnapshot) -> IndexWork | None:
        """The work of it; None when nothing is due."""
        if not self.groups:
            return None
        resolved = inherit_kind_request(table.pinned(snapshot.version), snapshot, self.judgement)
        return begin_rewrite(snapshot, resolved, self.groups)


def choose_kind_merge(
    table: TableRef, snapshot: TableSnapshot, index: IndexState, past: Past, rules: MergeRules
) -> KindRewrite:
    """What to merge, by size; raises UnsupportedError when the plugin cannot be used."""
    judgement = judge(table, snapshot, index, past)
    refusals = _refuse(judgement)
    likeness = {
        segment.uuid: _likeness(snapshot, segment)
        for segment in index.segments
        if segment.uuid not in refusals
    }
    rows_max = require_plugin(index.kind).rows_max
    groups = choose_groups(index.segments, refusals, likeness, rules)
    return KindRewrite(
        judgement=judgement,
        groups=tuple(piece for group in groups for piece in _within(snapshot, group, rows_max)),
        refused=tuple(dict.fromkeys(refusals.values())),
    )


def choose_kind_catch_up(
    table: TableRef, snapshot: TableSnapshot, index: IndexState, past: Past, waiting: Collection[Segment]
) -> KindRewrite:
    """The segments that can be written with the places their rows have now."""
    judgement = judge(table, snapshot, index, past)
    refusals = _refuse(judgement)
    return KindRewrite(
        judgement=judgement,
        groups=tuple((segment,) for segment in waiting if segment.uuid not in refusals),
        refused=tuple(
            dict.fromkeys(refusals[segment.uuid] for segment in waiting if segment.uuid in refusals)
        ),
    )


def _refuse(judgement: Judgement) -> dict[str, str]:
    """By uuid, why a segment must not be made part of another."""
    writes = require_plugin(judgement.index.kind).writes
    refusals = {}
    for verdict in judgement.verdicts:
        if verdict.cause is not Cause.FINE:
            refusals[verdict.segment.uuid] = f"refresh first: {EXPLANATIONS[verdict.cause]}"
        elif details_from_bytes(verdict.segment.details).format != writes:
            refusals[verdict.segment.uuid] = OLD_FORMAT
    return refusals


def _likeness(snapshot: TableSnapshot, segment: Segment) -> str:
    details = details_from_bytes(segment.details)
    declared = (declared_as(snapshot, segment, details), details.values)
    return hashlib.sha256(repr(declared).encode()).hexdigest()


def _within(snapshot: TableSnapshot, group: tuple[Segment, ...], rows_max: int) -> list[tuple[Segment, ...]]:
    """The group in pieces of no more rows than one segment of the kind is made for."""
    alive = snapshot.fragments_by_id
    pieces: list[list[Segment]] = []
    room = 0
    for segment in group:
        fragments = [alive[fragment] for fragment in segment.covered if fragment in alive]
        rows = sum(fragment.rows + fragment.deleted_rows for fragment in fragments)
        if not pieces or rows > room:
            pieces.append([])
            room = rows_max
        pieces[-1].append(segment)
        room -= rows
    return [tuple(piece) for piece in pieces if len(piece) > 1]
