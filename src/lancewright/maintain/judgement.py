"""Decides, for every segment of an index, whether it may stay beside new ones, has to be rewritten, or built anew. Pure.

The rules come from how Lance reads an index of several segments. It masks by what the whole index covers, not by segment:
an old segment that still holds postings of a fragment it lost answers with them as soon as a new segment covers that
fragment. And with stable row ids some kinds keep a row's old value in the older segment.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyroaring import BitMap, FrozenBitMap

from lancewright.table.conflict import find_overlap

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from lancewright.kinds.lance_native.definition import NativeKind
    from lancewright.maintain.evidence import Evidence
    from lancewright.model.index import IndexState, Segment
    from lancewright.model.snapshot import DeferredCompaction, TableSnapshot


def explain_unkept(index: IndexState) -> str:
    """Why nothing is done for an index: no segment of it can be read, or its kind is unknown."""
    if index.skipped and not index.segments:
        return index.skipped[0].explanation
    return f"kind {index.kind!r} is not known here"


class Fate(enum.StrEnum):
    """What becomes of a segment when its index is brought up to date."""

    KEEP = "keep"
    REWRITE = "rewrite"
    REBUILD = "rebuild"
    DROP = "drop"


class Cause(enum.StrEnum):
    """Why a segment does not stay as it is."""

    FINE = "fine"
    EMPTY = "empty"
    OVERLAP = "overlap"
    ONE_SEGMENT = "one_segment"
    OLD_VALUES = "old_values"
    ROWS_UPDATED = "rows_updated"
    DEFERRED_COMPACTION = "deferred_compaction"
    ROWS_LOST = "rows_lost"
    FORMAT_OLD = "format_old"
    FORMAT_TOO_NEW = "format_too_new"
    DAMAGED = "damaged"
    DECLARED_OTHERWISE = "declared_otherwise"
    FOUND_WRONG = "found_wrong"


# Kinds whose segments come out of a rewrite with the addresses that a deferred compaction gave the rows, as measured by
# tests/behaviour/test_compact.py. Others come out with the old ones and the version of the rewrite, so that nobody could
# tell any more that they have to be translated.
TRANSLATED_BY_REWRITE = frozenset({"btree", "bitmap", "label_list", "ngram", "zonemap", "bloomfilter"})
EXPLANATIONS = {
    Cause.FINE: "stays as it is",
    Cause.EMPTY: "covers no fragment that still exists",
    Cause.OVERLAP: "another segment claims the same fragments",
    Cause.ONE_SEGMENT: "this kind is right only as one segment",
    Cause.OLD_VALUES: "it may hold old values of fragments whose column was rewritten in place",
    Cause.ROWS_UPDATED: "rows it covers were updated, and it would answer with their old values",
    Cause.DEFERRED_COMPACTION: "this kind answers wrongly after a deferred compaction",
    Cause.ROWS_LOST: "a compaction moved rows it covers, and nothing tells any more where they are",
    Cause.FORMAT_OLD: "its format, or the type of its keys, is not one that is read any more",
    Cause.FORMAT_TOO_NEW: "a later release wrote it",
    Cause.DAMAGED: "its files are damaged or gone",
    Cause.DECLARED_OTHERWISE: "it was declared otherwise than what is built now, and is not asked together with it",
    Cause.FOUND_WRONG: "a verification found it wrong",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One segment and what becomes of it."""

    segment: Segment
    fate: Fate
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """An index: what becomes of its segments, and the fragments that rows have to be read of.

    ``out_of_reach``: fragments of segments that this package cannot read; they stay as they are.
    """

    index: IndexState
    verdicts: tuple[Verdict, ...]
    to_build: FrozenBitMap
    wanted: FrozenBitMap
    out_of_reach: FrozenBitMap

    @property
    def is_current(self) -> bool:
        """True when there is nothing to do."""
        return not self.to_build and all(verdict.fate is Fate.KEEP for verdict in self.verdicts)

    def segments(self, fate: Fate) -> tuple[Segment, ...]:
        """The segments with this fate."""
        return tuple(verdict.segment for verdict in self.verdicts if verdict.fate is fate)


