"""Says of every index of a table what it does for a search: rank its rows, help its filter, or nothing, and why. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lancewright.query.index_lines import RANKING, IndexLine
from lancewright.query.kind_index import is_kind_index
from lancewright.query.plan import Reason
from lancewright.query.search.columns import TEXT_KIND, is_vector_kind
from lancewright.query.search.notes import SearchReason
from lancewright.query.search.plan import HybridPlan, TextPlan, VectorPlan
from lancewright.query.search.request import RowsPrefilter
from lancewright.query.search.tasks import TEXT_PART, VECTOR_PART

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lancewright.model.index import IndexState
    from lancewright.query.explain import Explanation
    from lancewright.query.search.explanation import SearchTask
    from lancewright.query.search.notes import SearchNote
    from lancewright.query.search.plan import SearchPlan
    from lancewright.query.search.request import Scope

# What is said of an index as a whole, and so in its line; everything else is a note.
OF_AN_INDEX = frozenset(
    {
        SearchReason.USED,
        SearchReason.OTHER_INDEX_CHOSEN,
        SearchReason.METRIC_DIFFERS,
        SearchReason.METRIC_UNKNOWN,
        SearchReason.NO_COVERAGE,
        SearchReason.NO_PLUGIN,
    }
)
_USED = frozenset({Reason.USED.value, Reason.INEXACT_PREFILTER.value, Reason.USED_IN_TASKS.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What else is told of a search: its tasks, and what went otherwise than planned."""

    tasks: tuple[SearchTask, ...]
    happened: tuple[SearchNote, ...]


def list_index_lines(
    plan: SearchPlan,
    scope: Scope,
    filtered: Explanation | None,
    told: Told,
) -> Iterator[IndexLine]:
    """For each index what it does for the ranking, and for the filter if there is one and it could."""
    of_filter = {} if filtered is None else {line.index: line for line in filtered.indexes}
    for index in plan.snapshot.indexes:
        line = next((found for part in rankings_of(plan) if (found := _rank_line(part, index, told))), None)
        if line is not None:
            yield line
        helping = of_filter.get(index.name)
        if helping is not None and (line is None or helping.used):
            yield _filter_line(helping, scope, plan, index)
        elif line is None:
            yield _line(index, Reason.COLUMN_NOT_ASKED.value, f"the search is {_where_it_looks(plan)}")


def rankings_of(plan: SearchPlan) -> tuple[VectorPlan | TextPlan, ...]:
    """The searches a plan is made of."""
    return (plan.vector, plan.text) if isinstance(plan, HybridPlan) else (plan,)


def name_ranking(part: VectorPlan | TextPlan) -> str:
    """What is ranked, in a few words."""
    if isinstance(part, TextPlan):
        return f"best {part.k} texts in {part.column}"
    return f"nearest {part.options.k} in {part.options.column}"


def _where_it_looks(plan: SearchPlan) -> str:
    columns = [
        part.column if isinstance(part, TextPlan) else part.options.column for part in rankings_of(plan)
    ]
    return f"on {' and '.join(columns)}"


def _rank_line(
    part: VectorPlan | TextPlan,
    index: IndexState,
    told: Told,
) -> IndexLine | None:
    """What an index does for one ranking; None when it is not one that could rank its column."""
    is_text = isinstance(part, TextPlan)
    column = part.column if isinstance(part, TextPlan) else part.options.column
    if index.columns != (column,):
        return None
    if not (index.kind == TEXT_KIND if is_text else is_vector_kind(index.kind)):
        return _line(index, Reason.OPERATOR_UNSUPPORTED.value, f"a {index.kind} does not rank")
    note = next((one for one in part.notes if one.subject == index.name and one.reason in OF_AN_INDEX), None)
    if note is None:
        disabled = any(one.reason is SearchReason.DISABLED for one in part.notes)
        if disabled:
            return _line(index, SearchReason.DISABLED.value, "use_index=False: every row is looked at")
        return _line(index, SearchReason.OTHER_INDEX_CHOSEN.value, "index= names another one")
    if note.reason is not SearchReason.USED:
        return _line(index, note.reason.value, note.explanation)
    return _used_line(part, index, told)


def _used_line(
    part: VectorPlan | TextPlan,
    index: IndexState,
    told: Told,
) -> IndexLine:
    happened = told.happened
    search = TEXT_PART if isinstance(part, TextPlan) else VECTOR_PART
    asked = [task for task in told.tasks if task.search == search and task.segments]
    line = replace(
        _line(index, SearchReason.USED.value, ""),
        used=bool(asked),
        condition=name_ranking(part),
        segments_asked=sum(task.segments for task in asked),
        rows_estimated=_total(task.rows_estimated for task in asked),
        pages_estimated=_total(task.pages_estimated for task in asked),
        bytes_estimated=_total(task.bytes_estimated for task in asked),
    )
    if not asked:
        why = next((note.explanation for note in part.notes if note.reason is SearchReason.NOT_TRUSTED), "")
        reason = SearchReason.NOT_TRUSTED if why else SearchReason.NO_COVERAGE
        return replace(line, reason=reason.value, explanation=why or "no row of it meets the filter")
    uuids = {segment.uuid for segment in index.segments}
    broken = [note for note in happened if note.reason is SearchReason.BROKEN_SEGMENT]
    of_it = [note for note in broken if note.subject in uuids or (search == TEXT_PART and not note.subject)]
    whole = [
        note for note in happened if note.reason is SearchReason.READ_WHOLE and note.subject == index.name
    ]
    if whole:
        return replace(
            line, used=False, reason=SearchReason.READ_WHOLE.value, explanation=whole[0].explanation
        )
    if of_it:
        words = f"{len(of_it)} of its segments cannot be read: {of_it[0].explanation}"
        return replace(
            line,
            used=len(of_it) < (line.segments_asked or 0),
            reason=SearchReason.BROKEN_SEGMENT.value,
            explanation=words,
        )
    return line


def _filter_line(line: IndexLine, scope: Scope, plan: SearchPlan, index: IndexState) -> IndexLine:
    """As a scan with this filter would use the index, unless the search has the filter checked instead."""
    if not line.used or isinstance(scope.prefilter, RowsPrefilter) or scope.prefilter is None:
        return line
    in_tasks = any(note.reason is SearchReason.FILTER_IN_TASKS for note in plan.notes)
    if in_tasks and not is_kind_index(index):
        return replace(
            line, reason=Reason.USED_IN_TASKS.value, explanation="Lance asks it in each task for the filter"
        )
    words = "it does not name all rows that meet the filter for sure, so the tasks check it"
    return replace(line, used=False, reason=SearchReason.FILTER_CHECKED.value, explanation=words)


def _line(index: IndexState, reason: str, explanation: str) -> IndexLine:
    aside = (
        f"{len(index.skipped)} of its segments cannot be read: {index.skipped[0].explanation}"
        if index.skipped
        else ""
    )
    told = (
        explanation
        if aside and index.skipped[0].explanation in explanation
        else "; ".join(filter(None, (explanation, aside)))
    )
    return IndexLine(
        index=index.name,
        kind=index.kind,
        used=reason in _USED,
        reason=reason,
        condition="",
        explanation=told,
        segments=len(index.segments),
        segments_asked=None,
        segments_skipped=len(index.skipped),
        rows_estimated=None,
        pages_estimated=None,
        bytes_estimated=None,
        role=RANKING,
    )


def _total(numbers: Iterator[int | None]) -> int | None:
    found = list(numbers)
    known = [number for number in found if number is not None]
    return sum(known) if known and len(known) == len(found) else None
