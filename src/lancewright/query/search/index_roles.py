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
    from collections.abc import Callable, Iterable, Iterator

    from lancewright.model.index import IndexState
    from lancewright.query.explain import Explanation
    from lancewright.query.search.explanation import SearchTask
    from lancewright.query.search.notes import SearchNote
    from lancewright.query.search.plan import SearchPlan
    from lancewright.query.search.request import Prefilter, Scope

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Filtered:
    """The filter of a search: as its tasks get it, as its explanation tells it; whether Lance asks indexes in the tasks."""

    prefilter: Prefilter
    told: Explanation | None
    in_tasks: bool


def list_index_lines(
    plan: SearchPlan,
    scope: Scope,
    filtered: Explanation | None,
    told: Told,
) -> Iterator[IndexLine]:
    """For each index what it does for the ranking, and for the filter if there is one and it could."""

    def rank(index: IndexState) -> IndexLine | None:
        return next((found for part in rankings_of(plan) if (found := _rank_line(part, index, told))), None)

    filter_ = Filtered(prefilter=scope.prefilter, told=filtered, in_tasks=filters_in_tasks(plan.notes))
    yield from lines_of_indexes(
        plan.snapshot.indexes, rank, filter_, f"the search is {_where_it_looks(plan)}"
    )


def lines_of_indexes(
    indexes: Iterable[IndexState],
    rank: Callable[[IndexState], IndexLine | None],
    filtered: Filtered,
    elsewhere: str,
) -> Iterator[IndexLine]:
    """For each index its line of the ranking, and that of the filter; ``elsewhere``: why one has neither."""
    of_filter = {} if filtered.told is None else {line.index: line for line in filtered.told.indexes}
    for index in indexes:
        line = rank(index)
        if line is not None:
            yield line
        helping = of_filter.get(index.name)
        if helping is not None and (line is None or helping.used):
            yield _filter_line(helping, filtered, index)
        elif line is None:
            yield unused_line(index, Reason.COLUMN_NOT_ASKED.value, elsewhere)


def filters_in_tasks(notes: Iterable[SearchNote]) -> bool:
    """True when Lance asks indexes for the filter in each task."""
    return any(note.reason is SearchReason.FILTER_IN_TASKS for note in notes)


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
        return unused_line(index, Reason.OPERATOR_UNSUPPORTED.value, f"a {index.kind} does not rank")
    note = next((one for one in part.notes if one.subject == index.name and one.reason in OF_AN_INDEX), None)
    if note is None:
        disabled = any(one.reason is SearchReason.DISABLED for one in part.notes)
        if disabled:
            return unused_line(index, SearchReason.DISABLED.value, "use_index=False: every row is looked at")
        return unused_line(index, SearchReason.OTHER_INDEX_CHOSEN.value, "index= names another one")
    if note.reason is not SearchReason.USED:
        return unused_line(index, note.reason.value, note.explanation)
    return _used_line(part, index, told)


def _used_line(
    part: VectorPlan | TextPlan,
    index: IndexState,
    told: Told,
) -> IndexLine:
    search = TEXT_PART if isinstance(part, TextPlan) else VECTOR_PART
    asked = tuple(task for task in told.tasks if task.search == search and task.segments)
    uuids = {segment.uuid for segment in index.segments}
    broken = [note for note in told.happened if note.reason is SearchReason.BROKEN_SEGMENT]
    of_it = [note for note in broken if note.subject in uuids or (search == TEXT_PART and not note.subject)]
    whole = next(
        (
            note
            for note in told.happened
            if note.reason is SearchReason.READ_WHOLE and note.subject == index.name
        ),
        None,
    )
    line = used_line(index, name_ranking(part), asked, of_it)
    if not asked:
        why = next((note.explanation for note in part.notes if note.reason is SearchReason.NOT_TRUSTED), "")
        return replace(line, reason=SearchReason.NOT_TRUSTED.value, explanation=why) if why else line
    if whole is not None:
        return replace(line, used=False, reason=whole.reason.value, explanation=whole.explanation)
    return line


def used_line(
    index: IndexState, condition: str, asked: tuple[SearchTask, ...], broken: list[SearchNote]
) -> IndexLine:
    """The line of the index that ranks; ``asked`` are its tasks, ``broken`` what a run said of segments that it did without."""
    line = replace(
        unused_line(index, SearchReason.USED.value, ""),
        used=bool(asked),
        condition=condition,
        segments_asked=sum(task.segments for task in asked),
        rows_estimated=_total(task.rows_estimated for task in asked),
        pages_estimated=_total(task.pages_estimated for task in asked),
        bytes_estimated=_total(task.bytes_estimated for task in asked),
    )
    if not asked:
        words = "no row of it meets the filter"
        return replace(line, reason=SearchReason.NO_COVERAGE.value, explanation=words)
    if not broken:
        return line
    without = len({note.subject for note in broken})
    return replace(
        line,
        used=without < (line.segments_asked or 0),
        reason=broken[0].reason.value,
        explanation=f"{without} of its segments cannot be read: {broken[0].explanation}",
    )


def _filter_line(line: IndexLine, filtered: Filtered, index: IndexState) -> IndexLine:
    """As a scan with this filter would use the index, unless the search has the filter checked instead."""
    if not line.used or isinstance(filtered.prefilter, RowsPrefilter) or filtered.prefilter is None:
        return line
    if filtered.in_tasks and not is_kind_index(index):
        return replace(
            line, reason=Reason.USED_IN_TASKS.value, explanation="Lance asks it in each task for the filter"
        )
    words = "it does not name all rows that meet the filter for sure, so the tasks check it"
    return replace(line, used=False, reason=SearchReason.FILTER_CHECKED.value, explanation=words)


def unused_line(index: IndexState, reason: str, explanation: str) -> IndexLine:
    """A line that says why an index does not rank, and which of its segments are not known here."""
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
