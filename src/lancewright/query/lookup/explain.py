"""Explains a lookup of many keys: which index is asked with them, which rows are read and why. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lancewright.query.index_lines import LOOKUP
from lancewright.query.kind_index import is_kind_index
from lancewright.query.plan import Reason
from lancewright.query.search.index_roles import Filtered, lines_of_indexes, unused_line
from lancewright.query.search.kind_explain import (
    KindFacts,
    chosen_line,
    kind_task,
    note_of_index,
    tell_search,
)
from lancewright.query.search.notes import SearchReason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lancewright.model.index import IndexState
    from lancewright.query.explain import Explanation
    from lancewright.query.index_lines import IndexLine
    from lancewright.query.lookup.plan import LookupPlan
    from lancewright.query.search.explain import Run
    from lancewright.query.search.explanation import SearchExplanation, SearchTask
    from lancewright.query.search.notes import SearchNote

LOOKUP_PART = "lookup"


def explain_lookup(
    plan: LookupPlan, keys: int, happened: tuple[SearchNote, ...], run: Run | None
) -> SearchExplanation:
    """Explain a plan, with what a run took when there was one."""
    named = None if plan.asked is None else plan.asked.explain()
    names = ", ".join(column.path for column in plan.columns)
    facts = KindFacts(
        snapshot=plan.snapshot,
        searches=(f"look up {keys:,} keys of {names}",),
        where=None,
        filtered=named,
        # Without a key nothing is asked.
        tasks=tuple(_tasks(plan, run)) if keys else (),
        notes=plan.notes,
        happened=happened,
        run=run,
    )
    prefilter = None if plan.asked is None else plan.asked.prefilter
    lines = lines_of_indexes(
        plan.snapshot.indexes,
        lambda index: _line(plan, index, facts),
        Filtered(prefilter=prefilter, told=_on_the_column(named), in_tasks=False),
        f"the lookup is on just {names}",
    )
    return tell_search(facts, (replace(line, role=LOOKUP) for line in lines))


def _on_the_column(named: Explanation | None) -> Explanation | None:
    """What was said of indexes that could name the rows; nobody wrote a filter that others were not asked for."""
    if named is None:
        return None
    lines = tuple(line for line in named.indexes if line.reason != Reason.COLUMN_NOT_ASKED.value)
    return replace(named, indexes=lines)


def _tasks(plan: LookupPlan, run: Run | None) -> Iterator[SearchTask]:
    for number, group in enumerate(plan.segment_groups):
        yield kind_task(LOOKUP_PART, "by index", group, None, (run, number))
    for number, rest in enumerate(plan.fragment_groups, len(plan.segment_groups)):
        if plan.named is None:
            yield kind_task(LOOKUP_PART, "scanned", rest, rest.rows, (run, number))
            continue
        rows = len(plan.named.only(rest.fragments))
        yield kind_task(LOOKUP_PART, "by index", replace(rest, rows=rows), rows, (run, number))


def _line(plan: LookupPlan, index: IndexState, facts: KindFacts) -> IndexLine | None:
    """What an index over just these columns does; None of others, and where what other indexes named decides."""
    if set(index.columns) != {column.path for column in plan.columns} or index.keys:
        return None
    note = note_of_index(plan.notes, index.name)
    if note is not None and note.reason is SearchReason.USED:
        return _used_or_idle(index, note, facts)
    if note is not None:
        return unused_line(index, note.reason.value, note.explanation)
    if plan.index is not None:
        words = f"{plan.index.name} is asked with all keys at once"
        return unused_line(index, SearchReason.OTHER_INDEX_CHOSEN.value, words)
    if facts.filtered is not None and not is_kind_index(index):
        return None
    return unused_line(
        index, Reason.OPERATOR_UNSUPPORTED.value, f"a {index.kind} does not look up these keys"
    )


def _used_or_idle(index: IndexState, note: SearchNote, facts: KindFacts) -> IndexLine:
    if facts.tasks:
        line = chosen_line(index, facts.searches[0], facts)
        return line if line.explanation else replace(line, explanation=note.explanation)
    return unused_line(index, SearchReason.NO_COVERAGE.value, "there is no key to look up")
