"""Reads around geometries that Lance cannot evaluate a function of: what is asked of them is NULL.

Lance 14 ends a scan at the first value that is no WKB, and at some NaN and empty geometries. Only then the rows in question are
looked for; they are read by themselves, with a filter in which functions of those geometries are not TRUE.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lancewright.errors import LancewrightError, UnsupportedError
from lancewright.kinds.spatial.geometry import readable
from lancewright.model.predicate import And, Call, Not, Or, conjoin, to_lance_sql
from lancewright.model.row_set import row_set
from lancewright.table.row_reader import read_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import pyarrow as pa

    from lancewright.model.predicate import Predicate
    from lancewright.table.location import TableRef
    from lancewright.table.row_reader import RowRequest

    Geometry = tuple[str, ...]

_ADDRESS = "_rowaddr"
_FUNCTIONS = frozenset({"st_intersects", "st_within", "st_dwithin", "st_distance_below"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The geometries a filter asks about, each one column or the two of a point, and the filter, in negation normal form."""

    geometries: tuple[Geometry, ...]
    predicate: Predicate


def find_places(predicate: Predicate) -> Places | None:
    """What has to be known to read around geometries; None when the filter asks about none."""
    found = dict.fromkeys(_geometries(predicate))
    return Places(geometries=tuple(found), predicate=predicate) if found else None


def read_around(
    table: TableRef, request: RowRequest, places: Places, *, stable_row_ids: bool
) -> Iterator[pa.RecordBatch]:
    """As ``read_rows``; when that fails, go on behind the rows it gave, those that cannot be read by themselves."""
    last, count = -1, 0
    addressed = replace(request, with_row_address=True)
    try:
        for batch in read_rows(table, addressed, stable_row_ids=stable_row_ids):
            if batch.num_rows:
                last, count = batch.column(_ADDRESS)[-1].as_py(), count + batch.num_rows
                yield _asked(batch, request)
    except LancewrightError as error:
        for part in _split(table, addressed, places, error, last, stable_row_ids=stable_row_ids):
            left = None if request.limit is None else request.limit - count
            if left is not None and left <= 0:
                return
            for batch in read_rows(table, replace(part, limit=left), stable_row_ids=stable_row_ids):
                count += batch.num_rows
                yield _asked(batch, request)


def _split(
    table: TableRef,
    request: RowRequest,
    places: Places,
    error: LancewrightError,
    last: int,
    *,
    stable_row_ids: bool,
) -> Iterator[RowRequest]:
    """The rows behind the last address by which of their geometries cannot be read; raises the error when all can."""
    columns = tuple(dict.fromkeys(column for geometry in places.geometries for column in geometry))
    whole = replace(request, columns=columns, filter=None, limit=None, with_row_id=False)
    addresses, patterns = [], []
    for batch in read_rows(table, whole, stable_row_ids=stable_row_ids):
        by_name = dict(zip(columns, batch.columns, strict=False))
        try:
            fine = [readable(*(by_name[name] for name in geometry)) for geometry in places.geometries]
        except UnsupportedError:  # without shapely there is no telling
            raise error from None
        addresses.append(batch.column(_ADDRESS).to_numpy())
        patterns.append(sum(~mask * (1 << number) for number, mask in enumerate(fine)))
    known, pattern = np.concatenate(addresses), np.concatenate(patterns)
    behind = known.astype(np.int64) > last
    if not pattern[behind].any():
        raise error
    for odd in np.unique(pattern[behind]).tolist():
        gone = frozenset(one for number, one in enumerate(places.geometries) if odd >> number & 1)
        rest = _without(places.predicate, gone)
        if rest is not None:
            rows = row_set(known[behind & (pattern == odd)])
            yield replace(request, rows=rows, filter=to_lance_sql(rest))


def _asked(batch: pa.RecordBatch, request: RowRequest) -> pa.RecordBatch:
    return batch if request.with_row_address else batch.drop_columns([_ADDRESS])


def _geometries(predicate: Predicate) -> Iterator[Geometry]:
    match predicate:
        case And(children=children) | Or(children=children):
            for child in children:
                yield from _geometries(child)
        case Not(child=child):
            yield from _geometries(child)
        case Call(function=function) if function in _FUNCTIONS:
            yield predicate.columns


def _without(predicate: Predicate, gone: Collection[Geometry]) -> Predicate | None:
    """What is TRUE for the same rows when every function of these geometries is NULL; None for none."""
    match predicate:
        case And(children=children):
            parts = [_without(child, gone) for child in children]
            kept = [part for part in parts if part is not None]
            return conjoin(kept) if len(kept) == len(parts) else None
        case Or(children=children):
            some = [part for child in children if (part := _without(child, gone)) is not None]
            if not some:
                return None
            return some[0] if len(some) == 1 else Or(children=tuple(some))
        case (Call() as call) | Not(child=Call() as call) if (
            call.function in _FUNCTIONS and call.columns in gone
        ):
            return None
        case _:
            return predicate
