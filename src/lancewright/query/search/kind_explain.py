"""Explains a ranked search through a kind of our own, and what explanations of searches through such kinds share. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancewright.query.plan import Reason
from lancewright.query.search.explain import Run, sum_measured
from lancewright.query.search.explanation import SearchExplanation, SearchTask
from lancewright.query.search.index_roles import (
    Filtered,
    filters_in_tasks,
    lines_of_indexes,
    unused_line,
    used_line,
)
from lancewright.query.search.notes import SearchReason
from lancewright.query.search.plan import SegmentGroup
from lancewright.query.search.rankers import has_scores
from lancewright.query.search.request import RowsPrefilter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lancewright.model.index import IndexState
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.query.explain import Explanation
    from lancewright.query.index_lines import IndexLine
    from lancewright.query.search.kind_plan import KindPlan
    from lancewright.query.search.kind_request import KindRequest
    from lancewright.query.search.notes import SearchNote
    from lancewright.query.search.plan import FragmentGroup

RANKED_PART = "ranked"
# What a run says of a segment whose rows were then found without it.
_WITHOUT_SEGMENT = frozenset({SearchReason.BROKEN_SEGMENT, SearchReason.NO_PLUGIN, SearchReason.FEWER_THAN_K})
# Notes on rows, on the filter and on columns; all others are on an index, whose name is their subject.
_NOT_OF_AN_INDEX = frozenset(
    {
        SearchReason.NO_INDEX,
        SearchReason.NOT_COVERED,
        SearchReason.LEFT_OUT,
        SearchReason.FILTER_ANSWERED,
        SearchReason.FILTER_IN_TASKS,
        SearchReason.FILTER_CHECKED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KindFacts:
    """What is told of any search through a kind of our own besides its plan: what is searched, its tasks, its filter, its run."""

    snapshot: TableSnapshot
    searches: tuple[str, ...]
    where: str | None
    filtered: Explanation | None
    tasks: tuple[SearchTask, ...]
    notes: tuple[SearchNote, ...]
    happened: tuple[SearchNote, ...]
    run: Run | None


def explain_kind_search(
    plan: KindPlan, request: KindRequest, happened: tuple[SearchNote, ...], run: Run | None
) -> SearchExplanation:
    """Explain a plan, with what a run took when there was one."""
    filtered = None if request.scope.filter is None else request.scope.filter.explain()
    facts = KindFacts(
        snapshot=plan.snapshot,
        searches=(_search(plan),),
        where=None if filtered is None else filtered.where,
        filtered=filtered,
        tasks=tuple(_tasks(plan, run)),
        notes=plan.notes,
        happened=happened,
        run=run,
    )
    prefilter = Filtered(prefilter=plan.prefilter, told=filtered, in_tasks=filters_in_tasks(plan.notes))
    lines = lines_of_indexes(
        plan.snapshot.indexes,
        lambda index: _rank_line(plan, request, index, facts),
        prefilter,
        f"the search is by {_asked(request)}",
    )
    return tell_search(facts, lines)


def tell_search(facts: KindFacts, lines: Iterable[IndexLine]) -> SearchExplanation:
    """The explanation with these lines; what is said in a line is no note."""
    first = [note_of_index(facts.notes, index.name) for index in facts.snapshot.indexes]
    in_lines = [note for note in first if note is not None and note.reason is not SearchReason.DISABLED]
    return SearchExplanation(
        table=facts.snapshot.uri,
        version=facts.snapshot.version,
        rows=facts.snapshot.rows,
        fragments=len(facts.snapshot.fragments),
        searches=facts.searches,
        where=facts.where,
        indexes=tuple(lines),
        tasks=facts.tasks,
        notes=tuple(dict.fromkeys(note for note in facts.notes if note not in in_lines)),
        happened=facts.happened,
        measured=None if facts.run is None else sum_measured(facts.run, facts.filtered),
    )


def note_of_index(notes: Iterable[SearchNote], name: str) -> SearchNote | None:
    """The first note on an index as a whole: the one that says what it does."""
    return next((one for one in notes if one.subject == name and one.reason not in _NOT_OF_AN_INDEX), None)


def chosen_line(index: IndexState, condition: str, facts: KindFacts) -> IndexLine:
    """The line of the index that was chosen, by its tasks and what happened to its segments."""
    uuids = {segment.uuid for segment in index.segments}
    without = [one for one in facts.happened if one.reason in _WITHOUT_SEGMENT and one.subject in uuids]
    return used_line(index, condition, tuple(task for task in facts.tasks if task.segments), without)


def kind_task(
    part: str,
    way: str,
    group: SegmentGroup | FragmentGroup,
    looked_at: int | None,
    measured: tuple[Run | None, int],
) -> SearchTask:
    """One task; how much of a segment its kind looks at, it does not tell. ``measured``: the run, and the task's number."""
    run, number = measured
    return SearchTask(
        search=part,
        way=way,
        segments=len(group.parts) if isinstance(group, SegmentGroup) else 0,
        fragments=len(group.fragments),
        rows=group.rows,
        rows_estimated=looked_at,
        measured=None if run is None else run.efforts.get(f"{part}-{number}"),
    )


