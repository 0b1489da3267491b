"""Puts wrong segments into a table's indexes, as bugs, other writers and broken disks leave them."""

from __future__ import annotations

import shutil
import uuid
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa

import lancewright as lw
from lancewright.kinds.key.kind import KeyKind
from lancewright.kinds.plugins import PLUGINS, register_kind
from lancewright.table.commit import IndexChange, commit_segments
from lancewright.table.lance_compat import segment_to_lance
from lancewright.table.location import table_ref
from lancewright.table.snapshot_reader import read_snapshot
from support.busy_table import NEW, busy_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lancewright.kinds.contract import Built, Spec, Store
    from lancewright.model.index import Segment


def segments(uri: str, name: str = "ours") -> tuple[Segment, ...]:
    """The index's segments, in the order of their fragments."""
    found = read_snapshot(table_ref(uri)).segments_named(name)
    return tuple(sorted(found, key=lambda segment: min(segment.covered, default=-1)))


def folder(uri: str, segment: Segment) -> Path:
    """Where its files are."""
    return Path(uri) / "_indices" / segment.uuid


def claim(uri: str, segment: Segment, fragments: Iterable[int], *, remove: Iterable[Segment] = ()) -> str:
    """A copy of a segment that says it covers these fragments, in place of it and of others; its uuid."""
    ref = table_ref(uri)
    copy = replace(segment, uuid=str(uuid.uuid4()), fragments=type(segment.covered)(fragments))
    shutil.copytree(folder(uri, segment), folder(uri, copy))
    commit_segments(ref, read_snapshot(ref), IndexChange(add=(copy,), remove=(segment, *remove)))
    return copy.uuid


def add_again(uri: str, segment: Segment) -> str:
    """A second segment over the fragments of one, as a raw commit of another writer adds it; its uuid."""
    copy = replace(segment, uuid=str(uuid.uuid4()))
    shutil.copytree(folder(uri, segment), folder(uri, copy))
    dataset = lance.dataset(uri)
    operation = lance.LanceOperation.CreateIndex([segment_to_lance(copy)], [])
    lance.LanceDataset.commit(dataset, operation, read_version=dataset.version)
    return copy.uuid


def rewrite_unnoticed(uri: str, column: str, fragment_id: int) -> None:
    """Give a fragment's rows new values in place, and do not say which column was changed."""
    dataset = lance.dataset(uri)
    fragment = dataset.get_fragment(fragment_id)
    found = fragment.to_table(columns=["id"], with_row_id=True)
    values = busy_rows(found["id"].to_pylist(), NEW).select([column])
    updated, _ = fragment.update_columns(values.add_column(0, "_rowid", found["_rowid"]))
    operation = lance.LanceOperation.Update(updated_fragments=[updated], fields_modified=[])
    lance.LanceDataset.commit(dataset.uri, operation, read_version=dataset.version)


def truncate(path: Path) -> None:
    """Cut a file in half."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    """Turn around one byte in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


class _ShiftedKey(KeyKind):
    """Writes every row under the number of its neighbour."""

    def build(self, spec: Spec, rows: Iterable[pa.RecordBatch], out: Store) -> Built:
        """As the kind does, with other rows."""

        def shifted() -> Iterator[pa.RecordBatch]:
            for batch in rows:
                numbers = batch.column("_row").to_numpy()
                moved = pa.array(np.roll(numbers, 1), pa.uint32())
                yield batch.set_column(0, "_row", moved)

        return super().build(spec, shifted(), out)


@contextmanager
def faulty_key_kind() -> Iterator[None]:
    """What is built meanwhile with kind ``key`` names the wrong rows."""
    register_kind(type("KeyKind", (_ShiftedKey,), {}), replace=True)
    try:
        yield
    finally:
        PLUGINS.unregister("key")


def merge_quantizers(uri: str, column: str, name: str, **options: Any) -> None:
    """Build a segment with scalar quantization over each fragment and let Lance merge them, which spoils all but the first."""
    dataset = lance.dataset(uri)
    parts = [
        dataset.create_index_uncommitted(
            column, "IVF_SQ", name=name, metric="L2", fragment_ids=[fragment.fragment_id], **options
        )
        for fragment in dataset.get_fragments()
    ]
    merged = dataset.merge_existing_index_segments(parts)
    dataset.commit_existing_index_segments(name, column, [merged])


def empty_a_range(uri: str) -> lw.Table:
    """An index sorted by ranges, one of which lost all its rows to a compaction that rewrote it at once."""
    table = lw.open(uri, progress=False)
    layout = {"layout": "range", "ranges": 4, "keep_ranges": True, "defer_remap": False}
    table.create_index("number", kind="btree", name="ours", **layout)
    # Every fragment keeps rows, and so is rewritten; one range keeps none.
    lance.dataset(uri).delete("number BETWEEN 6 AND 25")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=100_000)
    return table
