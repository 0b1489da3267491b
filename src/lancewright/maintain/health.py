"""The health verb: what each index covers, why not the rest, what is wrong with it, and which verbs mend it. Writes nothing.

Reads manifests, the history since the oldest segment, and for a merge that may be due the heads of index files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyroaring import FrozenBitMap

from lancewright.build.sizes import estimate_bytes_per_row
from lancewright.errors import LancewrightError, UnsupportedError
from lancewright.kinds.btree.empty_ranges import find_empty_range_risk
from lancewright.maintain.evidence import Past
from lancewright.maintain.gaps import HealthGap, describe_gaps
from lancewright.maintain.judgement import (
    EXPLANATIONS,
    TRANSLATED_BY_REWRITE,
    Cause,
    Fate,
    Judgement,
    explain_unkept,
    is_waiting,
)
from lancewright.maintain.kind_judgement import is_kept, judge
from lancewright.maintain.merge import plan_index_merge
from lancewright.maintain.merge_plan import MergeRules
from lancewright.model.coverage import measure_coverage
from lancewright.model.segment_details import is_ours
from lancewright.table.snapshot_reader import read_snapshot

if TYPE_CHECKING:
    from lancewright.maintain.merge import MergedIndex
    from lancewright.model.coverage import Coverage
    from lancewright.model.index import IndexState
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentHealth:
    """One segment: what it covers, how large it is, and what is wrong with it.

    ``is_waiting``: a deferred compaction moved rows it covers, and readers translate.
    """

    uuid: str
    fragments: int
    rows: int
    gone: int
    size_bytes: int | None
    dataset_version: int
    is_waiting: bool
    fate: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexHealth:
    """One index. ``is_stale``: Lance may answer with old values now. ``risk``: what a compaction may do to it."""

    name: str
    kind: str
    columns: tuple[str, ...]
    covered_fragments: int
    covered_rows: int
    gap_rows: int
    size_bytes: int | None
    gaps: tuple[HealthGap, ...]
    segments: tuple[SegmentHealth, ...]
    is_stale: bool
    risk: str | None
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A verb that is due, for which indexes, why, and what it would cost."""

    verb: str
    indexes: tuple[str, ...]
    reason: str
    call: str
    rows: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The indexes of a table at one version, and what is to be done."""

    table: str
    version: int
    rows: int
    fragments: int
    deferred_compactions: int
    indexes: tuple[IndexHealth, ...]
    advice: tuple[Advice, ...]

    @property
    def is_well(self) -> bool:
        """True when nothing is to be done."""
        return not self.advice


@dataclass(frozen=True, kw_only=True)
class _Checked:
    """One index with what was found out about it."""

    health: IndexHealth
    index: IndexState
    judgement: Judgement | None = None
    merge: MergedIndex | None = None
    width: int = 0

    @property
    def is_own(self) -> bool:
        """True for an index of a kind that is not Lance's."""
        return bool(self.index.segments) and is_ours(self.index.segments[0].type_url)


def read_health(table: TableRef, rules: MergeRules | None = None) -> Health:
    """Look at every index at the latest version."""
    snapshot = read_snapshot(table.latest())
    past = Past(table, snapshot)
    checked = [_check(table, snapshot, index, past, rules or MergeRules()) for index in snapshot.indexes]
    return Health(
        table=table.name,
        version=snapshot.version,
        rows=snapshot.rows,
        fragments=len(snapshot.fragments),
        deferred_compactions=len(snapshot.deferred),
        indexes=tuple(one.health for one in checked),
        advice=tuple(
            advice
            for advise in (_advise_catch_up, _advise_refresh, _advise_merge, _advise_risk, _advise_unkept)
            for advice in advise(snapshot, checked)
        ),
    )


