"""Asks the indexes what a plan wants to know, once, before any task: row sets for the portions that have a probe.

An index that cannot be read costs its portion a scan, never the query, unless the caller is strict.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyroaring import BitMap, FrozenBitMap

from lancewright.errors import CorruptIndexError, LancewrightError
from lancewright.model.predicate import to_lance_sql
from lancewright.model.row_set import RowSet, row_set, unite
from lancewright.query.plan import (
    Both,
    Either,
    KindProbe,
    NativeProbe,
    Portion,
    Probe,
    Reason,
    ZoneProbe,
    indexes_of,
)
from lancewright.query.statistics import ZoneTable, zone_mask
from lancewright.table.index_reader import NotAnsweredError, OtherIndexError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lancewright.query.kind_rows import KindAsker
    from lancewright.query.plan import QueryPlan
    from lancewright.query.statistics import IndexStatistics
    from lancewright.table.index_reader import FoundRows, IndexReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """What asking took."""

    pages: int = 0
    read_requests: int = 0
    read_bytes: int = 0
    seconds: float = 0.0

    def __add__(self, other: Effort) -> Effort:
        """Both together."""
        return Effort(
            pages=self.pages + other.pages,
            read_requests=self.read_requests + other.read_requests,
            read_bytes=self.read_bytes + other.read_bytes,
            seconds=self.seconds + other.seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSources:
    """Who is asked: Lance for its own indexes, what was read of their roots, and the other kinds."""

    reader: IndexReader
    statistics: IndexStatistics
    kinds: KindAsker


@dataclass(frozen=True, slots=True, kw_only=True)
class PortionAnswer:
    """A portion and the rows to read of it; ``rows`` of None says that all its fragments are scanned.

    ``failure`` is why the indexes ``asked`` did not answer, ``reason`` the code of it.
    """

    portion: Portion
    rows: RowSet | None
    effort: Effort = field(default_factory=Effort)
    asked: frozenset[str] = frozenset()
    failure: str = ""
    reason: Reason = Reason.USED


def ask_indexes(plan: QueryPlan, sources: IndexSources | None, *, strict: bool) -> tuple[PortionAnswer, ...]:
    """Ask for every portion; ``sources`` may be None when no portion has a probe."""
    return tuple(_ask_portion(plan, portion, sources, strict=strict) for portion in plan.portions)


def _ask_portion(
    plan: QueryPlan,
    portion: Portion,
    sources: IndexSources | None,
    *,
    strict: bool,
) -> PortionAnswer:
    if portion.probe is None or sources is None:
        return PortionAnswer(portion=portion, rows=None)
    asked = indexes_of(portion.probe)
    every_fragment = len(portion.fragments) == plan.table_fragments
    asking = _Asking(sources=sources, portion=portion, every_fragment=every_fragment)
    try:
        rows, effort = asking.ask(portion.probe)
    except LancewrightError as error:
        reason = _why_failed(error)
        if strict and reason is Reason.BROKEN_SEGMENT:
            names = ", ".join(sorted(asked))
            raise CorruptIndexError(
                f"Index {names} of {plan.table} did not answer: {error.problem}",
                "Build it again with create_index(..., replace=True), or query without strict=True to scan instead.",
            ) from error
        scanned = replace(portion, probe=None, residual=plan.predicate)
        return PortionAnswer(portion=scanned, rows=None, asked=asked, failure=error.problem, reason=reason)
    return PortionAnswer(portion=portion, rows=rows, effort=effort, asked=asked)


def _why_failed(error: LancewrightError) -> Reason:
    match error:
        case OtherIndexError():
            return Reason.OTHER_INDEX_CHOSEN
        case NotAnsweredError():
            return Reason.OPERATOR_UNSUPPORTED
        case _:
            return Reason.BROKEN_SEGMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking:
    sources: IndexSources
    portion: Portion
    every_fragment: bool

    def ask(self, probe: Probe) -> tuple[RowSet, Effort]:
        match probe:
            case NativeProbe(predicate=predicate, indexes=indexes):
                fragments = None if self.every_fragment else list(self.portion.fragments)
                found = self.sources.reader.find_rows(to_lance_sql(predicate), indexes, fragments)
                return row_set(found.addresses), _effort(found)
            case ZoneProbe(predicate=predicate, index=index):
                zones = [
                    table for table in self.sources.statistics.tables[index] if isinstance(table, ZoneTable)
                ]
                return unite(
                    zone_rows(table, zone_mask(table, predicate), self.portion.fragments) for table in zones
                ), Effort()
            case KindProbe():
                named = self.sources.kinds.ask(probe, self.portion.fragments)
                return named.rows, Effort(
                    read_requests=named.read_requests, read_bytes=named.read_bytes, seconds=named.seconds
                )
            case Both(parts=parts):
                return self._ask_all(parts)
            case Either(parts=parts):
                answers = [self.ask(part) for part in parts]
                return unite(rows for rows, _ in answers), sum((effort for _, effort in answers), Effort())

    def _ask_all(self, parts: tuple[Probe, ...]) -> tuple[RowSet, Effort]:
        rows, effort = self.ask(parts[0])
        for part in parts[1:]:
            if not rows:
                break
            more, cost = self.ask(part)
            rows, effort = rows & more, effort + cost
        return rows, effort


def zone_rows(zones: ZoneTable, mask: NDArray[np.bool_], fragments: FrozenBitMap) -> RowSet:
    """The rows of the zones chosen, in these fragments."""
    rows: dict[int, BitMap] = {}
    for fragment, start, length in zip(
        zones.fragments[mask].tolist(), zones.starts[mask].tolist(), zones.lengths[mask].tolist(), strict=True
    ):
        if fragment in fragments:
            rows.setdefault(fragment, BitMap()).add_range(start, start + length)
    return RowSet({fragment: FrozenBitMap(one) for fragment, one in rows.items()})


def _effort(found: FoundRows) -> Effort:
    return Effort(
        pages=found.pages,
        read_requests=found.read_requests,
        read_bytes=found.read_bytes,
        seconds=found.seconds,
    )
