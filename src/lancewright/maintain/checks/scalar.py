"""Asks one of Lance's scalar indexes and the rows the same, and compares the rows they name.

Lance answers from all segments of an index together, for fragments it is told: a row that is not found is missing from the segment
that covers it. A row that is named wrongly although it is found by its present value has an old value in an older segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancewright.errors import LancewrightError
from lancewright.maintain.checks import questions
from lancewright.maintain.checks.findings import Checked, Fault, Finding, of_rows, raise_if_not_damage
from lancewright.maintain.checks.postings import check_postings, read_edges
from lancewright.maintain.checks.sampling import draw_sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lancewright.maintain.checks.subject import Subject

    Addresses = NDArray[np.uint64]

_PIECES = frozenset({"ngram", "fm"})
_LISTS = frozenset({"label_list"})
_SHAPES = frozenset({"rtree"})
ASKED = questions.VALUES | _PIECES | _LISTS | _SHAPES
# Values asked for one by one in a thorough check; beyond, a B-tree's postings tell more.
_THOROUGH_SAMPLES = 512
# Past this share of the rows a scan is cheaper than looking at rows one by one.
_SCAN_SHARE = 0.25
_NOT_ASKED = "Lance would not ask this index for what was to be asked: another index is on the column, or the type is not asked for"


def check_scalar(subject: Subject) -> Checked:
    """Look at the fragments; a file that cannot be read is a finding and ends the look at this segment."""
    asked = _choose_questions(subject)
    findings: list[Finding] = []
    notes: dict[str, None] = {}
    done, failure = _compare_all(subject, asked, findings)
    if not done and not failure and asked:
        notes[_NOT_ASKED] = None
    postings = 0
    if subject.index.kind == "btree":
        checked = check_postings(subject)
        postings = checked.postings
        findings += checked.findings
        notes |= dict.fromkeys(checked.notes)
    return Checked(
        questions=done, postings=postings, findings=tuple(findings), failure=failure, notes=tuple(notes)
    )


def _choose_questions(subject: Subject) -> list[str]:
    kind, path = subject.index.kind, subject.column.path
    count = max(subject.rules.samples, _THOROUGH_SAMPLES if subject.rules.thorough else 0)
    sample = draw_sample(subject.table, [subject.column], subject.fragments, count, subject.rules.seed)
    (keys,) = sample.keys
    if kind in _LISTS:
        return questions.ask_items(path, keys)
    if kind in _PIECES:
        return questions.ask_pieces(path, keys)
    if kind in _SHAPES:
        return questions.ask_shapes(path, keys)
    values = [*keys, *(read_edges(subject) if kind == "btree" else ())]
    return questions.ask_values(kind, path, values, (sample.low, sample.high))


def _compare_all(subject: Subject, asked: Sequence[str], findings: list[Finding]) -> tuple[int, str]:
    """How many were answered, and how the index failed if it did.

    One scan finds all rows that any condition is TRUE for; which of them each is TRUE for is then read of these alone.
    """
    if not asked:
        return 0, ""
    whole = subject.probe.true(questions.either(asked), subject.ids)
    within = whole if len(whole) <= _SCAN_SHARE * subject.rows else None
    done = 0
    for sql in asked:
        try:
            named = subject.probe.named(sql, subject.index.name, subject.ids)
        except LancewrightError as error:
            raise_if_not_damage(error)
            return done, error.problem
        if named is None:
            continue
        done += 1
        true = subject.probe.true(sql, subject.ids, within)
        findings += of_rows(subject.segment.uuid, Fault.MISSING, np.setdiff1d(true, named), [sql])
        stale = np.setdiff1d(named, true)
        if len(stale):
            findings += _blame(subject, stale, sql)
    return done, ""


def _blame(subject: Subject, stale: Addresses, sql: str) -> list[Finding]:
    """Of rows that are named wrongly, the segments that may hold the wrong posting."""
    suspects = subject.older if _has_right_posting(subject, stale[:1]) else ()
    return [
        finding
        for segment in suspects or (subject.segment.uuid,)
        for finding in of_rows(segment, Fault.STALE, stale, [sql])
    ]


def _has_right_posting(subject: Subject, row: Addresses) -> bool:
    """True when a row is also found by the value it has."""
    if not subject.older:
        return False
    fragment = [one for one in subject.fragments if one.id == int(row[0] >> np.uint64(32))]
    sample = draw_sample(subject.table, [subject.column], fragment, sum(one.rows for one in fragment), 0)
    (value,) = sample.keys[0].filter(pa.array(np.isin(sample.addresses, row)))
    kind, path = subject.index.kind, subject.column.path
    asked = (
        questions.ask_items(path, [value])
        if kind in _LISTS
        else questions.ask_pieces(path, [value])
        if kind in _PIECES
        else questions.ask_values("", path, [value], ())[:: 1 if value.is_valid else -1]
    )
    for sql in asked[:1]:
        named = subject.probe.named(sql, subject.index.name, subject.ids)
        return named is not None and bool(np.isin(row, named).all())
    return True
