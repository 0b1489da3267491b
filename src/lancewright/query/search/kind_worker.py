"""What a task of a ranked search through a kind of our own does: rank the rows of some segments or fragments, keep the best.

A segment that cannot be asked makes an answer slower, not wrong: its rows are ranked without it, and a note says why.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from lancewright.errors import InvalidRequestError, LancewrightError, UnsupportedError
from lancewright.kinds.plugins import PLUGINS
from lancewright.query.search.notes import SearchNote, SearchReason
from lancewright.query.search.open_segments import SEGMENTS
from lancewright.query.search.rankers import (
    RANKED_SCHEMA,
    SCORE,
    BuildingRanker,
    Rows,
    ScoringRanker,
    SegmentRanker,
    TooFewError,
    has_scores,
)
from lancewright.query.search.segment_rows import SegmentRows
from lancewright.query.search.top_k import keep_best
from lancewright.query.search.vector_worker import Found
from lancewright.table.lance_compat import translating
from lancewright.table.metering import MeteredDataset, SearchEffort
from lancewright.table.opening import open_dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lancewright.kinds.contract import IndexKind, SearchProbe, Spec
    from lancewright.kinds.plugins import PluginRef
    from lancewright.kinds.segment.judging import KindSegment
    from lancewright.model.columns import Column
    from lancewright.model.computed import ComputedColumn
    from lancewright.query.search.rankers import Ranker
    from lancewright.table.location import TableRef
    from lancewright.table.vector_search import RowFilter

Result = TypeVar("Result")
QUERY_FIELD = pa.field("query", pa.int32())
FOUND_SCHEMA = pa.schema([QUERY_FIELD, *RANKED_SCHEMA])


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSettings:
    """What all tasks share: the kind, what the index is declared as, and one probe for each query.

    ``statistics``: for each probe what all parts know together, None while they are asked for it. ``moved``: a deferred compaction
    is remembered by the table.
    """

    table: TableRef
    plugin: PluginRef
    spec: Spec
    columns: tuple[Column | ComputedColumn, ...]
    probes: tuple[SearchProbe, ...]
    k: int
    stable_row_ids: bool
    moved: bool
    strict: bool
    statistics: tuple[tuple[bytes, ...], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KindWork:
    """Some segments, or fragments that no segment answers for, and which rows may be found."""

    segments: tuple[KindSegment, ...]
    fragments: tuple[int, ...]
    filter: RowFilter


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Told:
    """What the parts of a task know, for each probe one entry a part, and what finding that out took."""

    statistics: tuple[tuple[bytes, ...], ...]
    notes: tuple[SearchNote, ...] = ()
    effort: SearchEffort = field(default_factory=SearchEffort)


def rank_part(settings: KindSettings, work: KindWork) -> Found | Told:
    """Do one task: find the best rows, or, when the probes need statistics that nobody has yet, say what it knows."""
    kind = PLUGINS.load_ref(settings.plugin)
    with translating(settings.table, "search"):
        metered = MeteredDataset(open_dataset(settings.table))
        parts = _Parts(settings, kind, metered)
        if settings.statistics is None and any(probe.needs_statistics for probe in settings.probes):
            told = parts.tell(work)
            return replace(told, effort=metered.effort())
        found = parts.find(work)
        return replace(found, effort=metered.effort())


class _Parts:
    """The parts of one task."""

    def __init__(
        self, settings: KindSettings, kind: IndexKind, dataset: Any
    ) -> None:  # Any: pylance's dataset is untyped
        self._settings = settings
        self._kind = kind
        self._dataset = dataset
        self._notes: list[SearchNote] = []

    def tell(self, work: KindWork) -> Told:
        probes = self._settings.probes
        told = list(self._each(work, lambda ranker: [ranker.statistics(probe) for probe in probes]))
        of_probes = tuple(tuple(one[place] for one in told if one) for place in range(len(probes)))
        return Told(statistics=of_probes, notes=tuple(self._notes))

    def find(self, work: KindWork) -> Found:
        settings = self._settings
        statistics = settings.statistics or ((),) * len(settings.probes)
        parts = list(
            self._each(
                work,
                lambda ranker: [
                    ranker.best(probe, known, settings.k)
                    for probe, known in zip(settings.probes, statistics, strict=True)
                ],
            )
        )
        rows = [_numbered(number, table) for part in parts for number, table in enumerate(part)]
        whole = pa.concat_tables([FOUND_SCHEMA.empty_table(), *rows])
        best = keep_best(whole, SCORE, settings.k, descending=settings.probes[0].descending)
        return Found(rows=best, notes=tuple(self._notes))

    def _each(self, work: KindWork, act: Callable[[Ranker], list[Result]]) -> Iterator[list[Result]]:
        for segment in work.segments:
            yield self._through(segment, work.filter, act)
        if work.fragments:
            yield act(self._around(work.fragments, work.filter))

    def _through(
        self, segment: KindSegment, rows: RowFilter, act: Callable[[Ranker], list[Result]]
    ) -> list[Result]:
        """Through the segment, or around it when it cannot be asked."""
        settings, fragments = self._settings, tuple(segment.covered)
        opened = None
        try:
            opened = SEGMENTS.open(settings.table, self._kind, settings.spec, segment)
            known = SegmentRows(
                table=settings.table,
                dataset=self._dataset,
                opened=opened,
                fragments=fragments,
                filter=rows,
                moved=settings.moved,
            )
            return act(SegmentRanker(opened=opened, rows=known))
        except InvalidRequestError:
            raise
        except TooFewError:
            reason, problem = SearchReason.FEWER_THAN_K, f"kind {self._kind.name!r} left rows out"
        except LancewrightError as error:
            if opened is not None:
                SEGMENTS.forget(opened)
            missing = isinstance(error, UnsupportedError)
            reason = SearchReason.NO_PLUGIN if missing else SearchReason.BROKEN_SEGMENT
            problem = str(error)
        self._notes.append(
            SearchNote(
                reason=reason,
                subject=segment.segment.uuid,
                explanation=f"{problem}; its rows were ranked without it",
            )
        )
        return [] if settings.strict else act(self._around(fragments, rows))

    def _around(self, fragments: tuple[int, ...], allowed: RowFilter) -> Ranker:
        """Whatever ranks rows without a segment."""
        settings, kind = self._settings, self._kind
        rows = Rows(
            table=settings.table,
            columns=settings.columns,
            fragments=fragments,
            filter=allowed,
            stable_row_ids=settings.stable_row_ids,
            dataset=self._dataset,
        )
        if all(has_scores(kind, probe) for probe in settings.probes):
            return ScoringRanker(kind=kind, spec=settings.spec, rows=rows)
        sizes = tuple(
            (fragment, int(self._dataset.get_fragment(fragment).physical_rows))
            for fragment in sorted(fragments)
        )
        return BuildingRanker(kind=kind, spec=settings.spec, rows=rows, sizes=sizes)


def _numbered(number: int, rows: pa.Table) -> pa.Table:
    return rows.add_column(0, QUERY_FIELD, pa.array([number] * len(rows), pa.int32()))
