"""What runs on an executor of a verification: one part of one segment is looked at. Writes nothing.

Memory: the keys of the part's rows, at most twice; for a B-tree that is checked thoroughly also its postings of them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lancewright.kinds.registry import native_kind
from lancewright.maintain.checks.findings import Checked, SegmentFailedError, blaming_segment, damaged
from lancewright.maintain.checks.own_kinds import check_own
from lancewright.maintain.checks.scalar import ASKED, check_scalar
from lancewright.maintain.checks.subject import Subject, VerifyRules
from lancewright.maintain.checks.texts import check_texts
from lancewright.maintain.checks.vectors import check_vectors
from lancewright.model.segment_details import is_ours
from lancewright.table.lance_compat import translating
from lancewright.table.snapshot_reader import read_snapshot

if TYPE_CHECKING:
    from lancewright.table.location import TableRef

_TEXTS = frozenset({"inverted"})


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifySettings:
    """What all tasks share: the table pinned to the version that is looked at."""

    table: TableRef
    rules: VerifyRules


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyWork:
    """One task: some fragments of a segment, by name and uuid."""

    index: str
    segment: str
    fragments: tuple[int, ...]
    is_first: bool


def verify_segment(settings: VerifySettings, work: VerifyWork) -> Checked:
    """Look at one part of a segment."""
    started = time.monotonic()
    with translating(settings.table, f"verify index {work.index!r} of"):
        checked = _check(_open(settings, work))
    return replace(checked, seconds=time.monotonic() - started)


def _open(settings: VerifySettings, work: VerifyWork) -> Subject:
    snapshot = read_snapshot(settings.table)
    index = next(one for one in snapshot.indexes if one.name == work.index)
    return Subject(
        table=settings.table,
        snapshot=snapshot,
        index=index,
        segment=next(one for one in index.segments if one.uuid == work.segment),
        fragments=tuple(snapshot.fragments_by_id[fragment] for fragment in work.fragments),
        rules=settings.rules,
        is_first=work.is_first,
    )


def _check(subject: Subject) -> Checked:
    problem: str | None
    try:
        with blaming_segment(subject.table, f"look at the files of segment {subject.segment.uuid} of"):
            problem = subject.files.find_damage()
    except SegmentFailedError as error:
        problem = error.problem
    if problem is not None:
        return Checked(findings=(damaged(subject.segment.uuid, problem),))
    if is_ours(subject.segment.type_url):
        return check_own(subject)
    kind = native_kind(subject.index.kind)
    if kind is not None and kind.family == "vector":
        return check_vectors(subject)
    if subject.index.kind in _TEXTS:
        return check_texts(subject)
    if subject.index.kind in ASKED:
        return check_scalar(subject)
    return Checked(notes=(f"kind {subject.index.kind!r} is not asked here; only its files were looked at",))
