"""Holds what an index names against the rows, for many questions with few reads.

One scan finds the rows that any question is TRUE for. A row that a question was made of is then known to be one of its rows; only
others are read again. Questions that may be TRUE for the same row are answered by the rows one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lancewright.maintain.checks import questions
from lancewright.maintain.checks.findings import Fault, Finding, of_rows
from lancewright.model.addresses import distinct, in_both, without

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from lancewright.maintain.checks.questions import Question
    from lancewright.table.index_probe import IndexProbe

    Addresses = NDArray[np.uint64]

# Past this share of the rows a scan is cheaper than looking at rows one by one.
_SCAN_SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Named:
    """What an index names for a question: every row that may be TRUE, and of these those it says are."""

    rows: Addresses
    exact: Addresses


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The rows of some fragments, and whom to blame for a row that is named wrongly."""

    probe: IndexProbe
    segment: str
    fragments: Sequence[int]
    rows: int
    blame: Callable[[Addresses, str], Sequence[str]]

    def run(self, asked: Sequence[Question], ask: Callable[[int], Named | None]) -> tuple[int, list[Finding]]:
        """How many questions were answered, and what was wrong. ``ask`` takes the number of a question."""
        if not asked or not self.fragments:
            return 0, []
        whole = self.probe.true(questions.either([one.sql for one in asked]), self.fragments)
        findings: list[Finding] = []
        answered: list[Question] = []
        found: list[Addresses] = []
        for number, question in enumerate(asked):
            named = ask(number)
            if named is None:
                continue
            answered.append(question)
            compare = self._compare_apart if question.overlaps else self._compare_known
            right, wrong = compare(question, named, whole)
            found.append(right)
            findings += wrong
        if len(answered) == len(asked):
            lost = without(whole, distinct(np.concatenate(found)))
            findings += self._tell_lost(
                answered, lost, {address for one in findings for address in one.addresses}
            )
        return len(answered), findings

    def _compare_known(
        self, question: Question, named: Named, whole: Addresses
    ) -> tuple[Addresses, list[Finding]]:
        known = in_both(distinct(np.array(question.rows, dtype=np.uint64)), whole)
        doubted = without(known, named.rows)
        missing = self.probe.true(question.sql, self.fragments, doubted)
        others = without(named.exact, known)
        true = self.probe.true(question.sql, self.fragments, others)
        right = np.concatenate((in_both(known, named.rows), true, without(named.rows, named.exact), missing))
        return right, self._tell(question, missing, without(others, true))

    def _compare_apart(
        self, question: Question, named: Named, whole: Addresses
    ) -> tuple[Addresses, list[Finding]]:
        within = whole if len(whole) <= _SCAN_SHARE * self.rows else None
        true = self.probe.true(question.sql, self.fragments, within)
        return true, self._tell(question, without(true, named.rows), without(named.exact, true))

    def _tell(self, question: Question, missing: Addresses, stale: Addresses) -> list[Finding]:
        findings = of_rows(self.segment, Fault.MISSING, missing, [question.sql])
        for segment in self.blame(stale, question.sql) if len(stale) else ():
            findings += of_rows(segment, Fault.STALE, stale, [question.sql])
        return findings

    def _tell_lost(self, asked: Sequence[Question], lost: Addresses, told: set[int]) -> list[Finding]:
        """Rows that no question found: those each question is TRUE for."""
        left = lost[~np.isin(lost, np.array(sorted(told), dtype=np.uint64))]
        if not len(left):
            return []
        findings: list[Finding] = []
        for question in asked:
            true = self.probe.true(question.sql, self.fragments, left)
            findings += of_rows(self.segment, Fault.MISSING, true, [question.sql])
        return findings
