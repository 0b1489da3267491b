"""What a task of a vector search does: search one group of segments or fragments for some vectors, and keep the best.

An index that cannot be read makes an answer slower, not wrong: its fragments are searched exactly, and a note says why.
Memory: a batch of Lance's scan and ``k`` rows for each vector.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewright.query.search.notes import SearchNote, SearchReason
from lancewright.query.search.plan import FragmentGroup
from lancewright.query.search.top_k import keep_best
from lancewright.table.gone_rows import count_gone_rows
from lancewright.table.lance_compat import redact_text, translating
from lancewright.table.metering import MeteredDataset, SearchEffort
from lancewright.table.opening import open_dataset
from lancewright.table.vector_search import (
    DISTANCE,
    NEAREST_SCHEMA,
    NearestOptions,
    RowFilter,
    search_fragments,
    search_segments,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from lancewright.query.search.plan import SegmentGroup
    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSettings:
    """What all tasks of a vector search share."""

    table: TableRef
    options: NearestOptions
    has_graph: bool
    strict: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VectorWork:
    """Some vectors, and the part of the table in which each one's neighbours are searched for."""

    group: SegmentGroup | FragmentGroup
    rows: RowFilter
    vectors: NDArray[Any]  # Any: of the column's value type
    first_query: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """The rows one task found, best first, what it had to do otherwise than planned, and what it took."""

    rows: pa.Table
    notes: tuple[SearchNote, ...] = ()
    effort: SearchEffort = field(default_factory=SearchEffort)


def search_vector_part(settings: VectorSettings, work: VectorWork) -> Found:
    """Do one task."""
    with translating(settings.table, "search"):
        return search_open_part(open_dataset(settings.table), settings, work)


def search_open_part(
    dataset: Any, settings: VectorSettings, work: VectorWork
) -> Found:  # Any: pylance's dataset is untyped
    """Do one task on a dataset that is open already, for who has several."""
    metered = MeteredDataset(dataset)
    if isinstance(work.group, FragmentGroup):
        rows = search_fragments(metered, settings.options, work.vectors, work.group.fragments, work.rows)
        found = Found(rows=rows)
    else:
        found = _search_group(metered, settings, work, work.group)
    numbers = pc.add(found.rows["query"], pa.scalar(work.first_query, pa.int32()))
    rows = found.rows.set_column(0, NEAREST_SCHEMA.field(0), numbers)
    return replace(found, rows=rows, effort=metered.effort())


def _search_group(
    dataset: Any, settings: VectorSettings, work: VectorWork, group: SegmentGroup
) -> Found:  # Any: as above
    rows, problem = _try_index(settings, lambda: _ask_index(dataset, settings, work, group))
    if rows is not None:
        return _top_up(dataset, settings, work, group, rows)
    if len(group.parts) == 1:
        return _search_around(dataset, settings, work, group, problem)
    # One damaged segment spoils the call; asked one by one, the others still answer.
    apart = [_search_group(dataset, settings, work, replace(group, parts=(part,))) for part in group.parts]
    best = keep_best(
        pa.concat_tables([found.rows for found in apart]), DISTANCE, settings.options.k, descending=False
    )
    return Found(rows=best, notes=tuple(note for found in apart for note in found.notes))


def _ask_index(
    dataset: Any, settings: VectorSettings, work: VectorWork, group: SegmentGroup
) -> pa.Table:  # Any: as above
    """Ask for more rows while rows that are gone may have taken the places of some; graphs have ``_top_up`` for that."""
    wanted, options = settings.options.k, settings.options
    rows = search_segments(dataset, options, work.vectors, group.uuids, work.rows)
    if settings.has_graph or not len(_short(work, group, rows, wanted)):
        return rows
    most = wanted + count_gone_rows(dataset)
    while options.k < most and len(_short(work, group, rows, wanted)):
        options = replace(options, k=min(options.k * 4, most))
        rows = search_segments(dataset, options, work.vectors, group.uuids, work.rows)
    return keep_best(rows, DISTANCE, wanted, descending=False)


def _short(work: VectorWork, group: SegmentGroup, rows: pa.Table, k: int) -> NDArray[np.int64]:
    """The vectors for which fewer rows were found than there are to be found, up to ``k``."""
    wanted = min(k, group.rows if work.rows.allowed is None else work.rows.allowed.count)
    return np.flatnonzero(np.bincount(rows["query"].to_numpy(), minlength=len(work.vectors)) < wanted)


def _search_around(
    dataset: Any, settings: VectorSettings, work: VectorWork, group: SegmentGroup, problem: str
) -> Found:  # Any: as above
    note = SearchNote(reason=SearchReason.BROKEN_SEGMENT, subject=group.uuids[0], explanation=problem)
    if settings.strict:
        return Found(rows=NEAREST_SCHEMA.empty_table(), notes=(note,))
    rows = search_fragments(dataset, settings.options, work.vectors, group.fragments, work.rows)
    return Found(rows=rows, notes=(note,))


def _top_up(
    dataset: Any, settings: VectorSettings, work: VectorWork, group: SegmentGroup, rows: pa.Table
) -> Found:  # Any: as above
    """A walk over a graph may end before it met ``k`` rows; then every row is looked at."""
    counts = np.bincount(rows["query"].to_numpy(), minlength=len(work.vectors))
    short = _short(work, group, rows, settings.options.k)
    if not settings.has_graph or settings.options.bounded or not len(short):
        return Found(rows=rows)
    exact = search_fragments(dataset, settings.options, work.vectors[short], group.fragments, work.rows)
    queries = pa.array(short.astype(np.int32)).take(exact["query"])
    whole = rows.filter(pc.invert(pc.is_in(rows["query"], pa.array(short.astype(np.int32)))))
    both = pa.concat_tables([whole, exact.set_column(0, NEAREST_SCHEMA.field(0), queries)])
    note = SearchNote(
        reason=SearchReason.FEWER_THAN_K,
        subject=", ".join(group.uuids),
        explanation=f"the graph led to fewer than {settings.options.k} rows for {len(short)} vectors; every row was looked at",
    )
    return Found(rows=both, notes=(note,) if len(exact) > int(counts[short].sum()) else ())


def _try_index(settings: VectorSettings, search: Callable[[], pa.Table]) -> tuple[pa.Table | None, str]:
    try:
        return search(), ""
    except (KeyboardInterrupt, SystemExit):
        raise
    # A damaged file may also end in a panic of Lance's Rust code, which is a BaseException and no Exception. A mistake in the
    # request is told by the exact search that follows.
    except BaseException as error:  # noqa: BLE001
        words = redact_text(str(error), settings.table).strip().splitlines()
        return None, words[0] if words else type(error).__name__
