"""Answers why rows of a table are not answered for by an index: appended, compacted, rewritten in place, or out of reach."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyroaring import BitMap

from lancewright.maintain.judgement import Cause
from lancewright.model.coverage import GapReason

if TYPE_CHECKING:
    from lancewright.maintain.evidence import Past
    from lancewright.maintain.judgement import Judgement
    from lancewright.model.coverage import Coverage
    from lancewright.model.index import IndexState


class GapCause(enum.StrEnum):
    """Why live rows are not answered for by an index."""

    APPENDED = "appended"
    COMPACTED = "compacted"
    COLUMN_REWRITTEN = "column_rewritten"
    UNSUPPORTED = "unsupported"
    DAMAGED = "damaged"
    UNKNOWN = "unknown"


_UNREADABLE = {
    Cause.FORMAT_OLD: GapCause.UNSUPPORTED,
    Cause.FORMAT_TOO_NEW: GapCause.UNSUPPORTED,
    Cause.DAMAGED: GapCause.DAMAGED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthGap:
    """Fragments that an index does not answer for, for one reason."""

    cause: GapCause
    fragments: tuple[int, ...]
    rows: int


def describe_gaps(
    index: IndexState, judgement: Judgement | None, coverage: Coverage, past: Past
) -> tuple[HealthGap, ...]:
    """What the index does not answer for, by cause; reads the history since its oldest segment when there is any such thing."""
    if not coverage.gaps:
        return ()
    unreadable = _unreadable(judgement, index)
    compacted = BitMap()
    known = bool(index.segments)
    if index.segments:
        since = past.look(min(segment.dataset_version for segment in index.segments)).since
        known = since.complete
        for rewrite in since.rewrites:
            compacted |= rewrite.new
    causes: dict[GapCause, list[tuple[int, int]]] = {}
    for gap in coverage.gaps:
        if gap.fragment_id in unreadable:
            cause = unreadable[gap.fragment_id]
        elif gap.reason is GapReason.SEGMENT_SKIPPED:
            cause = GapCause.UNSUPPORTED
        elif gap.reason is GapReason.COLUMN_REWRITTEN:
            cause = GapCause.COLUMN_REWRITTEN
        elif gap.fragment_id in compacted:
            cause = GapCause.COMPACTED
        else:
            cause = GapCause.APPENDED if known else GapCause.UNKNOWN
        causes.setdefault(cause, []).append((gap.fragment_id, gap.rows))
    return tuple(
        HealthGap(
            cause=cause,
            fragments=tuple(fragment for fragment, _ in found),
            rows=sum(rows for _, rows in found),
        )
        for cause, found in causes.items()
    )


def _unreadable(judgement: Judgement | None, index: IndexState) -> dict[int, GapCause]:
    """By fragment, why a segment that claims it cannot be read."""
    claimed = {segment.uuid: segment.covered for segment in index.segments}
    verdicts = judgement.verdicts if judgement is not None else ()
    return {
        fragment: _UNREADABLE[verdict.cause]
        for verdict in verdicts
        if verdict.cause in _UNREADABLE
        for fragment in claimed[verdict.segment.uuid]
    }
