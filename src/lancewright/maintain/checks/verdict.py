"""Puts together what tasks found out about the segments of an index, and says which segments are wrong. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancewright.maintain.checks.findings import Checked, Fault, Finding, Recall, damaged, gather
from lancewright.model.index import SkipReason
from lancewright.table.conflict import find_overlap

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lancewright.model.index import IndexState, Segment
    from lancewright.model.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentVerified:
    """One segment: how much of it was looked at, and what is wrong."""

    uuid: str
    fragments: int
    rows: int
    questions: int
    postings: int
    recall: Recall | None
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexVerified:
    """One index. ``notes`` say what was not looked at, and why."""

    name: str
    kind: str
    segments: tuple[SegmentVerified, ...]
    notes: tuple[str, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with any of its segments."""
        return tuple(finding for segment in self.segments for finding in segment.findings)

    @property
    def recall(self) -> float | None:
        """The share of the nearest rows found by a usual search, over its segments by their rows; None when not measured."""
        measured = [(one.recall.usual, one.rows) for one in self.segments if one.recall is not None]
        rows = sum(rows for _, rows in measured)
        return sum(usual * rows for usual, rows in measured) / rows if rows else None


def judge_checks(
    snapshot: TableSnapshot, index: IndexState, checked: Mapping[tuple[str, str], Sequence[Checked]]
) -> IndexVerified:
    """The index, from what was found out under its name and each segment's uuid."""
    parts = {segment.uuid: checked.get((index.name, segment.uuid), ()) for segment in index.segments}
    findings = [
        *(finding for done in parts.values() for one in done for finding in one.findings),
        *_find_overlaps(snapshot, index),
        *(
            damaged(entry.segment.uuid, entry.explanation)
            for entry in index.skipped
            if entry.reason is SkipReason.DAMAGED
        ),
    ]
    failed = {uuid: one.failure for uuid, done in parts.items() for one in done if one.failure}
    notes = [note for done in parts.values() for one in done for note in one.notes]
    notes += [entry.explanation for entry in index.skipped if entry.reason is not SkipReason.DAMAGED]
    if failed and any(finding.fault is Fault.DAMAGED for finding in findings):
        notes.append(f"{len(failed)} segments could not be asked beside one that is damaged")
    else:
        findings += [damaged(uuid, problem) for uuid, problem in failed.items()]
    by_segment: dict[str, list[Finding]] = {}
    for finding in gather(findings):
        by_segment.setdefault(finding.segment, []).append(finding)
    segments = (*index.segments, *(entry.segment for entry in index.skipped))
    return IndexVerified(
        name=index.name,
        kind=index.kind,
        segments=tuple(
            _tell_segment(snapshot, segment, parts.get(segment.uuid, ()), by_segment.get(segment.uuid, ()))
            for segment in segments
        ),
        notes=tuple(dict.fromkeys(notes)),
    )


def _tell_segment(
    snapshot: TableSnapshot, segment: Segment, done: Sequence[Checked], findings: Sequence[Finding]
) -> SegmentVerified:
    live = [fragment for fragment in segment.covered if fragment in snapshot.fragments_by_id]
    return SegmentVerified(
        uuid=segment.uuid,
        fragments=len(live),
        rows=sum(snapshot.fragments_by_id[fragment].rows for fragment in live),
        questions=sum(one.questions for one in done),
        postings=sum(one.postings for one in done),
        recall=next((one.recall for one in done if one.recall is not None), None),
        findings=tuple(findings),
    )


def _find_overlaps(snapshot: TableSnapshot, index: IndexState) -> Iterator[Finding]:
    """Segments that claim fragments another one claims too: their rows are in the index twice."""
    overlap = find_overlap(index.segments)
    for segment in index.segments:
        shared = [one for one in segment.covered & overlap if one in snapshot.fragments_by_id]
        rows = sum(snapshot.fragments_by_id[fragment].rows for fragment in shared)
        if rows:
            yield Finding(
                segment=segment.uuid,
                fault=Fault.DUPLICATED,
                rows=rows,
                problem=f"another segment covers {len(shared)} of its fragments too",
            )
