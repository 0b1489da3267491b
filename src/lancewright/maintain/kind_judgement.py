"""Decides what becomes of the segments of an index whose kind is not Lance's, and says what more of it has to be declared as.

Such a segment answers for the fragments it covers and no other, wherever its rows went, so it may stay beside newer ones. It
goes when nothing leads to its rows any more, when it cannot be read, or when it was declared otherwise than the rest.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyroaring import FrozenBitMap

from lancewright.build.keys import INCLUDE
from lancewright.build.kind_worker import keys_of as spec_keys
from lancewright.build.resolve import ResolvedRequest, resolve_stored
from lancewright.build.spec import IndexSpec
from lancewright.errors import CorruptIndexError, NotFoundError, UnsupportedError
from lancewright.kinds.plugin_kind import PluginKind
from lancewright.kinds.plugins import Trouble, Unusable
from lancewright.kinds.registry import find_any_kind, native_kind, native_kind_of, require_plugin
from lancewright.kinds.segment.calling import calling
from lancewright.kinds.segment.judging import declared_as, judge_kind_segment
from lancewright.kinds.segment.opened import read_header
from lancewright.maintain.judgement import Cause, Doubts, Fate, Judgement, Verdict, judge_index
from lancewright.model.computed import ComputedColumn, keys_of_segment
from lancewright.model.index import SkipReason
from lancewright.model.request import IndexRequest
from lancewright.model.segment_details import details_from_bytes, is_ours
from lancewright.table.column_reader import read_expression_type
from lancewright.table.conflict import find_overlap
from lancewright.table.segment_place import place_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from lancewright.kinds.contract import IndexKind
    from lancewright.kinds.segment.judging import KindSegment
    from lancewright.maintain.evidence import Past
    from lancewright.model.index import IndexState, Segment
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.table.location import TableRef


def is_kept(index: IndexState) -> bool:
    """True when an index can be judged: it has segments that can be read, of a kind that is Lance's or a plugin's."""
    if not index.segments:
        return False
    return native_kind(index.kind) is not None or is_ours(index.segments[0].type_url)


def judge(
    table: TableRef, snapshot: TableSnapshot, index: IndexState, past: Past, wrong: Collection[str] = ()
) -> Judgement:
    """Judge an index that ``is_kept``, whichever its kind; raises UnsupportedError when its plugin cannot be used.

    ``wrong`` names segments that are known to be, by uuid.
    """
    kind = native_kind_of(index)
    if kind is not None:
        return judge_index(snapshot, index, kind, past.look, wrong)
    return _KindJudge(table, snapshot, index, past, wrong).judge()


def inherit_kind_request(table: TableRef, snapshot: TableSnapshot, judgement: Judgement) -> ResolvedRequest:
    """The request that makes segments like those the index has, read from the segments themselves."""
    source = _choose_source(judgement)
    details = details_from_bytes(source.details)
    kind = find_any_kind(judgement.index.kind)
    if not isinstance(kind, PluginKind):
        raise UnsupportedError(f"Kind {kind.name!r} is Lance's", "Report this: it is a mistake of ours.")
    known = snapshot.columns_by_field_id
    columns = tuple(known[field_id] for field_id in source.field_ids)
    keys = keys_of_segment(source, details, known)
    kept = tuple(known[field_id] for field_id, _ in details.values)
    for key in keys:
        if isinstance(key, ComputedColumn) and read_expression_type(table, key.path) != key.type:
            raise UnsupportedError(
                f"{key.path} is no {key.type} any more, as it was when the index was built",
                "Build it anew with replace=True.",
            )
    parameters = dict(json.loads(details.parameters))
    if any(verdict.segment is source and verdict.cause is Cause.FORMAT_OLD for verdict in judgement.verdicts):
        implementation = require_plugin(kind.name)
        with calling(implementation, "validate"):  # a key may have another type, which the kind has to like
            parameters = implementation.validate(spec_keys(keys), parameters)
    spec = IndexSpec(
        name=judgement.index.name,
        kind=kind.name,
        column=columns[0],
        more_columns=columns[1:],
        parameters_json=json.dumps(parameters, sort_keys=True),
        plugin=kind.ref,
        keys=() if keys == columns else keys,
        kept=kept,
    )
    request = IndexRequest(
        column=tuple(key.path for key in keys),
        kind=kind.name,
        name=spec.name,
        parameters=parameters | ({INCLUDE: [column.path for column in kept]} if kept else {}),
        replace=True,
    )
    return resolve_stored(spec, request, kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looked:
    """A segment with its verdict, the fragments it claims wrongly taken out, and how it was declared if that can be said."""

    verdict: Verdict
    declared: tuple[object, ...] | None = None


class _KindJudge:
    """The rules, with what all of them look at."""

    def __init__(
        self, table: TableRef, snapshot: TableSnapshot, index: IndexState, past: Past, wrong: Collection[str]
    ) -> None:
        self._wrong = wrong
        self._table = table.pinned(snapshot.version)
        self._snapshot = snapshot
        self._kind: IndexKind = require_plugin(index.kind)
        # What is damaged beyond reading is built anew; what a later release wrote is not ours to take out.
        skipped = tuple(entry for entry in index.skipped if entry.reason is not SkipReason.DAMAGED)
        self._index = replace(index, skipped=skipped)
        self._doubts = Doubts(snapshot, index, past.look)
        self._live = FrozenBitMap(snapshot.fragments_by_id)
        self._overlap = find_overlap(index.segments)

    def judge(self) -> Judgement:
        """What becomes of each segment."""
        looked = self._settle([self._look(segment) for segment in self._index.segments])
        verdicts = tuple(one.verdict for one in looked)
        too_new = [verdict.segment for verdict in verdicts if verdict.cause is Cause.FORMAT_TOO_NEW]
        beyond = [*too_new, *(entry.segment for entry in self._index.skipped)]
        out_of_reach = self._live & FrozenBitMap().union(*(segment.covered for segment in beyond))
        wanted = FrozenBitMap(self._live - out_of_reach)
        kept = [verdict.segment.covered for verdict in verdicts if verdict.fate is Fate.KEEP]
        return Judgement(
            index=replace(self._index, segments=tuple(verdict.segment for verdict in verdicts)),
            verdicts=verdicts,
            to_build=FrozenBitMap(wanted - FrozenBitMap().union(*kept)),
            wanted=wanted,
            out_of_reach=FrozenBitMap(out_of_reach),
        )

    def _look(self, claimed: Segment) -> _Looked:
        judged = judge_kind_segment(self._snapshot, self._kind, claimed, self._live)
        if isinstance(judged, Unusable):
            if judged.trouble is Trouble.FORMAT_TOO_NEW:
                return _looked(claimed, Fate.KEEP, Cause.FORMAT_TOO_NEW)
            return _looked(replace(claimed, fragments=FrozenBitMap()), Fate.REBUILD, Cause.FORMAT_OLD)
        trimmed = self._doubts.trim(claimed).covered
        fate, cause = self._find_fault(claimed, judged, trimmed)
        if fate is not Fate.REBUILD:
            declared = None if cause is Cause.EMPTY else declared_as(self._snapshot, claimed, judged.details)
            return replace(_looked(claimed, fate, cause), declared=declared)
        found = FrozenBitMap() if cause is Cause.DAMAGED else FrozenBitMap(trimmed & judged.covered)
        return _looked(replace(claimed, fragments=found), fate, cause)

    def _find_fault(self, claimed: Segment, judged: KindSegment, trimmed: FrozenBitMap) -> tuple[Fate, Cause]:
        claims = FrozenBitMap(claimed.covered & self._live)
        if not claims:
            only = len(self._index.segments) == 1 and not self._live
            return Fate.KEEP if only else Fate.DROP, Cause.EMPTY
        if not claims <= trimmed:
            cause = Cause.OLD_VALUES
        elif judged.covered != claims:
            cause = Cause.ROWS_LOST
        elif not claims.isdisjoint(self._overlap):
            cause = Cause.OVERLAP
        else:
            cause = Cause.DAMAGED if self._is_damaged(claimed) else Cause.FINE
        if cause is Cause.FINE and claimed.uuid in self._wrong:
            cause = Cause.FOUND_WRONG
        return Fate.KEEP if cause is Cause.FINE else Fate.REBUILD, cause

    def _settle(self, looked: list[_Looked]) -> list[_Looked]:
        """Segments that are not asked together with the new ones, or with each other, are built anew with them."""
        fine = [one for one in looked if one.declared is not None]
        if not fine:
            return looked
        covered = FrozenBitMap().union(*(one.verdict.segment.covered for one in looked))
        grows = bool(self._live - covered) or any(one.verdict.fate is Fate.REBUILD for one in looked)
        newest = max(fine, key=lambda one: one.verdict.segment.dataset_version)
        details = details_from_bytes(newest.verdict.segment.details)
        parameters, format_, keys = newest.declared or (details.parameters, details.format, ())
        target = (parameters, self._kind.writes if grows else format_, keys)
        return [
            replace(one, verdict=replace(one.verdict, fate=Fate.REBUILD, cause=Cause.DECLARED_OTHERWISE))
            if one.declared is not None and one.declared != target
            else one
            for one in looked
        ]

    def _is_damaged(self, segment: Segment) -> bool:
        try:
            read_header(place_of(self._table, segment), details_from_bytes(segment.details))
        except (CorruptIndexError, NotFoundError):
            return True
        return False


def _looked(segment: Segment, fate: Fate, cause: Cause) -> _Looked:
    return _Looked(verdict=Verdict(segment=segment, fate=fate, cause=cause))


def _choose_source(judgement: Judgement) -> Segment:
    """The newest segment of those that stay, if there are any."""
    return max(
        judgement.verdicts,
        key=lambda verdict: (
            verdict.fate is Fate.KEEP and verdict.cause is Cause.FINE,
            verdict.segment.dataset_version,
        ),
    ).segment
