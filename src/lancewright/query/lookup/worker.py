"""What a task of a lookup of many keys does: ask some segments with one probe each, or scan some fragments, and pair keys with rows.

A segment that cannot be asked has its fragments scanned. Memory: the keys, and the rows that equal one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lancewright.errors import LancewrightError
from lancewright.kinds.plugins import PLUGINS
from lancewright.query.lookup.matching import KeySet
from lancewright.query.search.notes import SearchNote, SearchReason
from lancewright.query.search.open_segments import SEGMENTS
from lancewright.query.search.segment_rows import SegmentRows
from lancewright.query.search.vector_worker import Found
from lancewright.table.column_reader import plain_values, read_keys
from lancewright.table.lance_compat import translating
from lancewright.table.metering import MeteredDataset
from lancewright.table.opening import open_dataset
from lancewright.table.row_taker import take_columns
from lancewright.table.vector_search import RowFilter

if TYPE_CHECKING:
    from lancewright.kinds.contract import Spec
    from lancewright.kinds.plugins import PluginRef
    from lancewright.kinds.segment.judging import KindSegment
    from lancewright.model.columns import Column
    from lancewright.table.location import TableRef

KEY_INDEX = "key_index"
PAIRS_SCHEMA = pa.schema([(KEY_INDEX, pa.int64()), ("_rowid", pa.uint64()), ("_rowaddr", pa.uint64())])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LookupSettings:
    """What all tasks share: the keys, in the order of ``columns``; the index, and for each of its keys which column that is."""

    table: TableRef
    columns: tuple[Column, ...]
    keys: KeySet
    stable_row_ids: bool
    moved: bool
    strict: bool
    plugin: PluginRef | None = None
    spec: Spec | None = None
    order: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupWork:
    """Some segments, or fragments of which some rows are read, or all."""

    segments: tuple[KindSegment, ...]
    fragments: tuple[int, ...]
    rows: RowFilter = field(default_factory=RowFilter)


def look_up_part(settings: LookupSettings, work: LookupWork) -> Found:
    """Do one task."""
    with translating(settings.table, "look up keys in"):
        dataset = MeteredDataset(open_dataset(settings.table))
        parts, notes = [PAIRS_SCHEMA.empty_table()], []
        for segment in work.segments:
            try:
                parts.append(_ask(settings, dataset, segment))
            except LancewrightError as error:
                note = SearchNote(
                    reason=SearchReason.BROKEN_SEGMENT,
                    subject=segment.segment.uuid,
                    explanation=f"{error}; its rows were scanned",
                )
                notes.append(note)
                if not settings.strict:
                    parts.append(_scan(settings, dataset, tuple(segment.covered), RowFilter()))
        if work.fragments:
            parts.append(_scan(settings, dataset, work.fragments, work.rows))
        return Found(rows=pa.concat_tables(parts), notes=tuple(notes), effort=dataset.effort())


def _ask(settings: LookupSettings, dataset: Any, segment: KindSegment) -> pa.Table:  # Any: pylance is untyped
    """One probe with all keys; what it names is compared with the keys, because it may name others."""
    assert settings.plugin is not None, "segments are asked of an index"  # noqa: S101 - made together
    assert settings.spec is not None, "as above"  # noqa: S101
    kind = PLUGINS.load_ref(settings.plugin)
    opened = SEGMENTS.open(settings.table, kind, settings.spec, segment)
    keys = settings.keys
    ordered = KeySet(columns=tuple(keys.columns[place] for place in settings.order), places=keys.places)
    asked, numbers = opened.lookup_many(ordered.batch())
    rows = SegmentRows(
        table=settings.table,
        dataset=dataset,
        opened=opened,
        fragments=tuple(segment.covered),
        filter=RowFilter(),
        moved=settings.moved,
    )
    live = rows.locate(numbers)
    values = take_columns(dataset, live.ids, settings.columns) if len(live.ids) else []
    named = asked[live.rows]
    same = np.flatnonzero(keys.equal(named, [plain_values(one) for one in values])) if values else named[:0]
    return _pairs(keys.places[named[same]], live.ids[same], live.addresses[same])


def _scan(
    settings: LookupSettings,
    dataset: Any,  # Any: as above
    fragments: tuple[int, ...],
    rows: RowFilter,
) -> pa.Table:
    """Rows of some fragments, batch by batch."""
    parts = [PAIRS_SCHEMA.empty_table()]
    keys, stable = settings.keys, settings.stable_row_ids
    batches = read_keys(
        settings.table, settings.columns, fragments, with_row_ids=stable, rows=rows, dataset=dataset
    )
    for batch in batches if len(keys) else ():
        places, found = keys.match(batch.keys)
        ids = batch.addresses if batch.row_ids is None else batch.row_ids
        parts.append(_pairs(keys.places[places], ids[found], batch.addresses[found]))
    return pa.concat_tables(parts)


def _pairs(keys: Any, ids: Any, addresses: Any) -> pa.Table:  # Any: numpy's arrays of numbers
    return pa.table([pa.array(keys), pa.array(ids), pa.array(addresses)], schema=PAIRS_SCHEMA)
