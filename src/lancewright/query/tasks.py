"""Cuts the answers of indexes into tasks for executors: which rows of which fragments, and what is checked on them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from lancewright.model.predicate import to_lance_sql
from lancewright.query.costs import Reading, Widths, cost_of_rows, cost_of_scan
from lancewright.query.covering import find_sources
from lancewright.query.unreadable import Places, find_places

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyroaring import FrozenBitMap

    from lancewright.model.predicate import Predicate
    from lancewright.model.row_set import RowSet
    from lancewright.model.snapshot import Fragment, TableSnapshot
    from lancewright.query.answers import PortionAnswer
    from lancewright.query.covering import ValuesSource, Wanted
    from lancewright.query.kind_index import KindIndex
    from lancewright.query.plan import QueryPlan
    from lancewright.query.settings import ScanSettings

_ROWS_PER_RUN_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """One task: the rows named of some fragments, or all their rows; those for which the filter is TRUE.

    ``values``: a segment whose files have all that is asked of the rows.
    """

    fragments: tuple[int, ...]
    rows: RowSet | None
    filter: str | None
    native_indexes: bool
    row_count: int
    places: Places | None = None
    values: ValuesSource | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInput:
    """What the cutting depends on besides the answers."""

    widths: Widths
    settings: ScanSettings
    parallelism: int
    kinds: Mapping[str, KindIndex] = field(default_factory=dict)
    wanted: Wanted | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """A condition as a task checks it."""

    filter: str | None = None
    places: Places | None = None


def plan_tasks(
    snapshot: TableSnapshot, plan: QueryPlan, answers: Sequence[PortionAnswer], cut: TaskInput
) -> tuple[ScanTask, ...]:
    """One small task for a few rows, whatever the number of fragments; scans balanced by rows, in the order of addresses."""
    tasks: list[ScanTask] = []
    for answer in answers:
        residual, whole = _check(answer.portion.residual), _check(plan.predicate)
        scanned = list(answer.portion.fragments)
        if answer.rows is not None:
            left = answer.rows
            for source in _sources(snapshot, answer, cut):
                own = left.only(frozenset(source.fragments))
                left = left.only(left.fragments.keys() - own.fragments.keys())
                tasks += (replace(task, values=source) for task in _row_tasks(own, residual, cut))
            scanned = [
                fragment
                for fragment, rows in left.fragments.items()
                if _is_denser_than_a_scan(
                    snapshot.fragments_by_id[fragment], rows, cut, settled=residual.filter is None
                )
            ]
            read = left.only(left.fragments.keys() - set(scanned))
            tasks += _row_tasks(read, residual, cut)
        tasks += _scan_tasks(snapshot, scanned, whole, cut, native_indexes=answer.portion.native_indexes)
    return tuple(sorted(tasks, key=lambda task: task.fragments[:1]))


def _sources(snapshot: TableSnapshot, answer: PortionAnswer, cut: TaskInput) -> tuple[ValuesSource, ...]:
    name = answer.portion.covered_by
    if name is None or cut.wanted is None:
        return ()
    return find_sources(snapshot, answer.portion, cut.kinds[name], cut.wanted)


def _is_denser_than_a_scan(fragment: Fragment, rows: FrozenBitMap, cut: TaskInput, *, settled: bool) -> bool:
    reading = Reading(rows=len(rows), runs=_count_runs(rows), of_rows=fragment.physical_rows, settled=settled)
    return cost_of_rows(reading, cut.widths, cut.settings) > cost_of_scan(reading, cut.widths, cut.settings)


def _count_runs(rows: FrozenBitMap) -> int:
    offsets = np.frombuffer(rows.to_array(), dtype=np.uint32)
    return 1 + int(np.count_nonzero(np.diff(offsets) != 1)) if len(offsets) else 0


def _check(predicate: Predicate | None) -> _Check:
    if predicate is None:
        return _Check()
    return _Check(filter=to_lance_sql(predicate), places=find_places(predicate))


def _row_tasks(rows: RowSet, residual: _Check, cut: TaskInput) -> Iterator[ScanTask]:
    """As few tasks as the rows allow: a task costs more than some thousand reads. A run of neighbours is one read."""
    runs = sum(_count_runs(one) for one in rows.fragments.values())
    rows_per_run = min(_ROWS_PER_RUN_MAX, len(rows) // max(1, runs))
    for part in rows.split(cut.settings.rows_per_task * max(1, rows_per_run)):
        yield ScanTask(
            fragments=tuple(part.fragments),
            rows=part,
            filter=residual.filter,
            native_indexes=False,
            row_count=len(part),
            places=residual.places,
        )


def _scan_tasks(
    snapshot: TableSnapshot,
    fragments: Sequence[int],
    whole: _Check,
    cut: TaskInput,
    *,
    native_indexes: bool,
) -> Iterator[ScanTask]:
    sizes = {fragment: snapshot.fragments_by_id[fragment].rows for fragment in fragments}
    total = sum(sizes.values())
    target = max(1, min(cut.settings.scan_rows_per_task, -(-total // max(1, cut.parallelism))))
    group: list[int] = []
    rows = 0
    for fragment in sorted(sizes):
        if group and rows + sizes[fragment] > target:
            yield _scan_task(group, rows, whole, native_indexes=native_indexes)
            group, rows = [], 0
        group.append(fragment)
        rows += sizes[fragment]
    if rows:
        yield _scan_task(group, rows, whole, native_indexes=native_indexes)


def _scan_task(fragments: Sequence[int], rows: int, whole: _Check, *, native_indexes: bool) -> ScanTask:
    return ScanTask(
        fragments=tuple(fragments),
        rows=None,
        filter=whole.filter,
        native_indexes=native_indexes,
        row_count=rows,
        places=whole.places,
    )
