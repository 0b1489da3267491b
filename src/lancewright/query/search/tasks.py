"""Makes the tasks of a search out of its plan. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lancewright.query.search.plan import FragmentGroup, HybridPlan, SegmentGroup, TextPlan, VectorPlan
from lancewright.query.search.request import RowsPrefilter
from lancewright.query.search.text_worker import TextWork, search_text_part
from lancewright.query.search.vector_worker import Found, VectorSettings, VectorWork, search_vector_part
from lancewright.runtime.task import Job, Task
from lancewright.table.vector_search import RowFilter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from lancewright.query.search.plan import SearchPlan
    from lancewright.query.search.request import Prefilter
    from lancewright.table.location import TableRef

# An exact search holds a distance for each vector and each row of a batch: 1,000 x 8,192 x 4 bytes are 32 MB.
VECTORS_PER_TASK = 1_000
VECTOR_PART = "vector"
TEXT_PART = "text"


def search_job(table: TableRef, plan: SearchPlan) -> Job:
    """What all tasks share."""
    return Job(worker=search_part, settings=vector_settings(table, plan))


def search_part(settings: VectorSettings | None, work: VectorWork | TextWork) -> Found:
    """Do one task of either search."""
    if isinstance(work, TextWork):
        return search_text_part(work)
    assert settings is not None, "a plan with vectors has settings"  # noqa: S101 - made together, below
    return search_vector_part(settings, work)


def vector_settings(table: TableRef, plan: SearchPlan) -> VectorSettings | None:
    """What the vector tasks of a plan share, if it has any."""
    match plan:
        case HybridPlan(vector=vector):
            return vector_settings(table, vector)
        case VectorPlan(snapshot=snapshot, options=options, has_graph=has_graph, strict=strict):
            pinned = table.pinned(snapshot.version)
            return VectorSettings(table=pinned, options=options, has_graph=has_graph, strict=strict)
        case _:
            return None


def vector_tasks(plan: VectorPlan, vectors: NDArray[Any], prefilter: Prefilter) -> Iterator[Task]:
    """One task for each group and each thousand vectors. Any: of the column's value type."""
    for number, group in enumerate(plan.groups):
        for first in range(0, len(vectors), VECTORS_PER_TASK):
            yield Task(
                id=f"{VECTOR_PART}-{number}-{first}",
                payload=VectorWork(
                    group=group,
                    rows=row_filter(plan, group, prefilter),
                    vectors=vectors[first : first + VECTORS_PER_TASK],
                    first_query=first,
                ),
                label="search segments" if isinstance(group, SegmentGroup) else "search fragments",
                fragments=group.fragments,
                rows=group.rows,
            )


def text_tasks(table: TableRef, plan: TextPlan, prefilter: Prefilter) -> Iterator[Task]:
    """One task for the index, one for what is outside of it."""
    indexed = FragmentGroup(fragments=plan.covered, rows=plan.covered_rows)
    if plan.index is not None and _may_match(indexed, prefilter):
        yield _text_task(table, plan, indexed, prefilter, whole_index=True)
    if plan.scanned is not None:
        yield _text_task(table, plan, plan.scanned, prefilter, whole_index=False)


def whole_text_task(
    table: TableRef, plan: TextPlan, prefilter: Prefilter, parameters: Mapping[str, Any]
) -> Task:
    """The task that answers without the index. Any: an option's value."""
    group = FragmentGroup(fragments=plan.fragments, rows=plan.covered_rows)
    task = _text_task(table, plan, group, prefilter, whole_index=False)
    return replace(task, payload=replace(task.payload, parameters=parameters))


def row_filter(
    plan: VectorPlan | TextPlan, group: SegmentGroup | FragmentGroup, prefilter: Prefilter
) -> RowFilter:
    """Which rows of a group may be found: of a set, the group's share."""
    allowed = prefilter.rows.only(group.fragments) if isinstance(prefilter, RowsPrefilter) else None
    return RowFilter(sql=plan.sql, allowed=allowed, use_scalar_index=plan.use_scalar_index)


def _text_task(
    table: TableRef, plan: TextPlan, group: FragmentGroup, prefilter: Prefilter, *, whole_index: bool
) -> Task:
    work = TextWork(
        table=table.pinned(plan.snapshot.version),
        column=plan.column,
        query=plan.query,
        k=plan.k,
        fragments=None if whole_index else group.fragments,
        rows=row_filter(plan, group, prefilter),
    )
    return Task(
        id=f"{TEXT_PART}-{'index' if whole_index else 'rest'}",
        payload=work,
        label="search texts",
        fragments=group.fragments,
        rows=group.rows,
    )


def _may_match(group: FragmentGroup, prefilter: Prefilter) -> bool:
    if not isinstance(prefilter, RowsPrefilter):
        return bool(group.fragments)
    return any(fragment in prefilter.rows.fragments for fragment in group.fragments)