def _check(
    table: TableRef, snapshot: TableSnapshot, index: IndexState, past: Past, rules: MergeRules
) -> _Checked:
    coverage = measure_coverage(snapshot, index)
    if not is_kept(index):
        health = _describe(snapshot, index, coverage, None, past, explain_unkept(index))
        return _Checked(health=health, index=index)
    merge = None
    try:
        judgement = judge(table, snapshot, index, past)
    except UnsupportedError as error:
        return _Checked(health=_describe(snapshot, index, coverage, None, past, str(error)), index=index)
    if is_ours(index.segments[0].type_url):
        coverage = measure_coverage(snapshot, _asked(judgement))
    try:
        merge = plan_index_merge(table, snapshot, index, past, rules)[1]
        problem = merge.problem
    except LancewrightError as error:
        problem = str(error)
    health = _describe(snapshot, index, coverage, judgement, past, problem)
    return _Checked(
        health=health, index=index, judgement=judgement, merge=merge, width=_width(snapshot, index)
    )


def _describe(
    snapshot: TableSnapshot,
    index: IndexState,
    coverage: Coverage,
    judgement: Judgement | None,
    past: Past,
    problem: str | None = None,
) -> IndexHealth:
    risk = find_empty_range_risk(snapshot, index.name)
    return IndexHealth(
        name=index.name,
        kind=index.kind,
        columns=index.shown_keys,
        covered_fragments=len(coverage.covered),
        covered_rows=coverage.covered_rows,
        gap_rows=coverage.gap_rows,
        size_bytes=index.size_bytes,
        gaps=describe_gaps(index, judgement, coverage, past),
        segments=_describe_segments(snapshot, index, judgement),
        is_stale=judgement is not None and _is_stale(judgement, index),
        risk=None if risk is None else risk.reason,
        problem=problem,
    )


def _is_stale(judgement: Judgement, index: IndexState) -> bool:
    """Old values answer already: beside a newer segment, after a deferred compaction, or of a list rewritten in place."""
    causes = {verdict.cause for verdict in judgement.verdicts}
    if is_ours(index.segments[0].type_url):
        return Cause.OLD_VALUES in causes
    trimmed = judgement.index != index
    several = len({segment.dataset_version for segment in index.segments}) > 1
    return trimmed or Cause.DEFERRED_COMPACTION in causes or (several and Cause.ROWS_UPDATED in causes)


def _describe_segments(
    snapshot: TableSnapshot, index: IndexState, judgement: Judgement | None
) -> tuple[SegmentHealth, ...]:
    alive = snapshot.fragments_by_id
    verdicts = {verdict.segment.uuid: verdict for verdict in judgement.verdicts} if judgement else {}
    return tuple(
        SegmentHealth(
            uuid=segment.uuid,
            fragments=len(segment.covered),
            rows=sum(alive[fragment].rows for fragment in segment.covered if fragment in alive),
            gone=sum(1 for fragment in segment.covered if fragment not in alive),
            size_bytes=segment.size_bytes,
            dataset_version=segment.dataset_version,
            is_waiting=is_waiting(segment, snapshot.deferred),
            fate=verdicts[segment.uuid].fate.value if segment.uuid in verdicts else "",
            note=EXPLANATIONS[verdicts[segment.uuid].cause] if segment.uuid in verdicts else "",
        )
        for segment in index.segments
    )


def _asked(judgement: Judgement) -> IndexState:
    """The index as queries take it: without the segments that are not asked."""
    too_new = {one.segment.uuid for one in judgement.verdicts if one.cause is Cause.FORMAT_TOO_NEW}
    segments = (segment for segment in judgement.index.segments if segment.uuid not in too_new)
    return replace(judgement.index, segments=tuple(segments))


