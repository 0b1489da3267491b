"""Asks one of Lance's scalar indexes and the rows the same, and compares the rows they name.

Lance answers from all segments of an index together, for fragments it is told: a row that is not found is missing from the segment
that covers it. A row that is named wrongly although it is found by its present value has an old value in an older segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancewright.maintain.checks import questions
from lancewright.maintain.checks.comparing import Comparison, Named
from lancewright.maintain.checks.findings import Checked, Finding, SegmentFailedError, blaming_segment
from lancewright.maintain.checks.postings import check_postings, read_edges
from lancewright.maintain.checks.sampling import draw_sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lancewright.maintain.checks.questions import Question
    from lancewright.maintain.checks.subject import Subject

    Addresses = NDArray[np.uint64]

_PIECES = frozenset({"ngram", "fm"})
_LISTS = frozenset({"label_list"})
_SHAPES = frozenset({"rtree"})
ASKED = questions.VALUES | _PIECES | _LISTS | _SHAPES
# Values asked for one by one in a thorough check; beyond, a B-tree's postings tell more.
_THOROUGH_SAMPLES = 512
_NOT_ASKED = "Lance would not ask this index for what was to be asked: another index is on the column, or the type is not asked for"


def check_scalar(subject: Subject) -> Checked:
    """Look at the fragments; an index that does not answer is told as such, for the segments are asked together."""
    asked = _choose_questions(subject)
    failure, done = "", 0
    findings: list[Finding] = []
    comparison = Comparison(
        probe=subject.probe,
        segment=subject.segment.uuid,
        fragments=subject.ids,
        rows=subject.rows,
        blame=lambda stale, _sql: _blame(subject, stale),
    )
    try:
        done, findings = comparison.run(asked, lambda number: _ask(subject, asked[number].sql))
    except SegmentFailedError as error:
        failure = error.problem
    notes = [_NOT_ASKED] if asked and not done and not failure else []
    postings = check_postings(subject) if subject.index.kind == "btree" else Checked()
    return Checked(
        questions=done,
        postings=postings.postings,
        findings=(*findings, *postings.findings),
        failure=failure,
        notes=(*notes, *postings.notes),
    )


def _ask(subject: Subject, sql: str) -> Named | None:
    with blaming_segment(subject.table, f"ask index {subject.index.name!r} of"):
        named = subject.probe.named(sql, subject.index.name, subject.ids)
    return None if named is None else Named(rows=named, exact=named)


def _choose_questions(subject: Subject) -> list[Question]:
    count = max(subject.rules.samples, _THOROUGH_SAMPLES if subject.rules.thorough else 0)
    sample = draw_sample(subject.table, [subject.column], subject.fragments, count, subject.rules.seed)
    (keys,) = sample.keys
    edges = [(edge, None) for edge in read_edges(subject)] if subject.index.kind == "btree" else []
    values = [*zip(keys, sample.addresses.tolist(), strict=True), *edges]
    return _ask_for(subject, values, (sample.low, sample.high))


def _ask_for(
    subject: Subject, values: Sequence[tuple[pa.Scalar, int | None]], edges: Sequence[pa.Scalar | None]
) -> list[Question]:
    kind, path = subject.index.kind, subject.column.path
    if kind in _LISTS:
        return questions.ask_items(path, [value for value, _ in values])
    if kind in _PIECES:
        return questions.ask_pieces(path, [value for value, _ in values])
    if kind in _SHAPES:
        return questions.ask_shapes(path, [value for value, _ in values])
    return questions.ask_values(kind, path, values, edges)


def _blame(subject: Subject, stale: Addresses) -> Sequence[str]:
    """Of rows that are named wrongly, the segments that may hold the wrong posting."""
    return (subject.older if _is_found(subject, stale[:1]) else ()) or (subject.segment.uuid,)


def _is_found(subject: Subject, row: Addresses) -> bool:
    """True when a row is also found by the value it has, so that its own segment knows it."""
    if not subject.older:
        return False
    fragments = [one for one in subject.fragments if one.id == int(row[0] >> np.uint64(32))]
    rows = sum(one.rows for one in fragments)
    sample = draw_sample(subject.table, [subject.column], fragments, rows, 0)
    (value,) = sample.keys[0].filter(pa.array(np.isin(sample.addresses, row)))
    asked = _ask_for(subject, [(value, None)], ())
    named = subject.probe.named(asked[0].sql, subject.index.name, subject.ids) if asked else row
    return named is not None and bool(np.isin(row, named).all())