def judge_index(
    snapshot: TableSnapshot,
    index: IndexState,
    kind: NativeKind,
    look: Callable[[int], Evidence],
    wrong: Collection[str] = (),
) -> Judgement:
    """Judge an index as it is at this version; ``look`` gives the evidence of a version, and is asked only in need.

    ``wrong`` names segments that are known to be, by uuid.
    """
    live = FrozenBitMap(snapshot.fragments_by_id)
    doubts = Doubts(snapshot, index, look)
    claimed = {segment.uuid: segment.covered for segment in index.segments}
    index = replace(index, segments=tuple(doubts.trim(segment) for segment in index.segments))
    out_of_reach = live & FrozenBitMap().union(*(entry.segment.covered for entry in index.skipped))
    wanted = live - out_of_reach
    covered = FrozenBitMap().union(*(segment.covered for segment in index.segments)) & wanted
    gaps = FrozenBitMap(wanted - covered)
    judge = _Judge(snapshot, index, kind, look, wanted, gaps)
    verdicts = tuple(
        judge.judge(segment) if segment.covered == claimed[segment.uuid] else judge.judge_wrong(segment)
        for segment in index.segments
    )
    verdicts = tuple(_condemn(verdict) if verdict.segment.uuid in wrong else verdict for verdict in verdicts)
    if gaps or any(verdict.fate in {Fate.REBUILD, Fate.REWRITE} for verdict in verdicts):
        verdicts = tuple(judge.judge_beside_new(verdict) for verdict in verdicts)
    safe = FrozenBitMap().union(
        *(verdict.segment.covered for verdict in verdicts if verdict.fate in {Fate.KEEP, Fate.REWRITE})
    )
    return Judgement(
        index=index,
        verdicts=verdicts,
        to_build=FrozenBitMap(wanted - safe),
        wanted=FrozenBitMap(wanted),
        out_of_reach=FrozenBitMap(out_of_reach),
    )


def _condemn(verdict: Verdict) -> Verdict:
    """Whatever else is known of it, a wrong segment goes: nothing of it is copied."""
    if verdict.fate is Fate.DROP:
        return verdict
    cause = verdict.cause if verdict.fate is Fate.REBUILD else Cause.FOUND_WRONG
    return replace(verdict, fate=Fate.REBUILD, cause=cause)


def is_waiting(segment: Segment, deferred: Iterable[DeferredCompaction]) -> bool:
    """True when whoever reads this segment has to translate row addresses that a deferred compaction moved."""
    return any(
        segment.dataset_version <= compaction.version
        and not segment.covered.isdisjoint(_ends(compaction, deferred))
        for compaction in deferred
    )


def holds_more(
    snapshot: TableSnapshot,
    index: IndexState,
    segment: Segment,
    kind: NativeKind,
    look: Callable[[int], Evidence],
) -> bool:
    """True when a segment may hold postings that a merge with other segments of its index would bring to life."""
    live = FrozenBitMap(snapshot.fragments_by_id)
    beyond = FrozenBitMap(live - segment.covered)
    judge = _Judge(snapshot, index, kind, look, live, beyond)
    return judge.holds_more(segment)


def _ends(compaction: DeferredCompaction, deferred: Iterable[DeferredCompaction]) -> FrozenBitMap:
    """The fragments a compaction made, and what later ones made of these."""
    ends = BitMap(compaction.new)
    later = False
    for other in deferred:
        if other is compaction:
            later = True
        elif later and not ends.isdisjoint(other.old):
            ends |= other.new
    return FrozenBitMap(ends)


