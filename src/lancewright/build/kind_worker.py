"""What runs on an executor for kinds that are not Lance's: build one segment, and say which kinds are at hand here."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lancewright.errors import LancewrightError, UnsupportedError
from lancewright.kinds.contract import Key, Spec
from lancewright.kinds.plugins import PLUGINS, PluginRef
from lancewright.kinds.segment.building import KeyBatch, SegmentInput, build_segment
from lancewright.model.computed import ComputedColumn
from lancewright.model.index import Segment
from lancewright.model.segment_details import DETAILS_VERSION, TYPE_URL
from lancewright.table.column_reader import plain_type, read_keys
from lancewright.table.lance_compat import translating
from lancewright.table.opening import open_dataset
from lancewright.table.segment_place import SegmentPlace
from lancewright.table.side_files import SideFiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from lancewright.build.spec import IndexSpec
    from lancewright.kinds.contract import IndexKind
    from lancewright.kinds.segment.building import FinishedSegment
    from lancewright.model.columns import Column
    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginProbe:
    """The kinds a build is going to need, as the driver has them, with the format that each writes."""

    refs: tuple[tuple[PluginRef, int], ...]


def probe_plugins(probe: PluginProbe, _payload: object) -> int:
    """Load every kind here; raise UnsupportedError when this worker has another version of one, or none."""
    for ref, writes in probe.refs:
        kind = PLUGINS.load_ref(ref)
        if kind.writes != writes:
            raise UnsupportedError(
                f"Kind {ref.name!r} writes format {kind.writes} on this worker and {writes} on the driver",
                "Install the same version on the driver and on every executor.",
            )
    return len(probe.refs)


def key_of(column: Column | ComputedColumn) -> Key:
    """A key as a kind sees it."""
    if isinstance(column, ComputedColumn):
        return Key(name=column.path, type=column.type, expression=column.path)
    return Key(name=column.path, type=plain_type(column.type), metadata=column.metadata)


def keys_of(columns: Sequence[Column | ComputedColumn]) -> tuple[Key, ...]:
    """The keys of an index over these columns and expressions."""
    return tuple(map(key_of, columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class KindTarget:
    """The segment that a task is to write: its kind, what it is declared as, its fragments, and its folder."""

    kind: IndexKind
    declared: Spec
    rows: SegmentInput
    version: int
    uuid: str


def aim(table: TableRef, spec: IndexSpec, fragments: Sequence[int]) -> KindTarget:
    """What is to be written over these fragments of the pinned version; reads no row yet."""
    if spec.plugin is None:
        raise UnsupportedError(
            f"Index {spec.name!r} names no plugin", "Report this: it is a mistake of ours."
        )
    kind = PLUGINS.load_ref(spec.plugin)
    with translating(table, "open"):
        dataset: Any = open_dataset(table)  # Any: pylance leaves it untyped
        sizes = tuple(
            (fragment, dataset.get_fragment(fragment).physical_rows) for fragment in sorted(fragments)
        )
        stable = bool(dataset.has_stable_row_ids)
        version = int(dataset.version)
    declared = Spec(
        name=spec.name,
        kind=kind.name,
        keys=keys_of(spec.key_columns),
        parameters=spec.parameters,
        format=kind.writes,
    )
    rows = SegmentInput(
        fragments=sizes,
        batches=(),
        stable_row_ids=stable,
        plugin=spec.plugin.text,
        key_fields=spec.key_fields,
        values=tuple((column.field_id, str(column.type)) for column in spec.kept),
    )
    return KindTarget(kind=kind, declared=declared, rows=rows, version=version, uuid=str(uuid.uuid4()))


def build_kind_segment(table: TableRef, spec: IndexSpec, fragments: Sequence[int]) -> Segment:
    """Write one segment over these fragments of the pinned version; nobody can see it yet."""
    target = aim(table, spec, fragments)
    stable = target.rows.stable_row_ids
    batches = _batches(table, spec, sorted(fragments), stable_row_ids=stable)
    rows = replace(target.rows, batches=batches)
    try:
        finished = build_segment(target.kind, target.declared, rows, SegmentPlace(table, target.uuid))
    except BaseException:
        with suppress(
            LancewrightError
        ):  # what stays is an orphan for cleanup; the first error is the one to tell
            SideFiles(table).delete_segment(target.uuid)
        raise
    return segment_of(spec, target, finished)


def segment_of(spec: IndexSpec, target: KindTarget, finished: FinishedSegment) -> Segment:
    """The manifest entry of a segment that was written."""
    return Segment(
        uuid=target.uuid,
        name=spec.name,
        field_ids=tuple(column.field_id for column in spec.columns),
        dataset_version=target.version,
        fragments=finished.details.built,
        index_version=DETAILS_VERSION,
        type_url=TYPE_URL,
        details=finished.details.to_bytes(),
        created_at=datetime.now(UTC),
        files=finished.files,
    )


def _batches(
    table: TableRef, spec: IndexSpec, fragments: Sequence[int], *, stable_row_ids: bool
) -> Iterator[KeyBatch]:
    keys = spec.key_columns
    read = (*keys, *(column for column in spec.kept if column not in keys))
    places = [read.index(column) for column in spec.kept]
    with translating(table, "read"):
        for rows in read_keys(table, read, fragments, with_row_ids=stable_row_ids):
            kept = tuple(rows.keys[place] for place in places)
            yield KeyBatch(rows.keys[: len(keys)], rows.addresses, rows.row_ids, kept)
