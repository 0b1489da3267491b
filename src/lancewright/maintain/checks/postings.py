"""Reads the pages of a B-tree, plain or sorted by ranges, and compares what they say of rows with the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewright.kinds.btree.pages import LOOKUP_FILE
from lancewright.kinds.btree.source import describe_source
from lancewright.maintain.checks.findings import (
    Checked,
    Fault,
    Finding,
    SegmentFailedError,
    blaming_segment,
    damaged,
    of_rows,
)
from lancewright.model.addresses import distinct, without
from lancewright.model.row_set import row_set
from lancewright.table.column_reader import plain_values, read_column
from lancewright.table.row_reader import RowRequest, read_rows
from lancewright.table.row_translation import RowTranslator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from lancewright.kinds.btree.source import SortedSource
    from lancewright.maintain.checks.subject import Subject

    Addresses = NDArray[np.uint64]

_BATCH_ROWS = 1 << 16
_PAGES_SAMPLED = 6
_EDGES_MAX = 16
_ROW_IDS_INSIDE = "its postings hold row ids and no addresses, and were not compared with the rows"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Postings:
    """Values and where their rows are now."""

    values: pa.Array
    addresses: Addresses


def read_edges(subject: Subject) -> list[pa.Scalar]:
    """Values at the edges of pages, and so of ranges: evenly chosen when there are many; none when they cannot be read."""
    try:
        edges = [
            plain_values(batch.column(name)) for batch in _read_lookup(subject) for name in ("min", "max")
        ]
    except SegmentFailedError:
        return []
    if not edges or not sum(map(len, edges)):
        return []
    values = pa.concat_arrays(edges)
    places = np.unique(np.linspace(0, len(values) - 1, _EDGES_MAX).astype(np.int64))
    return list(values.take(pa.array(places)))


def check_postings(subject: Subject) -> Checked:
    """Compare postings with rows: all of these fragments in a thorough check, else those of some pages."""
    uuid = subject.segment.uuid
    if subject.snapshot.stable_row_ids and not subject.segment.index_version:
        return Checked(notes=(_ROW_IDS_INSIDE,))
    if not (subject.rules.thorough or subject.is_first) or not subject.segment.files:
        return Checked()
    try:
        return _check_pages(subject)
    except SegmentFailedError as error:
        return Checked(findings=(damaged(uuid, error.problem),))


def _check_pages(subject: Subject) -> Checked:
    with _reading(subject):
        lookup = subject.files.open_reader(LOOKUP_FILE)
        source = describe_source(lookup.metadata, lookup.rows)
    empty = [run.file_name for run in source.runs[1:] if not run.pages]
    if empty:
        problem = f"range {empty[0]} is empty, which no query survives"
        return Checked(findings=(damaged(subject.segment.uuid, problem),))
    return _compare_all(subject, source) if subject.rules.thorough else _compare_some(subject, source)


def _compare_all(subject: Subject, source: SortedSource) -> Checked:
    """Memory: the values and addresses of the fragments, twice."""
    found = _concat(list(_read_pages(subject, source, 0, source.end, np.array(subject.ids, dtype=np.uint64))))
    order = np.argsort(found.addresses, kind="stable")
    found = _Postings(values=found.values.take(pa.array(order)), addresses=found.addresses[order])
    rows = [
        _Postings(values=values, addresses=addresses)
        for values, addresses in read_column(subject.table, subject.column, subject.ids, _BATCH_ROWS)
    ]
    live = _concat(rows) if rows else _Postings(values=found.values[:0], addresses=found.addresses[:0])
    return Checked(
        postings=len(found.addresses), findings=tuple(_differences(subject, found, live, is_whole=True))
    )


def _compare_some(subject: Subject, source: SortedSource) -> Checked:
    if not source.pages:
        return Checked()
    covered = np.array(
        [fragment for fragment in subject.segment.covered if fragment in subject.snapshot.fragments_by_id],
        dtype=np.uint64,
    )
    random = np.random.default_rng(subject.rules.seed)
    pages = np.unique([0, source.pages - 1, *random.integers(0, source.pages, _PAGES_SAMPLED).tolist()])
    parts = [
        part
        for page in pages.tolist()
        for part in _read_pages(
            subject, source, page * source.page_rows, (page + 1) * source.page_rows, covered
        )
    ]
    found = _concat(parts)
    order = np.argsort(found.addresses, kind="stable")
    found = _Postings(values=found.values.take(pa.array(order)), addresses=found.addresses[order])
    live = _read_rows(subject, found.addresses)
    return Checked(
        postings=len(found.addresses), findings=tuple(_differences(subject, found, live, is_whole=False))
    )


def _differences(subject: Subject, found: _Postings, live: _Postings, *, is_whole: bool) -> Iterator[Finding]:
    """Both in the order of addresses. Postings of deleted rows are passed over, as queries do."""
    uuid = subject.segment.uuid
    known = np.isin(found.addresses, live.addresses)
    addresses, values = found.addresses[known], found.values.filter(pa.array(known))
    twice = distinct(addresses[1:][addresses[1:] == addresses[:-1]])
    yield from of_rows(uuid, Fault.DUPLICATED, twice)
    if is_whole:
        yield from of_rows(uuid, Fault.MISSING, without(live.addresses, distinct(addresses)))
    right = live.values.take(pa.array(np.searchsorted(live.addresses, addresses)))
    wrong = ~_equal(values, right)
    shown = [f"{subject.column.path}: {value}" for value in values.filter(pa.array(wrong))[:3].to_pylist()]
    yield from of_rows(uuid, Fault.STALE, distinct(addresses[wrong]), shown)


def _equal(left: pa.Array, right: pa.Array) -> NDArray[np.bool_]:
    """Bit by bit: NaN equals itself, and zeros of both signs differ, as an index sorts them."""
    if left.type != right.type:
        left = left.cast(right.type)
    if pa.types.is_floating(left.type):
        whole = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[left.type.bit_width]
        left, right = left.view(whole), right.view(whole)
    same = pc.fill_null(pc.equal(left, right), False)  # noqa: FBT003 - pyarrow's own signature
    nulls = pc.and_(pc.is_null(left), pc.is_null(right))
    found: NDArray[np.bool_] = pc.or_(same, nulls).to_numpy(zero_copy_only=False)
    return found


def _read_pages(
    subject: Subject, source: SortedSource, start: int, stop: int, fragments: Addresses
) -> Iterator[_Postings]:
    translator = RowTranslator(subject.table) if subject.snapshot.deferred else None
    for values, stored in _read_batches(subject, source, start, stop):
        addresses, alive = (stored, None) if translator is None else translator.translate(stored)
        inside = np.ones(len(addresses), dtype=np.bool_) if alive is None else alive
        inside = inside & np.isin(addresses >> np.uint64(32), fragments)
        yield _Postings(values=values.filter(pa.array(inside)), addresses=addresses[inside])


def _read_batches(
    subject: Subject, source: SortedSource, start: int, stop: int
) -> Iterator[tuple[pa.Array, Addresses]]:
    with _reading(subject):
        for batch in source.read(subject.files, start, stop, _BATCH_ROWS):
            yield plain_values(batch.column("values")), batch.column("ids").to_numpy()


def _reading(subject: Subject) -> AbstractContextManager[None]:
    return blaming_segment(subject.table, f"read the pages of segment {subject.segment.uuid} of")


def _read_rows(subject: Subject, addresses: Addresses) -> _Postings:
    rows = row_set(addresses)
    path = subject.column.path
    request = RowRequest(
        fragments=tuple(rows.fragments), rows=rows, filter=None, columns=(path,), with_row_address=True
    )
    batches = (
        read_rows(subject.table, request, stable_row_ids=subject.snapshot.stable_row_ids) if rows else ()
    )
    found = [
        _Postings(
            values=plain_values(
                next(batch.column(i) for i, n in enumerate(batch.schema.names) if n != "_rowaddr")
            ),
            addresses=batch.column("_rowaddr").to_numpy(),
        )
        for batch in batches
    ]
    return _concat(found)


def _concat(parts: list[_Postings]) -> _Postings:
    if not parts:
        return _Postings(values=pa.array([], pa.null()), addresses=np.zeros(0, dtype=np.uint64))
    return _Postings(
        values=pa.concat_arrays([part.values for part in parts]),
        addresses=np.concatenate([part.addresses for part in parts]),
    )


def _read_lookup(subject: Subject) -> Iterator[pa.RecordBatch]:
    if not subject.segment.files:
        return
    with _reading(subject):
        lookup = subject.files.open_reader(LOOKUP_FILE)
        yield from lookup.read(0, lookup.rows, _BATCH_ROWS)
