"""Answers which indexes of a snapshot may be asked at all, how far, and why the others may not. Pure.

Three dangers come from Lance itself (decision 0014).

1. An older segment keeps the value a row had before an update, beside the new value in a newer segment: after a column was
   rewritten in place, and on a table with stable row ids for some kinds after any update. What such an index names is all
   that is TRUE and perhaps more, so it is checked again; what it leaves out is not the opposite.
2. Lance does not notice that a list was rewritten in place: its index keeps to the old values.
3. A deferred compaction makes some kinds answer wrongly.

The third can be seen from the snapshot. For the others the snapshot names suspects, which the history may clear.
"""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyroaring import FrozenBitMap

from lancewright.errors import InvalidRequestError
from lancewright.kinds.registry import find_kind
from lancewright.model.index import SkipReason
from lancewright.query.answering import condition_of, trusted_for
from lancewright.query.kind_index import KindIndex, is_kind_index, judge_kind_index
from lancewright.query.plan import IndexNote, Reason

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lancewright.kinds.lance_native.definition import NativeKind
    from lancewright.kinds.lance_native.trusted import Fault, Precision
    from lancewright.model.index import IndexState, SkippedSegment
    from lancewright.model.predicate import Predicate
    from lancewright.model.snapshot import TableSnapshot

