"""Searches a text index and the texts themselves, indexed anew, for words that texts have, and compares the rows found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lancewright.kinds.lance_native.inheritance import read_options
from lancewright.kinds.registry import find_kind
from lancewright.maintain.checks import questions
from lancewright.maintain.checks.census import take_census
from lancewright.maintain.checks.findings import (
    Checked,
    Fault,
    Finding,
    SegmentFailedError,
    blaming_segment,
    damaged,
    of_rows,
)
from lancewright.maintain.checks.sampling import draw_sample
from lancewright.model.addresses import without
from lancewright.model.text_query import Match
from lancewright.table.segment_reader import SegmentReader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from lancewright.maintain.checks.subject import Subject
    from lancewright.model.snapshot import Fragment

    Addresses = NDArray[np.uint64]

# Texts that are read and indexed anew for a task, unless the check is thorough.
_ROWS_MAX = 50_000
_WORDS_MAX = 32
_CONFIRMED_MAX = 8


def check_texts(subject: Subject) -> Checked:
    """Compare what words find; and look whether rows have an entry at all."""
    uuid = subject.segment.uuid
    try:
        with blaming_segment(subject.table, f"read segment {uuid} of"):
            files = SegmentReader(subject.table, subject.segment)
            options = read_options(find_kind(subject.index.kind), subject.segment, files)
        census = take_census(subject)
    except SegmentFailedError as error:
        return Checked(findings=(damaged(uuid, error.problem),))
    findings = of_rows(uuid, Fault.DUPLICATED, census.twice)
    texts = subject.probe.true(f"{subject.column.path} IS NOT NULL", subject.ids)
    findings += _confirm(subject, without(texts, census.rows), options)
    asked, failure, compared = _compare(subject, options)
    return Checked(questions=asked, postings=census.entries, findings=(*findings, *compared), failure=failure)


def _compare(subject: Subject, options: Mapping[str, Any]) -> tuple[int, str, list[Finding]]:
    fragments = _choose_fragments(subject)
    ids = [one.id for one in fragments]
    rows = sum(one.rows for one in fragments)
    words = _choose_words(subject, fragments)
    if not words:
        return 0, "", []
    findings: list[Finding] = []
    with subject.probe.read_texts(subject.column.path, ids, options) as anew:
        for word in words:
            query = Match(word)
            true = np.sort(anew.search(query, rows)["_rowaddr"].to_numpy())
            try:
                with blaming_segment(subject.table, "search the texts of"):
                    named = subject.probe.texts(subject.column.path, query, rows, ids)
            except SegmentFailedError as error:
                return 0, error.problem, findings
            findings += of_rows(subject.segment.uuid, Fault.MISSING, without(true, named), [word])
            stale = without(named, true)
            for segment in (subject.older or (subject.segment.uuid,)) if len(stale) else ():
                findings += of_rows(segment, Fault.STALE, stale, [word])
    return len(words), "", findings


def _confirm(subject: Subject, lost: Addresses, options: Mapping[str, Any]) -> list[Finding]:
    """Of rows without an entry, those that a search of their own text finds when it is indexed anew: others have no word."""
    if not len(lost):
        return []
    chosen = lost[np.unique(np.linspace(0, len(lost) - 1, _CONFIRMED_MAX).astype(np.int64))]
    fragments = [one for one in subject.fragments if one.id in set((chosen >> np.uint64(32)).tolist())]
    sample = draw_sample(subject.table, [subject.column], fragments, sum(one.rows for one in fragments), 0)
    texts = {
        int(address): _text(value) for address, value in zip(sample.addresses, sample.keys[0], strict=True)
    }
    confirmed = []
    with subject.probe.read_texts(subject.column.path, [one.id for one in fragments], options) as anew:
        for address in chosen.tolist():
            word = questions.longest_word(texts.get(address))
            if word and address in anew.search(Match(word), len(texts))["_rowaddr"].to_pylist():
                confirmed.append(address)
    rows = lost if len(confirmed) == len(chosen) else np.array(confirmed, dtype=np.uint64)
    return of_rows(subject.segment.uuid, Fault.MISSING, rows)


def _choose_fragments(subject: Subject) -> Sequence[Fragment]:
    if subject.rules.thorough:
        return subject.fragments
    random = np.random.default_rng(subject.rules.seed)
    chosen: list[Fragment] = []
    rows = 0
    for place in random.permutation(len(subject.fragments)).tolist():
        fragment = subject.fragments[place]
        if chosen and rows + fragment.rows > _ROWS_MAX:
            continue
        chosen.append(fragment)
        rows += fragment.rows
    return sorted(chosen, key=lambda one: one.id)


def _choose_words(subject: Subject, fragments: Sequence[Fragment]) -> list[str]:
    sample = draw_sample(
        subject.table, [subject.column], fragments, subject.rules.samples, subject.rules.seed
    )
    words = dict.fromkeys(questions.longest_word(_text(value)) for value in sample.keys[0])
    return [word for word in words if word is not None][: _WORDS_MAX if not subject.rules.thorough else None]


def _text(value: Any) -> str | None:  # Any: an Arrow scalar of a text, or of a list of them
    plain = value.as_py()
    if isinstance(plain, list):
        return " ".join(item for item in plain if isinstance(item, str))
    return plain if isinstance(plain, str) else None
