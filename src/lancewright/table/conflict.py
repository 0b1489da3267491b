"""Answers which freshly built segments still fit a table that moved on, and what has to be built again. Pure.

A build proves what it read: for each fragment the files that held the column and the deletions it saw. A later
snapshot is compared with that proof, so nothing depends on which engine made the change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyroaring import BitMap, FrozenBitMap

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lancewright.model.index import Segment
    from lancewright.model.snapshot import Fragment, TableSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentProof:
    """What one fragment looked like when it was read for an index."""

    fragment_id: int
    column_stamp: str
    deletion_stamp: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltSegment:
    """A segment on storage that is not committed, with the proof of what it was built from.

    ``trimmed`` says that it holds postings of fragments it no longer covers: readers ignore them, a merge would not.
    """

    segment: Segment
    rows: int
    proofs: tuple[FragmentProof, ...]
    trimmed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SalvageRule:
    """How far a segment of this kind may be kept when parts of what it covers are gone.

    A segment that covers less than it was built over still holds the other postings, and Lance masks by what the whole
    index covers. ``trims_alive``: fragments that still exist may be taken out, to be covered by another segment.
    ``trims_gone``: fragments that no longer exist may be.
    ``needs_untouched_rows``: rows moved by an update would leave stale postings beside a newer segment, so one
    deleted row spoils the fragment (Lance: stable row ids with bitmap, label_list or inverted).
    ``deletions_only_grow``: nobody went back to an earlier version meanwhile. Going back brings deleted rows back to
    life, and a segment that was built without them would hide them.
    """

    trims_alive: bool
    trims_gone: bool
    needs_untouched_rows: bool = False
    deletions_only_grow: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvage:
    """What can be kept of a build, and the fragments to build again."""

    kept: tuple[BuiltSegment, ...]
    lost: FrozenBitMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """One compaction group between two versions: the old fragments became the new ones."""

    old: FrozenBitMap
    new: FrozenBitMap


def prove_fragments(fragments: Iterable[Fragment], leaf_ids: tuple[int, ...]) -> tuple[FragmentProof, ...]:
    """Record what the column looks like in these fragments."""
    return tuple(
        FragmentProof(
            fragment_id=fragment.id,
            column_stamp=fragment.stamp(leaf_ids),
            deletion_stamp=fragment.deletion_stamp,
        )
        for fragment in fragments
    )


def salvage_segments(
    snapshot: TableSnapshot,
    built: Iterable[BuiltSegment],
    wanted: FrozenBitMap,
    leaf_ids: tuple[int, ...],
    rule: SalvageRule,
) -> Salvage:
    """Keep of ``built`` what the snapshot still bears out and ``wanted`` lacks; ``lost`` is what remains uncovered."""
    kept: list[BuiltSegment] = []
    lost = BitMap(wanted)
    for candidate in built:
        fitting = _trim(snapshot, candidate, leaf_ids, rule)
        # Several segments may be at hand for one group of fragments: the first one is enough.
        if fitting is None or not fitting.segment.covered <= lost:
            continue
        kept.append(fitting)
        lost -= fitting.segment.covered
    return Salvage(kept=tuple(kept), lost=FrozenBitMap(lost))


def follow_fragments(
    wanted: FrozenBitMap, rewrites: Iterable[Rewrite], snapshot: TableSnapshot
) -> FrozenBitMap:
    """Return where the rows of the ``wanted`` fragments live now, going through compactions in commit order."""
    current = BitMap(wanted)
    for rewrite in rewrites:
        if not current.isdisjoint(rewrite.old):
            current -= rewrite.old
            current |= rewrite.new
    return FrozenBitMap(current & BitMap(snapshot.fragments_by_id))


def find_overlap(segments: Iterable[Segment]) -> FrozenBitMap:
    """Fragments that more than one segment claims: such a set must never be committed."""
    seen, twice = BitMap(), BitMap()
    for segment in segments:
        twice |= seen & segment.covered
        seen |= segment.covered
    return FrozenBitMap(twice)


def _trim(
    snapshot: TableSnapshot, candidate: BuiltSegment, leaf_ids: tuple[int, ...], rule: SalvageRule
) -> BuiltSegment | None:
    alive = snapshot.fragments_by_id
    fitting = tuple(proof for proof in candidate.proofs if _still_holds(proof, alive, leaf_ids, rule))
    if len(fitting) == len(candidate.proofs):
        return candidate
    if not fitting or not _may_trim(candidate, fitting, alive, rule):
        return None
    fragments = FrozenBitMap(proof.fragment_id for proof in fitting)
    return replace(
        candidate, segment=replace(candidate.segment, fragments=fragments), proofs=fitting, trimmed=True
    )


def _may_trim(
    candidate: BuiltSegment,
    fitting: tuple[FragmentProof, ...],
    alive: Mapping[int, Fragment],
    rule: SalvageRule,
) -> bool:
    lost = {proof.fragment_id for proof in candidate.proofs} - {proof.fragment_id for proof in fitting}
    return all(rule.trims_alive if fragment in alive else rule.trims_gone for fragment in lost)


def _still_holds(
    proof: FragmentProof, alive: Mapping[int, Fragment], leaf_ids: tuple[int, ...], rule: SalvageRule
) -> bool:
    fragment = alive.get(proof.fragment_id)
    if fragment is None or fragment.stamp(leaf_ids) != proof.column_stamp:
        return False
    if fragment.deletion_stamp == proof.deletion_stamp:
        return True
    if rule.needs_untouched_rows:
        return False
    return proof.deletion_stamp is None or rule.deletions_only_grow