# Kinds that keep each value with the rows that have it, and of these the one over lists.
_POSTINGS = frozenset({"btree", "bitmap", "label_list"})
_LISTS = frozenset({"label_list"})
_SKIPPED_BECAUSE = {
    SkipReason.UNKNOWN_TYPE: Reason.NO_PLUGIN,
    SkipReason.NO_TYPE: Reason.FORMAT_OLD_REBUILD,
    SkipReason.TOO_NEW: Reason.FORMAT_TOO_NEW,
    SkipReason.COLUMN_DROPPED: Reason.NO_COVERAGE,
    SkipReason.DAMAGED: Reason.BROKEN_SEGMENT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An index that may be asked: its columns, the type of the first, and the live fragments it answers for.

    ``doubted``: it may name rows for values they do not have any more.
    ``of_kind`` is set for an index whose kind is not Lance's. Lance's have one column.
    """

    name: str
    kind: str
    columns: tuple[str, ...]
    covered: FrozenBitMap
    covered_rows: int
    index: IndexState
    doubted: bool = False
    of_kind: KindIndex | None = None
    value_type: pa.DataType = dataclasses.field(default_factory=pa.null)

    @property
    def column(self) -> str:
        """The first column, the only one of an index of Lance's."""
        return self.columns[0]

    def precision(self, atom: Predicate) -> Precision | None:
        """How an index of Lance's answers a condition on its column; None when it is not asked."""
        if self.of_kind is not None:
            return None
        return trusted_for(self.kind).precision(condition_of(atom), self.value_type)

    def fault(self, atom: Predicate) -> Fault | None:
        """What Lance would answer wrongly, if it were asked."""
        return trusted_for(self.kind).fault(condition_of(atom), self.value_type)


class Doubt(enum.StrEnum):
    """What an update may have done to an index. STALE: rows are missing. EXTRA: rows are named for values of the past."""

    STALE = "stale"
    EXTRA = "extra"


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What happened to a table since the oldest segment of an index was built; of an unknown past, the worst.

    ``rewritten_fields`` of None: some fields, nobody knows which.
    """

    known: bool
    rows_moved: bool
    rewritten_fields: frozenset[int] | None


def list_suspects(snapshot: TableSnapshot, columns: Collection[str]) -> tuple[IndexState, ...]:
    """The indexes on these columns that are wrong if values were updated since their oldest segment was built."""
    return tuple(
        index
        for index in snapshot.indexes
        if not set(index.columns).isdisjoint(columns) and index.segments and _may_know_the_past(index)
    )


def judge_past(snapshot: TableSnapshot, index: IndexState, past: Past) -> Doubt | None:
    """What the past did to a suspect; None clears it."""
    kind, several = _native(index.kind), _is_of_several_versions(index)
    fields = field_ids(snapshot, index)
    rewritten = past.rewritten_fields is None or not fields.isdisjoint(past.rewritten_fields)
    if index.kind in _LISTS and rewritten and (past.known or shows_rewriting(snapshot, index, fields)):
        return Doubt.STALE
    if not past.known:
        return Doubt.EXTRA if several or index.kind in _LISTS else None
    moved = past.rows_moved and snapshot.stable_row_ids and kind is not None and kind.stale_on_update
    return Doubt.EXTRA if several and (rewritten or moved) else None


def judge_index(
    snapshot: TableSnapshot, index: IndexState, doubts: Mapping[str, Doubt], live: FrozenBitMap
) -> Candidate | IndexNote:
    """The index as one to be asked, or why not. ``doubts`` names the suspects that no history has cleared."""
    if is_kind_index(index):
        return _judge_of_kind(snapshot, index, live)
    covered = live & _covered(index)
    note = _why_not(snapshot, index, doubts, covered)
    if note is not None:
        return note
    return Candidate(
        name=index.name,
        kind=index.kind,
        columns=index.columns,
        covered=covered,
        covered_rows=sum(snapshot.fragments_by_id[fragment].rows for fragment in covered),
        index=index,
        doubted=doubts.get(index.name) is Doubt.EXTRA,
        value_type=_value_type(snapshot, index),
    )


def _value_type(snapshot: TableSnapshot, index: IndexState) -> pa.DataType:
    column = snapshot.columns_by_field_id.get(index.segments[0].field_ids[0])
    return pa.null() if column is None else column.type


def _judge_of_kind(snapshot: TableSnapshot, index: IndexState, live: FrozenBitMap) -> Candidate | IndexNote:
    if not index.segments:
        return _skipped(index, index.skipped[0])
    judged = judge_kind_index(snapshot, index, live)
    if not isinstance(judged, KindIndex):
        return _note(index, *judged)
    covered = judged.covered
    if not covered:
        return _note(
            index, Reason.NO_COVERAGE, "it covers no fragment of this version; refresh or rebuild it"
        )
    return Candidate(
        name=index.name,
        kind=index.kind,
        columns=judged.columns,
        covered=covered,
        covered_rows=sum(snapshot.fragments_by_id[fragment].rows for fragment in covered),
        index=index,
        of_kind=judged,
    )


def _why_not(
    snapshot: TableSnapshot, index: IndexState, doubts: Mapping[str, Doubt], covered: FrozenBitMap
) -> IndexNote | None:
    if not index.segments:
        return (
            _skipped(index, index.skipped[0])
            if index.skipped
            else _note(index, Reason.NOT_BUILT, "it has no segment")
        )
    if len(index.columns) != 1:
        return _note(index, Reason.NO_PLUGIN, "it is over several columns, which no kind known here is")
    if doubts.get(index.name) is Doubt.STALE:
        return _note(
            index,
            Reason.STALE,
            "its column was rewritten in place, and Lance goes on answering with the old values; drop it and build it again",
        )
    kind = _native(index.kind)
    if kind is not None and not kind.follows_deferred_compaction and has_deferred_compaction(snapshot):
        return _note(
            index, Reason.NOT_TRUSTED, "this kind answers wrongly after a deferred compaction; rebuild it"
        )
    if not covered:
        return _note(
            index, Reason.NO_COVERAGE, "it covers no fragment of this version; refresh or rebuild it"
        )
    return None


def has_deferred_compaction(snapshot: TableSnapshot) -> bool:
    """True when a compaction left segments with the old row addresses, to be translated by whoever reads them."""
    return any(segment.name == "__lance_frag_reuse" for segment in snapshot.segments)


def _may_know_the_past(index: IndexState) -> bool:
    return index.kind in _LISTS or (index.kind in _POSTINGS and _is_of_several_versions(index))


def _is_of_several_versions(index: IndexState) -> bool:
    return len({segment.dataset_version for segment in index.segments}) > 1


def field_ids(snapshot: TableSnapshot, index: IndexState) -> frozenset[int]:
    """The index's fields and those below them, by one of which writers name what they changed."""
    known = snapshot.columns_by_field_id
    own = {field for segment in index.segments for field in segment.field_ids}
    return frozenset(own).union(*(known[field].leaf_ids for field in own if field in known))


def shows_rewriting(snapshot: TableSnapshot, index: IndexState, fields: frozenset[int]) -> bool:
    """True when a fragment that the index covers bears the mark of a rewrite of one of these fields."""
    return any(
        fragment.was_rewritten(tuple(fields))
        for fragment in snapshot.fragments
        if fragment.id in _covered(index)
    )


def _covered(index: IndexState) -> FrozenBitMap:
    return (
        FrozenBitMap().union(*(segment.covered for segment in index.segments))
        if index.segments
        else FrozenBitMap()
    )


def _skipped(index: IndexState, entry: SkippedSegment) -> IndexNote:
    return _note(index, _SKIPPED_BECAUSE[entry.reason], entry.explanation)


def _note(index: IndexState, reason: Reason, explanation: str) -> IndexNote:
    return IndexNote(
        index=index.name,
        kind=index.kind,
        reason=reason,
        explanation=explanation,
        segments=len(index.segments),
        skipped=len(index.skipped),
    )


def _native(kind: str) -> NativeKind | None:
    try:
        return find_kind(kind)
    except InvalidRequestError:
        return None