class Doubts:
    """Finds fragments an entry claims although their column was rewritten in place since the segment was built.

    Lance takes most of them out of the coverage, but not those of a list, whose files name its elements' field and not
    its own.
    """

    def __init__(self, snapshot: TableSnapshot, index: IndexState, look: Callable[[int], Evidence]) -> None:
        self._snapshot = snapshot
        self._look = look
        known = snapshot.columns_by_field_id
        fields = [known[field_id] for segment in index.segments[:1] for field_id in segment.field_ids]
        self._leaf_ids = tuple(leaf for column in fields for leaf in column.leaf_ids)
        self._is_compound = any(column.field_id not in column.leaf_ids for column in fields)

    def trim(self, segment: Segment) -> Segment:
        """The segment without the fragments it claims wrongly.

        What happened before the oldest version left, and left no mark in a file, cannot be seen.
        """
        if not self._is_compound:
            return segment
        live = segment.covered & FrozenBitMap(self._snapshot.fragments_by_id)
        evidence = self._look(segment.dataset_version)
        wrong = FrozenBitMap(fragment for fragment in live if self._is_wrong(fragment, evidence))
        return replace(segment, fragments=segment.covered - wrong) if wrong else segment

    def _is_wrong(self, fragment: int, evidence: Evidence) -> bool:
        now = self._snapshot.fragments_by_id[fragment]
        before = None if evidence.before is None else evidence.before.fragments_by_id.get(fragment)
        if before is not None and now.stamp(self._leaf_ids) != before.stamp(self._leaf_ids):
            return True
        if evidence.exact and before is not None:
            return False
        # A compaction made it since, of fragments that may have been rewritten before.
        return now.was_rewritten(self._leaf_ids) or (before is None and evidence.since.columns_rewritten)