def _search(plan: KindPlan) -> str:
    probes = plan.choice.probes
    keys = ", ".join(key.name for key in plan.choice.spec.keys)
    many = f"  for each of {len(probes):,} queries" if len(probes) > 1 else ""
    return f"best {plan.k} by {keys}  {probes[0].text}".rstrip() + many


def _tasks(plan: KindPlan, run: Run | None) -> Iterator[SearchTask]:
    # With a kind that scores no rows, those outside the index are indexed in memory.
    scored = all(has_scores(plan.choice.kind, probe) for probe in plan.choice.probes)
    groups: tuple[SegmentGroup | FragmentGroup, ...] = (*plan.segment_groups, *plan.fragment_groups)
    for number, group in enumerate(groups):
        by_index = isinstance(group, SegmentGroup)
        way = "by index" if by_index else "exactly" if scored else "read whole"
        yield kind_task(
            RANKED_PART,
            way,
            group,
            None if by_index else _looked_at(plan, group.fragments, group.rows, scored=scored),
            (run, number),
        )


def _looked_at(plan: KindPlan, fragments: tuple[int, ...], rows: int, *, scored: bool) -> int | None:
    """How many rows are read, once for each query that scores them; None when a condition decides it."""
    times = len(plan.choice.probes) if scored else 1
    if plan.prefilter is None:
        return rows * times
    if isinstance(plan.prefilter, RowsPrefilter):
        return len(plan.prefilter.rows.only(fragments)) * times
    return None


def _asked(request: KindRequest) -> str:
    asked = ", ".join(request.queries[0])
    return f"{asked} in {', '.join(request.scope.columns)}" if request.scope.columns else asked


def _rank_line(plan: KindPlan, request: KindRequest, index: IndexState, facts: KindFacts) -> IndexLine | None:
    """What an index does for the ranking; None when it could not rank these columns."""
    note, scope = note_of_index(plan.notes, index.name), request.scope
    if note is None:
        return _unasked_line(plan, request, index)
    if note.reason is SearchReason.OTHER_INDEX_CHOSEN and not scope.use_index:
        return unused_line(index, SearchReason.DISABLED.value, "use_index=False: every row is looked at")
    if note.reason is not SearchReason.USED:
        return unused_line(index, note.reason.value, note.explanation)
    return chosen_line(index, facts.searches[0], facts)


def _unasked_line(plan: KindPlan, request: KindRequest, index: IndexState) -> IndexLine | None:
    """Why an index over the columns that are ranked was no candidate; None of one over others."""
    if set(index.columns) != {key.name for key in plan.choice.spec.keys}:
        return None
    if request.scope.index is not None:
        return unused_line(index, SearchReason.OTHER_INDEX_CHOSEN.value, "index= names another one")
    words = f"a {index.kind} does not rank by {', '.join(request.queries[0])}"
    return unused_line(index, Reason.OPERATOR_UNSUPPORTED.value, words)
