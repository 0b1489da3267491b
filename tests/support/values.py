"""Makes snapshots, fragments and segments in words, for tests of pure code that needs no table."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyroaring import FrozenBitMap

from lancewright.model.columns import Column
from lancewright.model.compatibility import group_segments, judge_native
from lancewright.model.index import Segment
from lancewright.model.snapshot import DataFile, Fragment, TableSnapshot
from lancewright.table.conflict import BuiltSegment, prove_fragments

if TYPE_CHECKING:
    from collections.abc import Iterable

BTREE = "/lance.table.BTreeIndexDetails"
LEAF = 0


def column(*names: str, field_id: int = LEAF, type_: pa.DataType | None = None) -> Column:
    """A column that is its own leaf."""
    return Column(names=names, field_id=field_id, leaf_ids=(field_id,), type=type_ or pa.int64())


def fragment(
    id_: int, rows: int = 10, *, deleted: int = 0, stamp: str | None = None, path: str = ""
) -> Fragment:
    """A fragment of one data file with the leaves 0 and 1."""
    return Fragment(
        id=id_,
        physical_rows=rows + deleted,
        deleted_rows=deleted,
        deletion_stamp=stamp,
        files=(DataFile(path=path or f"{id_}.lance", field_ids=(0, 1)),),
    )


def segment(fragments: Iterable[int] | None, name: str = "ix", **changes: Any) -> Segment:
    """A B-tree segment over these fragments; ``None`` for an entry that does not say."""
    described: dict[str, Any] = {
        "uuid": str(uuid.uuid4()),
        "name": name,
        "field_ids": (LEAF,),
        "dataset_version": 1,
        "fragments": None if fragments is None else FrozenBitMap(fragments),
        "index_version": 0,
        "type_url": BTREE,
    }
    return Segment(**{**described, **changes})


def snapshot(
    fragments: Iterable[Fragment] = (), segments: Iterable[Segment] = (), *, version: int = 1, **changes: Any
) -> TableSnapshot:
    """A table with the columns ``id`` and ``other``."""
    columns = {("id",): column("id", field_id=0), ("other",): column("other", field_id=1)}
    listed, entries = tuple(fragments), tuple(segments)
    described: dict[str, Any] = {
        "uri": "memory",
        "version": version,
        "branch": None,
        "stable_row_ids": False,
        "max_fragment_id": max((entry.id for entry in listed), default=0),
        "schema": pa.schema([("id", pa.int64()), ("other", pa.int64())]),
        "columns": columns,
        "fragments": listed,
        "segments": entries,
        "indexes": group_segments(
            entries, {entry.field_id: entry for entry in columns.values()}, judge_native
        ),
    }
    return TableSnapshot(**{**described, **changes})


def built(table: TableSnapshot, fragments: Iterable[int], **changes: Any) -> BuiltSegment:
    """A finished segment with the proof of what these fragments look like in the snapshot."""
    entry = segment(fragments, **{"dataset_version": table.version, **changes})
    alive = [table.fragments_by_id[id_] for id_ in entry.covered]
    return BuiltSegment(
        segment=entry, rows=sum(one.rows for one in alive), proofs=prove_fragments(alive, (LEAF,))
    )
