"""Explains a search from its plan: a line for each index of the table, the tasks, and what they took if they ran. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lancewright.kinds.lance_native.column_types import vector_type
from lancewright.query.search.columns import find_vector_column
from lancewright.query.search.explanation import SearchExplanation, SearchMeasured, SearchTask
from lancewright.query.search.index_roles import (
    OF_AN_INDEX,
    Told,
    list_index_lines,
    name_ranking,
    rankings_of,
)
from lancewright.query.search.notes import SearchNote, SearchReason
from lancewright.query.search.plan import HybridPlan, SegmentGroup, TextPlan, VectorPlan
from lancewright.query.search.tasks import TEXT_PART, VECTOR_PART
from lancewright.table.metering import SearchEffort
from lancewright.table.row_reader import ReadEffort

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lancewright.query.explain import Explanation
    from lancewright.query.search.plan import FragmentGroup, SearchPlan
    from lancewright.query.search.request import Scope
    from lancewright.table.vector_search import NearestOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a search found out when it ran: notes, and what its tasks and then reading the columns took."""

    happened: tuple[SearchNote, ...]
    efforts: Mapping[str, SearchEffort]
    read: ReadEffort


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFacts:
    """What an explanation is made of besides the plan: how many vectors are asked for, and how the index is cut."""

    scope: Scope
    queries: int = 1
    partitions: int | None = None
    happened: tuple[SearchNote, ...] = ()
    run: Run | None = None


def explain_search(plan: SearchPlan, facts: SearchFacts) -> SearchExplanation:
    """Explain a plan, with what a run took when there was one."""
    filtered = None if facts.scope.filter is None else facts.scope.filter.explain()
    parts = rankings_of(plan)
    tasks = tuple(task for part in parts for task in _tasks(part, facts))
    happened = facts.happened if facts.run is None else facts.run.happened
    return SearchExplanation(
        table=plan.snapshot.uri,
        version=plan.snapshot.version,
        rows=plan.snapshot.rows,
        fragments=len(plan.snapshot.fragments),
        searches=tuple(_searches(plan)),
        where=None if filtered is None else filtered.where,
        indexes=tuple(list_index_lines(plan, facts.scope, filtered, Told(tasks=tasks, happened=happened))),
        tasks=tasks,
        notes=tuple(dict.fromkeys(note for note in plan.notes if note.reason not in OF_AN_INDEX)),
        happened=happened,
        measured=None if facts.run is None else sum_measured(facts.run, filtered),
    )


def gather_join(told: Iterable[str]) -> Run:
    """What the batches of a join on executors took together, from what each of them told."""
    efforts: dict[str, SearchEffort] = {}
    notes: list[SearchNote] = []
    read = ReadEffort(rows=0, read_requests=0, read_bytes=0, seconds=0.0)
    for number, batch in enumerate(map(json.loads, told)):
        for part, found in batch["parts"].items():
            efforts[f"{VECTOR_PART}-{part}-{number}"] = SearchEffort(**found["effort"])
            notes += [
                SearchNote(**{**note, "reason": SearchReason(note["reason"])}) for note in found["notes"]
            ]
        more = ReadEffort(**batch["read"])
        read = ReadEffort(
            rows=read.rows + more.rows,
            read_requests=read.read_requests + more.read_requests,
            read_bytes=read.read_bytes + more.read_bytes,
            seconds=read.seconds + more.seconds,
        )
    return Run(happened=tuple(dict.fromkeys(notes)), efforts=efforts, read=read)


def _searches(plan: SearchPlan) -> Iterator[str]:
    for part in rankings_of(plan):
        if isinstance(part, TextPlan):
            yield f"{name_ranking(part)}  {part.query!r}"
        else:
            yield f"{name_ranking(part)}  {_settings(part.options)}"
    if isinstance(plan, HybridPlan):
        yield f"fuse the {plan.k} best by 1 / ({plan.rank_constant:g} + rank)"


