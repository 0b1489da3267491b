"""Answers how many rows and pages a condition would touch, from the small files at the root of an index. Pure.

The files were read by ``table.index_reader``. An estimate decides only how rows are found, never which rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewright.model.predicate import And, Comparison, InList, IsNull, Not, Operator
from lancewright.query.answering import is_prefix, prefix_of
from lancewright.query.costs import width_of
from lancewright.query.plan import Estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from lancewright.model.predicate import Literal, Predicate

    Mask: TypeAlias = NDArray[np.bool_]

_ADDRESS_BYTES = 8
# A page that a value neither begins nor ends holds between one row of it and all. Too low is the better mistake: what an
# index then names is counted, and fragments with many rows are scanned after all.
_ROWS_OF_A_VALUE_IN_A_PAGE = 4
# Every literal of a list costs a pass over the page table; past this many the rest is taken to be like these.
_LITERALS_LOOKED_UP_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTable:
    """The pages of one BTree segment: the smallest and largest value of each, its NULLs, in the order of the values."""

    low: pa.Array
    high: pa.Array
    nulls: NDArray[np.int64]
    page_rows: int

    @property
    def page_bytes(self) -> int:
        """What reading one page costs."""
        return self.page_rows * (_ADDRESS_BYTES + width_of(self.low.type))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTable:
    """The keys of one bitmap segment, and how many bytes it has in all."""

    keys: pa.Array
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneTable:
    """The zones of one zone map segment: runs of rows of a fragment with their smallest and largest value."""

    low: pa.Array
    high: pa.Array
    nulls: NDArray[np.int64]
    nans: NDArray[np.int64]
    fragments: NDArray[np.int64]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]


SegmentTable: TypeAlias = PageTable | KeyTable | ZoneTable


@dataclass(frozen=True, kw_only=True)
class IndexStatistics:
    """What is known of each index by name: the tables of its segments and the rows it covers.

    ``broken`` names the indexes whose files could not be read, and why.
    """

    tables: Mapping[str, tuple[SegmentTable, ...]] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)

    def estimate(self, index: str, predicate: Predicate) -> Estimate | None:
        """What asking this index this condition would give and cost; None when nothing is known of it."""
        tables = self.tables.get(index, ())
        if not tables:
            return None
        parts = [_estimate(table, predicate, self.rows.get(index, 0)) for table in tables]
        return Estimate(
            rows=min(float(self.rows.get(index, 0)), sum(part.rows for part in parts)),
            runs=sum(part.runs for part in parts),
            index_bytes=sum(part.index_bytes for part in parts),
            pages=sum(part.pages for part in parts),
            segments=sum(1 for part in parts if part.rows or part.pages),
        )


def zone_mask(zones: ZoneTable, predicate: Predicate) -> Mask:
    """Which zones may hold a row for which the condition is TRUE."""
    if isinstance(predicate, IsNull):
        return zones.nulls > 0
    mask = _may_hold(zones.low, zones.high, predicate)
    # NaN is above every other number; what a zone's bounds say of it was never promised.
    mask |= zones.nans > 0
    return mask


def _estimate(table: SegmentTable, predicate: Predicate, rows: int) -> Estimate:
    match table:
        case PageTable():
            return _estimate_pages(table, predicate)
        case KeyTable():
            return _estimate_keys(table, predicate, rows)
        case ZoneTable():
            mask = zone_mask(table, predicate)
            return Estimate(rows=float(table.lengths[mask].sum()), runs=float(mask.sum()))


def _estimate_pages(table: PageTable, predicate: Predicate) -> Estimate:
    pages, rows = _pages_and_rows(table, predicate)
    return Estimate(rows=rows, runs=rows, index_bytes=pages * table.page_bytes, pages=pages)


def _pages_and_rows(table: PageTable, predicate: Predicate) -> tuple[float, float]:
    total = len(table.low)
    match predicate:
        case Not(child=child):
            return float(total), max(0.0, total * table.page_rows - _pages_and_rows(table, child)[1])
        case IsNull():
            return float((table.nulls > 0).sum()), float(table.nulls.sum())
        case Comparison(operator=Operator.NOT_EQUAL, literal=literal):
            equal = _pages_and_rows(table, _equal(predicate, literal))
            return float(total), max(0.0, total * table.page_rows - equal[1])
        case InList(literals=literals):
            looked_up = literals[:_LITERALS_LOOKED_UP_MAX]
            found = [_pages_and_rows(table, _equal(predicate, literal)) for literal in looked_up]
            scale = len(literals) / len(looked_up)
            return min(total, sum(one[0] for one in found) * scale), sum(one[1] for one in found) * scale
        case Comparison(operator=Operator.EQUAL, literal=literal):
            return _equal_pages_and_rows(table, predicate, literal)
        case _:
            touched = float(_touched_pages(table, predicate).sum())
            # Half of each of the two pages at the ends.
            return touched, max(0.5, touched - 1) * table.page_rows if touched else 0.0


def _equal_pages_and_rows(table: PageTable, predicate: Predicate, literal: Literal) -> tuple[float, float]:
    touched = _touched_pages(table, predicate)
    full = touched & _all_equal(table, literal)
    bordering = float(touched.sum() - full.sum())
    in_a_page = min(_ROWS_OF_A_VALUE_IN_A_PAGE, table.page_rows)
    return float(touched.sum()), float(full.sum()) * table.page_rows + bordering * in_a_page


def _touched_pages(table: PageTable, predicate: Predicate) -> Mask:
    """A page without a smallest and a largest value holds NULLs alone, for which no comparison is TRUE."""
    only_nulls: Mask = pc.and_(table.low.is_null(), table.high.is_null()).to_numpy(zero_copy_only=False)
    return _may_hold(table.low, table.high, predicate) & ~only_nulls


def _equal(predicate: Comparison | InList, literal: Literal) -> Comparison:
    return Comparison(column=predicate.column, operator=Operator.EQUAL, literal=literal)


def _all_equal(table: PageTable, literal: Literal) -> Mask:
    value = literal.scalar
    return _mask(pc.and_(pc.equal(table.low, value), pc.equal(table.high, value)))


def _estimate_keys(table: KeyTable, predicate: Predicate, rows: int) -> Estimate:
    share = _share_of_keys(table, predicate)
    return Estimate(rows=rows * share, runs=rows * share, index_bytes=table.size_bytes * share)


def _share_of_keys(table: KeyTable, predicate: Predicate) -> float:
    total = max(1, len(table.keys))
    match predicate:
        case Not(child=child):
            return 1.0 - _share_of_keys(table, child)
        case IsNull():
            return float(table.keys.null_count) / total
        case Comparison(operator=Operator.NOT_EQUAL, literal=literal):
            return 1.0 - _share_of_keys(table, _equal(predicate, literal))
        case _:
            return float(_may_hold(table.keys, table.keys, predicate).sum()) / total


def _may_hold(low: pa.Array, high: pa.Array, predicate: Predicate) -> Mask:
    """Which intervals may hold a value for which the condition is TRUE; one with unknown bounds may."""
    match predicate:
        case And(children=children):
            mask: Mask = np.logical_and.reduce([_may_hold(low, high, child) for child in children])
            return mask
        case InList(literals=literals):
            found = [_holds(low, high, Operator.EQUAL, literal.scalar) for literal in literals]
            any_of: Mask = np.logical_or.reduce(found)
            return any_of
        case Comparison(operator=operator, literal=literal):
            return _holds(low, high, operator, literal.scalar)
        case _ if is_prefix(predicate):
            return _holds_prefix(low, high, prefix_of(predicate))
        case _:
            return np.ones(len(low), dtype=np.bool_)


_HOLDS: Mapping[Operator, Callable[[Any, Any, Any], Any]] = {
    Operator.EQUAL: lambda low, high, value: pc.and_(
        pc.less_equal(low, value), pc.greater_equal(high, value)
    ),
    Operator.LESS: lambda low, _, value: pc.less(low, value),
    Operator.LESS_EQUAL: lambda low, _, value: pc.less_equal(low, value),
    Operator.GREATER: lambda _, high, value: pc.greater(high, value),
    Operator.GREATER_EQUAL: lambda _, high, value: pc.greater_equal(high, value),
}

_OR_EQUAL = {Operator.LESS: Operator.LESS_EQUAL, Operator.GREATER: Operator.GREATER_EQUAL}


def _holds(low: pa.Array, high: pa.Array, operator: Operator, value: pa.Scalar) -> Mask:
    if pa.types.is_floating(value.type):
        # Arrow takes -0.0 for 0.0, Lance puts it below: bounds that touch count.
        operator = _OR_EQUAL.get(operator, operator)
    compare = _HOLDS.get(operator)
    if compare is None or _is_nan(value):
        return np.ones(len(low), dtype=np.bool_)
    try:
        return _mask(compare(low, high, value))
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return np.ones(len(low), dtype=np.bool_)


def _holds_prefix(low: pa.Array, high: pa.Array, prefix: str) -> Mask:
    try:
        starts = pc.utf8_slice_codeunits(low, 0, len(prefix))
        ends = pc.utf8_slice_codeunits(high, 0, len(prefix))
        return _mask(pc.and_(pc.less_equal(starts, prefix), pc.greater_equal(ends, prefix)))
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return np.ones(len(low), dtype=np.bool_)


def _mask(found: pa.Array) -> Mask:
    mask: Mask = pc.fill_null(found, fill_value=True).to_numpy(zero_copy_only=False)
    return mask


def _is_nan(value: pa.Scalar) -> bool:
    return bool(pa.types.is_floating(value.type)) and value.as_py() != value.as_py()
