"""Reads a table's manifest and its index section into a frozen snapshot.

Reads the format itself and not pylance's listing, which hides every index whose type it does not know.
Reads no data and no index file: the cost is two small requests whatever the rows.
"""

from __future__ import annotations

import struct
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lance.file import LanceFileSession
from pyroaring import FrozenBitMap

from lancewright.errors import CorruptIndexError
from lancewright.model.columns import Column
from lancewright.model.compatibility import group_segments, judge_native
from lancewright.model.index import Segment, SegmentFile
from lancewright.model.snapshot import DataFile, Fragment, TableSnapshot
from lancewright.table.fragment_reuse import follow_reuse, read_reuse
from lancewright.table.lance_compat import translating
from lancewright.table.manifest_messages import IndexSection, Manifest
from lancewright.table.opening import open_dataset

if TYPE_CHECKING:
    import lance

    from lancewright.model.compatibility import Judge
    from lancewright.table.location import TableRef

_STABLE_ROW_IDS_FLAG = 2
_DETACHED_FLAG = 1 << 63
_LENGTH_BYTES = 4
_PACKED_KEYS = frozenset({b"packed", b"lance-encoding:packed"})


def read_snapshot(table: TableRef, judge: Judge = judge_native) -> TableSnapshot:
    """Read the table at the reference's version (or the latest); ``judge`` decides which segments may be used."""
    dataset = open_dataset(table)
    with translating(table, "read the manifest of"):
        return snapshot_of(dataset, table, judge)


def snapshot_of(dataset: lance.LanceDataset, table: TableRef, judge: Judge = judge_native) -> TableSnapshot:
    """Read the snapshot of a dataset that is already open."""
    manifest = Manifest.FromString(dataset._ds.serialized_manifest())  # noqa: SLF001 - pylance has no public way to it
    columns = _columns(dataset)
    columns_by_field_id = {column.field_id: column for column in columns.values()}
    entries = _read_segments(dataset, manifest, table)
    deferred = read_reuse(entries, lambda entry: open_root(dataset, table, entry))
    segments = follow_reuse(entries, deferred)
    return TableSnapshot(
        uri=table.name,
        version=manifest.version,
        branch=manifest.branch or table.branch,
        stable_row_ids=bool(manifest.reader_feature_flags & _STABLE_ROW_IDS_FLAG),
        max_fragment_id=manifest.max_fragment_id,
        schema=dataset.schema,
        columns=columns,
        fragments=tuple(_fragment(fragment) for fragment in manifest.fragments),
        segments=segments,
        indexes=group_segments(segments, columns_by_field_id, judge),
        config={entry.key: entry.value for entry in manifest.config},
        deferred=deferred,
    )


def read_segment_uuids(table: TableRef) -> frozenset[str]:
    """Every segment that the reference's version lists, whatever its kind and wherever its files are."""
    dataset = open_dataset(table)
    with translating(table, "read the manifest of"):
        manifest = Manifest.FromString(dataset._ds.serialized_manifest())  # noqa: SLF001 - pylance has no public way to it
        return frozenset(segment.uuid for segment in _read_segments(dataset, manifest, table))


def manifest_names(version: int) -> tuple[str, ...]:
    """The names a version's manifest may have: V2 (newest first in a listing), V1, and detached."""
    if version & _DETACHED_FLAG:
        return (f"_versions/d{version}.manifest",)
    return (f"_versions/{2**64 - 1 - version:020d}.manifest", f"_versions/{version}.manifest")


def _read_segments(dataset: lance.LanceDataset, manifest: Any, table: TableRef) -> tuple[Segment, ...]:
    if not manifest.HasField("index_section"):
        return ()
    session: Any = dataset.new_file_session()  # type: ignore[no-untyped-call] # pylance leaves it untyped
    path = next((name for name in manifest_names(manifest.version) if session.contains(name)), None)
    if path is None:
        raise CorruptIndexError(
            f"The manifest of version {manifest.version} of {table.name} is not where the format puts it",
            "Open a version that still exists; cleanup may have removed this one.",
        )
    section = IndexSection.FromString(read_block(session, path, manifest.index_section))
    return tuple(_segment(entry) for entry in section.indices)