def _settings(options: NearestOptions) -> str:
    told = {
        "metric": options.metric,
        "nprobes": options.nprobes,
        "refine_factor": options.refine_factor,
        "ef": options.ef,
        "from": options.lower_bound,
        "below": options.upper_bound,
    }
    return "  ".join(f"{name} {value}" for name, value in told.items() if value is not None)


def _tasks(part: VectorPlan | TextPlan, facts: SearchFacts) -> Iterator[SearchTask]:
    if isinstance(part, VectorPlan):
        for number, group in enumerate(part.groups):
            task = _index_task(part, group, facts) if isinstance(group, SegmentGroup) else None
            task = task or _exact_task(part, group, facts)
            yield replace(task, measured=effort_of(facts.run, f"{VECTOR_PART}-{number}-"))
        return
    if part.index is not None:
        yield SearchTask(
            search=TEXT_PART,
            way="by index",
            segments=len(part.index.segments),
            fragments=len(part.covered),
            rows=part.covered_rows,
            measured=effort_of(facts.run, f"{TEXT_PART}-index"),
        )
    if part.scanned is not None:
        yield SearchTask(
            search=TEXT_PART,
            way="read whole",
            segments=0,
            fragments=len(part.scanned.fragments),
            rows=part.scanned.rows,
            rows_estimated=part.scanned.rows,
            measured=effort_of(facts.run, f"{TEXT_PART}-rest"),
        )


def _index_task(plan: VectorPlan, group: SegmentGroup, facts: SearchFacts) -> SearchTask:
    """Lance looks into as many partitions as asked for, and into more while those may hold nearer rows."""
    share, pages = None, None
    if facts.partitions:
        probes = min((plan.options.nprobes or 1) * facts.queries, facts.partitions)
        share, pages = probes / facts.partitions, probes * len(group.parts)
    sizes = {segment.uuid: segment.size_bytes for segment in plan.index.segments} if plan.index else {}
    size = sum(sizes.get(uuid) or 0 for uuid in group.uuids)
    return SearchTask(
        search=VECTOR_PART,
        way="by index",
        segments=len(group.parts),
        fragments=len(group.fragments),
        rows=group.rows,
        rows_estimated=None if share is None else round(group.rows * share),
        pages_estimated=pages,
        bytes_estimated=None if share is None else round(size * share),
    )


def _exact_task(plan: VectorPlan, group: SegmentGroup | FragmentGroup, facts: SearchFacts) -> SearchTask:
    type_ = vector_type(find_vector_column(plan.snapshot, plan.options.column))
    width = 0 if type_ is None else type_.list_size * type_.value_type.bit_width // 8
    return SearchTask(
        search=VECTOR_PART,
        way="exactly",
        segments=0,
        fragments=len(group.fragments),
        rows=group.rows,
        rows_estimated=group.rows * facts.queries,
        bytes_estimated=group.rows * width,
    )


def effort_of(run: Run | None, prefix: str) -> SearchEffort | None:
    """What the tasks whose ids begin so took, when there was a run."""
    if run is None:
        return None
    return sum((effort for id_, effort in run.efforts.items() if id_.startswith(prefix)), SearchEffort())


def sum_measured(run: Run, filtered: Explanation | None) -> SearchMeasured:
    """What a run took: the filter's indexes, all tasks, and reading the columns."""
    total = sum(run.efforts.values(), SearchEffort())
    asked = None if filtered is None else filtered.measured
    return SearchMeasured(
        root_bytes=asked.root_bytes if asked else 0,
        named=asked.named if asked else 0,
        index_pages=asked.pages if asked else 0,
        index_requests=asked.index_requests if asked else 0,
        index_bytes=asked.index_bytes if asked else 0,
        index_seconds=asked.index_seconds if asked else 0.0,
        tasks=len(run.efforts),
        rows_looked_at=total.rows,
        pages=total.pages,
        search_requests=total.read_requests,
        search_bytes=total.read_bytes,
        search_seconds=total.seconds,
        rows=run.read.rows,
        read_requests=run.read.read_requests,
        read_bytes=run.read.read_bytes,
        read_seconds=run.read.seconds,
    )
