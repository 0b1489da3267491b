"""Builds one segment with a kind: numbers the rows, keeps NULLs away from it, checks what it reports, writes the header last.

Runs on an executor. Reads no table and commits nothing; rows come in as batches and files go out to a place.
"""

from __future__ import annotations

import json
import tempfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap, FrozenBitMap

from lancewright.errors import InvalidRequestError, UnsupportedError
from lancewright.kinds.contract import ROW_COLUMN, SUMMARY_BYTES_MAX, Built, Nulls, row_numbers
from lancewright.kinds.segment.calling import calling
from lancewright.kinds.segment.header import HEADER_FILE, FileEntry, SegmentHeader
from lancewright.kinds.segment.masks import MASKS_FILE, Masks
from lancewright.kinds.segment.rows import ROWS_MAX, RowMap, pack_row_ids
from lancewright.kinds.segment.store import WritingStore
from lancewright.kinds.segment.values import ValuesWriter, value_name
from lancewright.model.index import SegmentFile
from lancewright.model.predicate.type_names import arrow_name
from lancewright.model.segment_details import KeyDetails, SegmentDetails

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from lancewright.kinds.contract import IndexKind, Spec
    from lancewright.kinds.segment.store import Place

ROW_IDS_FILE = "_row_ids"


@dataclass(frozen=True, slots=True, eq=False)
class KeyBatch:
    """Rows of the table: the keys of each, its address, its stable id where the table has them, and values to be kept."""

    keys: tuple[pa.Array, ...]
    addresses: NDArray[np.uint64]
    row_ids: NDArray[np.uint64] | None = None
    values: tuple[pa.Array, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentInput:
    """The live rows of some fragments, given as (id, physical rows), in the order of their addresses.

    ``key_fields``: for each key the columns it is over, as (path, field id); nothing when every key is a column of its own.
    ``values``: the columns whose values are kept, as (field id, type).
    """

    fragments: tuple[tuple[int, int], ...]
    batches: Iterable[KeyBatch]
    stable_row_ids: bool
    plugin: str
    key_fields: tuple[tuple[tuple[str, int], ...], ...] = ()
    values: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedSegment:
    """What the manifest has to know of a segment that is on storage."""

    details: SegmentDetails
    files: tuple[SegmentFile, ...]


def build_segment(kind: IndexKind, spec: Spec, rows: SegmentInput, place: Place) -> FinishedSegment:
    """Write one segment."""
    store = WritingStore(place)
    names = [value_name(field_id) for field_id, _ in rows.values]
    kept = ValuesWriter(names, RowMap(rows.fragments).rows) if names else None
    feed = _Feed(kind, spec, rows, kept)
    with calling(kind, "build"):
        batches = feed.batches()
        built = kind.build(spec, batches, store)
        for _ in batches:  # what the kind did not care to read still has its NULLs counted
            pass
    if kept is not None:
        kept.write(store)
    return finish_segment(kind, spec, rows, store, feed.marks(kind, built))


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What is known of the rows besides the kind's files."""

    masks: Masks
    row_ids: bytes
    summary: bytes


def finish_segment(
    kind: IndexKind, spec: Spec, rows: SegmentInput, store: WritingStore, marks: Marks
) -> FinishedSegment:
    """Add the framework's own files and the header to what the kind wrote."""
    if not marks.masks.is_empty:
        _write(store, MASKS_FILE, marks.masks.to_bytes())
    if rows.stable_row_ids:
        _write(store, ROW_IDS_FILE, marks.row_ids)
    header = SegmentHeader(
        kind=kind.name,
        format=kind.writes,
        api=kind.api,
        plugin=rows.plugin,
        fragments=rows.fragments,
        files=store.files,
    ).to_bytes()
    _upload(store, header)
    listed = (*store.files, FileEntry(name=HEADER_FILE, size=len(header), checksums=()))
    details = SegmentDetails(
        kind=kind.name,
        format=kind.writes,
        api=kind.api,
        plugin=rows.plugin,
        parameters=json.dumps(dict(spec.parameters), sort_keys=True),
        keys=tuple(
            KeyDetails(
                type=str(key.type),
                nulls=len(nulls),
                expression=key.expression,
                fields=fields,
                arrow_type=None if key.expression is None else arrow_name(key.type),
            )
            for key, nulls, fields in zip(
                spec.keys, marks.masks.nulls, rows.key_fields or ((),) * len(spec.keys), strict=True
            )
        ),
        rows=RowMap(rows.fragments).rows,
        unkeyed=len(marks.masks.unkeyed),
        header_bytes=len(header),
        header_checksum=zlib.crc32(header),
        stable_row_ids=rows.stable_row_ids,
        built=FrozenBitMap(fragment for fragment, _ in rows.fragments),
        summary=marks.summary,
        values=rows.values,
    )
    return FinishedSegment(
        details=details,
        files=tuple(SegmentFile(path=entry.name, size_bytes=entry.size) for entry in listed),
    )


def check_built(kind: IndexKind, method: str, built: object, rows: int) -> Built:
    """What a kind reports, or an error that says what is wrong with it."""
    if not isinstance(built, Built):
        raise InvalidRequestError(
            f"Kind {kind.name!r} returned {type(built).__name__} from {method}()", "It returns a Built."
        )
    if len(built.summary) > SUMMARY_BYTES_MAX:
        raise InvalidRequestError(
            f"Kind {kind.name!r} made a summary of {len(built.summary):,} bytes",
            f"At most {SUMMARY_BYTES_MAX:,} bytes fit: every manifest of the table carries it.",
        )
    if built.unkeyed and built.unkeyed.max() >= rows:
        raise InvalidRequestError(
            f"Kind {kind.name!r} reports row {built.unkeyed.max()} as unkeyed, of {rows} rows",
            "It reports numbers of the column _row.",
        )
    return built


class _Feed:
    """Gives a kind its batches and remembers what the kind does not see."""

    def __init__(self, kind: IndexKind, spec: Spec, rows: SegmentInput, kept: ValuesWriter | None) -> None:
        self._rows = rows
        self._kept = kept
        self._spec = spec
        with calling(kind, "input"):
            self._wanted = kind.input(spec)
        self._map = RowMap(rows.fragments)
        if self._map.rows > ROWS_MAX:
            raise UnsupportedError(
                f"{self._map.rows:,} rows are too many for one segment of kind {kind.name!r}",
                "Ask for more segments, or none in particular.",
            )
        self._nulls = [BitMap() for _ in spec.keys]
        self._ids: list[tuple[NDArray[np.uint32], NDArray[np.uint64]]] = []

    def batches(self) -> Iterator[pa.RecordBatch]:
        names = [ROW_COLUMN, *(f"k{place}" for place in range(len(self._spec.keys)))]
        for batch in self._rows.batches:
            numbers = self._map.numbers(batch.addresses)
            if batch.row_ids is not None:
                self._ids.append((numbers, batch.row_ids))
            if self._kept is not None:
                self._kept.add(numbers, batch.values, batch.keys)
            for nulls, values in zip(self._nulls, batch.keys, strict=True):
                if values.null_count:
                    nulls.update(row_numbers(numbers[_null_mask(values)]))
            given = pa.RecordBatch.from_arrays([pa.array(numbers, pa.uint32()), *batch.keys], names)
            yield self._without_nulls(given)

    def marks(self, kind: IndexKind, built: object) -> Marks:
        told = check_built(kind, "build", built, self._map.rows)
        masks = Masks(nulls=tuple(map(FrozenBitMap, self._nulls)), unkeyed=FrozenBitMap(told.unkeyed))
        return Marks(masks=masks, row_ids=self._packed_ids(), summary=told.summary)

    def _without_nulls(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        keys = [column for column in batch.columns[1:] if column.null_count]
        if not keys or self._wanted.nulls is Nulls.KEEP:
            return batch
        keep = np.logical_and.reduce([~_null_mask(column) for column in keys])
        return batch.filter(pa.array(keep))

    def _packed_ids(self) -> bytes:
        if not self._ids:
            return b""
        numbers = np.concatenate([numbers for numbers, _ in self._ids])
        return pack_row_ids(numbers, np.concatenate([ids for _, ids in self._ids]))


def _null_mask(values: pa.Array) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = pc.is_null(values).to_numpy(zero_copy_only=False)
    return mask


def _write(store: WritingStore, name: str, content: bytes) -> None:
    with store.create_own(name) as file:
        file.write(content)


def _upload(store: WritingStore, header: bytes) -> None:
    with tempfile.NamedTemporaryFile(prefix="lancewright-") as local:
        local.write(header)
        local.flush()
        store.upload_header(local.name)
