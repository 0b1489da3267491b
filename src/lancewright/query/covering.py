"""Answers which rows of a plan can be returned from the files of an index, without reading the table. Pure.

An index keeps values of the rows it was built over. They are those of the table as long as the manifest says that the segment
covers the fragment: a column that is kept is one of the index's fields, and a fragment in which one was rewritten is not
covered any more. A row is found by its address in a fragment that the segment was built over, where rows never move.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyroaring import FrozenBitMap

from lancewright.kinds.segment.values import value_name
from lancewright.model.predicate import columns_of
from lancewright.query.plan import indexes_of
from lancewright.query.unreadable import find_places

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lancewright.kinds.segment.judging import KindSegment
    from lancewright.model.index import Segment
    from lancewright.model.segment_details import SegmentDetails
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.query.kind_index import KindIndex
    from lancewright.query.plan import Portion, QueryPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesSource:
    """A segment that keeps the values of its rows: where it is, and the columns needed of it.

    ``names`` are those there, ``columns`` the same as the table has them, ``output`` those that are returned.
    """

    segment: Segment
    details: SegmentDetails
    names: tuple[str, ...]
    columns: pa.Schema
    output: pa.Schema
    fragments: FrozenBitMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a scan returns: columns of the table, and whether row ids or addresses beside them."""

    columns: tuple[str, ...]
    with_rows: bool


def mark_covered(
    snapshot: TableSnapshot, plan: QueryPlan, kinds: Mapping[str, KindIndex], wanted: Wanted
) -> QueryPlan:
    """Note with every portion that an index answers which index also has all that is asked of the rows."""
    if wanted.with_rows or not wanted.columns:
        return plan
    portions = tuple(
        replace(portion, covered_by=_find_covering(snapshot, portion, kinds, wanted))
        for portion in plan.portions
    )
    return replace(plan, portions=portions)


def find_sources(
    snapshot: TableSnapshot, portion: Portion, index: KindIndex, wanted: Wanted
) -> tuple[ValuesSource, ...]:
    """The segments whose files have the rows of a portion, each with the fragments it has them for."""
    needed = _needed(portion, wanted)
    found = []
    for segment in index.segments:
        kept = _kept(snapshot, segment)
        fragments = segment.covered & segment.details.built & portion.fragments
        if not fragments or not needed <= kept.keys():
            continue
        found.append(
            ValuesSource(
                segment=replace(segment.segment, details=b""),
                details=replace(segment.details, summary=b""),
                names=tuple(kept[path] for path in sorted(needed)),
                columns=_schema(snapshot, sorted(needed)),
                output=_schema(snapshot, wanted.columns),
                fragments=FrozenBitMap(fragments),
            )
        )
    return tuple(found)


def _find_covering(
    snapshot: TableSnapshot, portion: Portion, kinds: Mapping[str, KindIndex], wanted: Wanted
) -> str | None:
    if portion.probe is None or (portion.residual is not None and find_places(portion.residual) is not None):
        return None  # around geometries that Lance cannot read, only the table is read
    names = sorted(indexes_of(portion.probe) & kinds.keys())
    return next((name for name in names if find_sources(snapshot, portion, kinds[name], wanted)), None)


def _needed(portion: Portion, wanted: Wanted) -> frozenset[str]:
    checked = () if portion.residual is None else columns_of(portion.residual)
    return frozenset({*wanted.columns, *checked})


def _kept(snapshot: TableSnapshot, segment: KindSegment) -> dict[str, str]:
    """By their paths of now the columns whose values a segment keeps, with the names it keeps them under."""
    columns = snapshot.columns_by_field_id
    return {
        columns[field_id].path: value_name(field_id)
        for field_id, type_ in segment.details.values
        if field_id in columns and str(columns[field_id].type) == type_
    }


def _schema(snapshot: TableSnapshot, paths: Iterable[str]) -> pa.Schema:
    """Columns as the table has them; values are kept only of those at its top."""
    names = {column.path: names[0] for names, column in snapshot.columns.items() if len(names) == 1}
    return pa.schema([snapshot.schema.field(names[path]) for path in paths])