class _Judge:
    """The rules, with what all of them look at."""

    def __init__(
        self,
        snapshot: TableSnapshot,
        index: IndexState,
        kind: NativeKind,
        look: Callable[[int], Evidence],
        wanted: FrozenBitMap,
        gaps: FrozenBitMap,
    ) -> None:
        self._snapshot = snapshot
        self._index = index
        self._kind = kind
        self._look = look
        self._wanted = wanted
        self._gaps = gaps
        self._column = snapshot.columns_by_field_id[index.segments[0].field_ids[0]]
        self._overlap = find_overlap(index.segments)
        trimming = kind.trimming_on_stable_row_ids if snapshot.stable_row_ids else kind.trimming_on_addresses
        self._masks_by_segment = trimming.alive

    def judge(self, segment: Segment) -> Verdict:
        """What is wrong with a segment whatever becomes of the others."""
        if segment.covered.isdisjoint(self._wanted):
            # An empty index is a segment too: it makes the name visible, and goes when there is a better one.
            only = len(self._index.segments) == 1 and not self._wanted
            return Verdict(segment=segment, fate=Fate.KEEP if only else Fate.DROP, cause=Cause.EMPTY)
        if not segment.covered.isdisjoint(self._overlap):
            return Verdict(segment=segment, fate=Fate.REBUILD, cause=Cause.OVERLAP)
        if not self._kind.follows_deferred_compaction and is_waiting(segment, self._snapshot.deferred):
            return Verdict(segment=segment, fate=Fate.REBUILD, cause=Cause.DEFERRED_COMPACTION)
        if self._updates_show and self._has_many_versions and not self._is_untouched(segment):
            return Verdict(segment=segment, fate=Fate.REBUILD, cause=Cause.ROWS_UPDATED)
        if not self._masks_by_segment and self._may_hold(segment, self._marked(segment)):
            return self._old_values(segment)
        return Verdict(segment=segment, fate=Fate.KEEP, cause=Cause.FINE)

    def judge_wrong(self, segment: Segment) -> Verdict:
        """What becomes of a segment whose entry claims fragments that it has old values of: its entry cannot stay."""
        if segment.covered.isdisjoint(self._wanted):
            return Verdict(segment=segment, fate=Fate.DROP, cause=Cause.OLD_VALUES)
        return self._old_values(segment)

    def judge_beside_new(self, verdict: Verdict) -> Verdict:
        """What is wrong with a segment as soon as there is a newer one."""
        if verdict.fate is not Fate.KEEP or verdict.cause is Cause.EMPTY:
            return verdict
        segment = verdict.segment
        if self._kind.single_segment:
            return Verdict(segment=segment, fate=Fate.REBUILD, cause=Cause.ONE_SEGMENT)
        if self._updates_show and not self._is_untouched(segment):
            return Verdict(segment=segment, fate=Fate.REBUILD, cause=Cause.ROWS_UPDATED)
        if not self._masks_by_segment and self._may_hold(segment, self._gaps):
            return self._old_values(segment)
        return verdict

    def _old_values(self, segment: Segment) -> Verdict:
        fate = Fate.REWRITE if self._may_rewrite(segment) else Fate.REBUILD
        return Verdict(segment=segment, fate=fate, cause=Cause.OLD_VALUES)

    def _marked(self, segment: Segment) -> FrozenBitMap:
        """Fragments that other segments answer for, and whose files show that values may have changed in place."""
        leaf_ids, alive = self._leaf_ids(segment), self._snapshot.fragments_by_id
        others = (alive[fragment] for fragment in self._wanted - self._gaps - segment.covered)
        return FrozenBitMap(
            fragment.id for fragment in others if fragment.was_rewritten(leaf_ids) or len(fragment.files) > 1
        )

    def holds_more(self, segment: Segment) -> bool:
        """True when old values may be in a segment, of fragments it lost or of rows that were updated."""
        stale = self._updates_show and not self._is_untouched(segment)
        return stale or self._may_hold(segment, self._gaps)

    @property
    def _updates_show(self) -> bool:
        return self._snapshot.stable_row_ids and self._kind.stale_on_update

    @property
    def _has_many_versions(self) -> bool:
        return len({segment.dataset_version for segment in self._index.segments}) > 1

    def _may_rewrite(self, segment: Segment) -> bool:
        if (
            not self._kind.cleaned_by_merge
            or not self._kind.merges(self._column)
            or segment.base_id is not None
        ):
            return False
        return self._kind.name in TRANSLATED_BY_REWRITE or not is_waiting(segment, self._snapshot.deferred)

    def _is_untouched(self, segment: Segment) -> bool:
        """True when no row the segment covers was deleted, and so none updated, since it was built."""
        evidence = self._look(segment.dataset_version)
        if evidence.since.complete and not evidence.since.rows_moved and evidence.exact:
            return True
        if evidence.before is None or not evidence.exact:
            return False
        before, now = evidence.before.fragments_by_id, self._snapshot.fragments_by_id
        return all(
            fragment in before
            and fragment in now
            and before[fragment].deletion_stamp == now[fragment].deletion_stamp
            for fragment in segment.covered
        )

    def _may_hold(self, segment: Segment, gaps: FrozenBitMap) -> bool:
        """True when the segment may have postings that point into fragments it does not cover."""
        if not gaps:
            return False
        evidence = self._look(segment.dataset_version)
        if evidence.before is None or not evidence.since.complete:
            return True
        if evidence.exact and not evidence.since.columns_rewritten:
            return False
        if self._is_younger_than_it_says(segment, evidence):
            return True
        ancestors = self._ancestors(gaps, evidence)
        return any(self._held(segment, fragment, evidence) for fragment in ancestors)

    def _is_younger_than_it_says(self, segment: Segment, evidence: Evidence) -> bool:
        """True for a segment over fragments that came after its version: Lance's merge gives the oldest of its sources."""
        known = BitMap(evidence.before.fragments_by_id if evidence.before is not None else ())
        for rewrite in evidence.since.rewrites:
            known |= rewrite.new
        return bool(segment.covered - known)

    def _ancestors(self, gaps: FrozenBitMap, evidence: Evidence) -> FrozenBitMap:
        """The gaps and every fragment that went into them since, whose addresses or row ids may have come along."""
        found = BitMap(gaps)
        for rewrite in reversed(evidence.since.rewrites):
            if not found.isdisjoint(rewrite.new):
                found |= rewrite.old
        return FrozenBitMap(found)

    def _held(self, segment: Segment, fragment: int, evidence: Evidence) -> bool:
        before = evidence.before
        if before is None or fragment not in before.fragments_by_id:
            return before is None  # the fragment is younger than the segment
        if not evidence.exact:
            return True  # covered and lost, or never covered: nobody knows any more
        now = self._snapshot.fragments_by_id.get(fragment)
        leaf_ids = self._leaf_ids(segment)
        return now is None or now.stamp(leaf_ids) != before.fragments_by_id[fragment].stamp(leaf_ids)

    def _leaf_ids(self, segment: Segment) -> tuple[int, ...]:
        known = self._snapshot.columns_by_field_id
        return tuple(leaf for field_id in segment.field_ids for leaf in known[field_id].leaf_ids)
