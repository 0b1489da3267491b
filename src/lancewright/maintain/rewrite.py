"""Work that makes new segments out of those an index has, without reading a row: for merges and for catching up. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyroaring import FrozenBitMap

from lancewright.build.index_work import IndexWork, adopt_segments

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lancewright.build.resolve import ResolvedRequest
    from lancewright.build.rounds import Move
    from lancewright.model.index import Segment
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.table.history import History


def begin_rewrite(
    snapshot: TableSnapshot, resolved: ResolvedRequest, groups: Sequence[tuple[Segment, ...]]
) -> IndexWork:
    """The work that turns each group into one segment and leaves the rest of the index as it is."""
    replaced = {segment.uuid for group in groups for segment in group}
    covered = FrozenBitMap().union(*(segment.covered for group in groups for segment in group))
    stays = tuple(
        segment for segment in snapshot.segments_named(resolved.spec.name) if segment.uuid not in replaced
    )
    return IndexWork(
        resolved=resolved,
        wanted=FrozenBitMap(
            (covered | FrozenBitMap().union(*(segment.covered for segment in stays)))
            & FrozenBitMap(snapshot.fragments_by_id)
        ),
        swaps=True,
        stays=stays,
        rewrites=tuple(groups),
    )


def move_rewrite(sources: Collection[str]) -> Move:
    """After a conflict, keep a new segment only while everything it overlaps is what it was made of; else leave it be.

    ``sources`` are the uuids of the segments that were to be rewritten. What another writer made of them is newer.
    """

    def move(work: IndexWork, snapshot: TableSnapshot, history: History) -> IndexWork | None:
        for column in work.resolved.spec.columns:
            found = snapshot.columns_by_field_id.get(column.field_id)
            if found is None or found.type != column.type:
                return None
        named = snapshot.segments_named(work.name)
        visible = {built.segment.uuid for built in work.built}
        known = {*sources, *visible}
        kept = [
            built
            for built in work.built
            if all(segment.uuid in known for segment in _overlapped(named, built.segment))
            and any(segment.uuid in sources for segment in named)
        ]
        replaced = {segment.uuid for built in kept for segment in _overlapped(named, built.segment)}
        stays = tuple(segment for segment in named if segment.uuid not in replaced)
        covered = FrozenBitMap().union(
            *(built.segment.covered for built in kept), *(segment.covered for segment in stays)
        )
        moved = replace(
            work,
            wanted=FrozenBitMap(covered & FrozenBitMap(snapshot.fragments_by_id)),
            stays=stays,
            rewrites=(),
            built=(),
        )
        moved = adopt_segments(moved, snapshot, kept, history)
        whole = {built.segment.uuid for built in kept} == {built.segment.uuid for built in moved.built}
        # A segment that no longer fits would have to be built from rows; its sources still answer, so they stay.
        return moved if kept and whole and not any(built.trimmed for built in moved.built) else None

    return move


def _overlapped(named: Sequence[Segment], new: Segment) -> list[Segment]:
    return [segment for segment in named if not segment.covered.isdisjoint(new.covered)]