def open_root(
    dataset: lance.LanceDataset, table: TableRef, segment: Segment
) -> Any:  # Any: pylance leaves it untyped
    """A session on the table that has the segment's files: this one, or the one it was branched or cloned from."""
    if segment.base_id is None:
        return dataset.new_file_session()  # type: ignore[no-untyped-call] # as above
    base = dataset._ds.base_paths()[segment.base_id]  # noqa: SLF001 - pylance has no public way to it
    return LanceFileSession(base.path, dict(table.storage_options) or None)


def read_block(session: Any, path: str, offset: int) -> bytes:
    """Read a message that is preceded by its length."""
    # Two exact reads: on local disks a range past the end of the file is an error, not a short answer.
    (size,) = struct.unpack("<I", session.read_range(path, offset, _LENGTH_BYTES))
    return bytes(session.read_range(path, offset + _LENGTH_BYTES, size)) if size else b""


def _segment(entry: Any) -> Segment:
    details = entry.index_details if entry.HasField("index_details") else None
    return Segment(
        uuid=str(uuid.UUID(bytes=entry.uuid.uuid)),
        name=entry.name,
        field_ids=tuple(entry.fields),
        dataset_version=entry.dataset_version,
        # An entry without a bitmap may also carry empty bytes; an empty bitmap has a header.
        fragments=FrozenBitMap.deserialize(entry.fragment_bitmap) if entry.fragment_bitmap else None,
        index_version=entry.index_version,
        type_url=details.type_url if details is not None else None,
        details=details.value if details is not None else b"",
        created_at=datetime.fromtimestamp(entry.created_at / 1000, UTC)
        if entry.HasField("created_at")
        else None,
        base_id=entry.base_id if entry.HasField("base_id") else None,
        files=tuple(SegmentFile(path=file.path, size_bytes=file.size_bytes) for file in entry.files) or None,
        covering_field_ids=tuple(entry.covering_fields),
    )


def _fragment(entry: Any) -> Fragment:
    deletion = entry.deletion_file if entry.HasField("deletion_file") else None
    return Fragment(
        id=entry.id,
        physical_rows=entry.physical_rows,
        deleted_rows=deletion.num_deleted_rows if deletion is not None else 0,
        deletion_stamp=f"{deletion.read_version}-{deletion.id}" if deletion is not None else None,
        files=tuple(
            DataFile(path=file.path, field_ids=tuple(file.fields), size_bytes=file.file_size_bytes or None)
            for file in entry.files
        ),
    )


def _columns(dataset: lance.LanceDataset) -> dict[tuple[str, ...], Column]:
    found: dict[tuple[str, ...], Column] = {}
    for field in dataset.lance_schema.fields():
        _collect_columns(field, (), found)
    return found


def _collect_columns(
    field: Any,
    parents: tuple[str, ...],
    found: dict[tuple[str, ...], Column],
    packed_ids: tuple[int, ...] = (),
) -> tuple[int, ...]:
    names = (*parents, field.name())
    children = field.children()
    arrow = field.to_arrow()
    # Lance files list only the leaves that hold data; a list or struct is known by those below it. A packed struct is
    # the exception: files list it and not its leaves.
    packed_ids = (*packed_ids, field.id()) if _is_packed(arrow.metadata) else packed_ids
    found[names] = Column(
        names=names, field_id=field.id(), leaf_ids=(), type=arrow.type
    )  # keeps parents first
    below = (leaf for child in children for leaf in _collect_columns(child, names, found, packed_ids))
    leaf_ids = tuple(below) or (field.id(),)
    found[names] = Column(
        names=names,
        field_id=field.id(),
        leaf_ids=tuple(dict.fromkeys((*packed_ids, *leaf_ids))),
        type=arrow.type,
        metadata=_text_metadata(arrow.metadata),
    )
    return leaf_ids


def _is_packed(metadata: dict[bytes, bytes] | None) -> bool:
    # A value of "false" unpacks; to be taken for packed in error only adds an id that no file lists.
    return not _PACKED_KEYS.isdisjoint(metadata or {})


def _text_metadata(metadata: dict[bytes, bytes] | None) -> tuple[tuple[str, str], ...]:
    return tuple(
        (key.decode(), value.decode(errors="replace")) for key, value in sorted((metadata or {}).items())
    )