def _advise_catch_up(_snapshot: TableSnapshot, checked: list[_Checked]) -> list[Advice]:
    """Only what a catch-up can write anew; what it cannot answers right and waits for its next build."""
    waiting = {
        one.index.name: [
            segment for segment in one.health.segments if segment.is_waiting and segment.fate == Fate.KEEP
        ]
        for one in checked
        if one.index.kind in TRANSLATED_BY_REWRITE or one.is_own
    }
    due = {name: segments for name, segments in waiting.items() if segments}
    if not due:
        return []
    size = sum(segment.size_bytes or 0 for segments in due.values() for segment in segments)
    return [
        Advice(
            verb="catch_up",
            indexes=tuple(due),
            reason=f"{sum(map(len, due.values()))} segments wait for a deferred compaction",
            call=f"table.catch_up({list(due)!r})",
            bytes_read=size,
            bytes_written=size,
        )
    ]


def _advise_refresh(snapshot: TableSnapshot, checked: list[_Checked]) -> list[Advice]:
    due = [one for one in checked if one.judgement is not None and not one.judgement.is_current]
    due = [one for one in due if snapshot.rows]
    if not due:
        return []
    rows = [_rows(snapshot, one) for one in due]
    rewritten = sum(_size(one, Fate.REWRITE) for one in due)
    names = tuple(one.index.name for one in due)
    stale = [one.index.name for one in due if one.health.is_stale]
    reason = f"{max(rows):,} rows are scanned by every query" if max(rows) else "segments are out of date"
    return [
        Advice(
            verb="refresh",
            indexes=names,
            reason=f"{', '.join(stale)} may answer with old values" if stale else reason,
            call=f"table.refresh({list(names)!r})",
            rows=sum(rows),
            bytes_read=rewritten,
            bytes_written=rewritten + sum(count * one.width for count, one in zip(rows, due, strict=True)),
        )
    ]


def _advise_merge(_snapshot: TableSnapshot, checked: list[_Checked]) -> list[Advice]:
    due = [one.merge for one in checked if one.merge is not None and one.merge.is_due]
    if not due:
        return []
    size = sum(merge.size_bytes for merge in due)
    names = tuple(merge.name for merge in due)
    return [
        Advice(
            verb="merge",
            indexes=names,
            reason=f"{sum(merge.segments_before for merge in due)} segments would be "
            f"{sum(merge.segments_after for merge in due)}",
            call=f"table.merge({list(names)!r})",
            bytes_read=size,
            bytes_written=size,
        )
    ]


def _advise_risk(snapshot: TableSnapshot, checked: list[_Checked]) -> list[Advice]:
    risks = [(one, find_empty_range_risk(snapshot, one.index.name)) for one in checked]
    return [
        Advice(
            verb="create_index",
            indexes=(one.index.name,),
            reason=f"a compaction may break it: {risk.reason}",
            call=risk.remedy,
            rows=snapshot.rows,
            bytes_written=snapshot.rows * one.width,
        )
        for one, risk in risks
        if risk is not None
    ]


def _advise_unkept(_snapshot: TableSnapshot, checked: list[_Checked]) -> list[Advice]:
    """Nothing here reads them, so rows are scanned until their plugin is there or another index is."""
    return [
        Advice(
            verb="create_index",
            indexes=(one.index.name,),
            reason=f"{one.health.problem}",
            call="Install what brings the kind, or build an index of another kind.",
        )
        for one in checked
        if one.judgement is None and one.index.segments and one.health.gap_rows
    ]


def _rows(snapshot: TableSnapshot, one: _Checked) -> int:
    fragments = one.judgement.to_build if one.judgement is not None else FrozenBitMap()
    return sum(snapshot.fragments_by_id[fragment].rows for fragment in fragments)


def _size(one: _Checked, fate: Fate) -> int:
    segments = one.judgement.segments(fate) if one.judgement is not None else ()
    return sum(segment.size_bytes or 0 for segment in segments)


def _width(snapshot: TableSnapshot, index: IndexState) -> int:
    columns = (snapshot.columns_by_field_id[field_id] for field_id in index.segments[0].field_ids)
    return sum(estimate_bytes_per_row(index.kind, column.type) for column in columns)
