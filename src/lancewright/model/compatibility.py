"""Answers whether this package may use a manifest entry: Lance's type URLs and the newest version known of each.

The format asks readers to skip what they do not know. Versions are those Lance 14 writes and reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewright.errors import InvalidRequestError
from lancewright.model.computed import keys_of_segment
from lancewright.model.index import IndexState, Segment, SkippedSegment, SkipReason
from lancewright.model.segment_details import DetailsError, DetailsTooNewError, details_from_bytes, is_ours
from lancewright.model.vector_details import vector_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lancewright.model.columns import Column

    Judge = Callable[[Segment], SkippedSegment | None]

# type URL -> (kind, newest index_version that Lance 14 can read)
NATIVE_TYPES: Mapping[str, tuple[str, int]] = {
    "/lance.table.BTreeIndexDetails": ("btree", 1),
    "/lance.table.BitmapIndexDetails": ("bitmap", 0),
    "/lance.table.LabelListIndexDetails": ("label_list", 1),
    "/lance.table.NGramIndexDetails": ("ngram", 0),
    "/lance.table.ZoneMapIndexDetails": ("zonemap", 0),
    "/lance.index.pb.BloomFilterIndexDetails": ("bloomfilter", 0),
    "/lance.table.InvertedIndexDetails": ("inverted", 3),
    "/lance.index.pb.RTreeIndexDetails": ("rtree", 0),
    "/lance.index.pb.MinHashLshIndexDetails": ("minhash_lsh", 0),
    "/lance.index.pb.FMIndexDetails": ("fm", 10),
    "/lance.index.pb.JsonIndexDetails": ("json", 0),
    "/lance.index.pb.VectorIndexDetails": ("vector", 2),
    "/lance.table.VectorIndexDetails": ("vector", 2),
    "/lance.table.FragmentReuseIndexDetails": ("fragment_reuse", 0),
    "/lance.index.pb.FragmentReuseIndexDetails": ("fragment_reuse", 0),
    "/lance.table.MemWalIndexDetails": ("mem_wal", 0),
    "/lance.index.pb.MemWalIndexDetails": ("mem_wal", 0),
}
UNKNOWN_KIND = "unknown"
_VECTOR = "vector"
_KNOWN = {type_url.lstrip("/").lower(): known for type_url, known in NATIVE_TYPES.items()}


def kind_of_segment(segment: Segment) -> str:
    """The kind of an entry: ``btree``, ``ivf_pq``, …; ``vector`` when its details do not say more, else ``unknown``."""
    if is_ours(segment.type_url):
        return _kind_of_ours(segment)
    known = _find_known(segment.type_url or "")
    if known is None:
        return UNKNOWN_KIND
    return vector_kind(segment.details) if known[0] == _VECTOR else known[0]


def judge_native(segment: Segment) -> SkippedSegment | None:
    """Return why a segment must not be used, or None when it may."""
    if not segment.type_url:
        return SkippedSegment(
            segment=segment,
            reason=SkipReason.NO_TYPE,
            explanation="the entry does not say what type it is; it was written by a Lance too old to tell",
        )
    if is_ours(segment.type_url):
        return _judge_ours(segment)
    known = _find_known(segment.type_url)
    if known is None:
        return SkippedSegment(
            segment=segment,
            reason=SkipReason.UNKNOWN_TYPE,
            explanation=f"type {segment.type_url} is not known here; its plugin may be missing",
        )
    kind, version_max = known
    if segment.index_version > version_max:
        return SkippedSegment(
            segment=segment,
            reason=SkipReason.TOO_NEW,
            explanation=f"{kind} version {segment.index_version} is newer than {version_max}, the newest known here",
        )
    return None


def group_segments(
    segments: tuple[Segment, ...], columns_by_field_id: Mapping[int, Column], judge: Judge
) -> tuple[IndexState, ...]:
    """Group manifest entries by name into logical indexes, leaving out Lance's own bookkeeping."""
    names = dict.fromkeys(segment.name for segment in segments if not segment.is_system)
    return tuple(
        _index_state(
            name, [segment for segment in segments if segment.name == name], columns_by_field_id, judge
        )
        for name in names
    )


def _kind_of_ours(segment: Segment) -> str:
    try:
        return details_from_bytes(segment.details).kind
    except DetailsError:
        return UNKNOWN_KIND


def _judge_ours(segment: Segment) -> SkippedSegment | None:
    """Whether the entry can be read. Whether the kind is installed and reads the format is ``kinds.plugins``."""
    try:
        details_from_bytes(segment.details)
    except DetailsTooNewError as error:
        return SkippedSegment(segment=segment, reason=SkipReason.TOO_NEW, explanation=str(error))
    except DetailsError as error:
        return SkippedSegment(segment=segment, reason=SkipReason.DAMAGED, explanation=str(error))
    return None


def _find_known(type_url: str) -> tuple[str, int] | None:
    # As Lance does it: case does not matter, nor what stands before the last slash.
    return _KNOWN.get(type_url.rpartition("/")[2].lower())


def _index_state(
    name: str, segments: list[Segment], columns_by_field_id: Mapping[int, Column], judge: Judge
) -> IndexState:
    usable: list[Segment] = []
    skipped: list[SkippedSegment] = []
    for segment in segments:
        verdict = _judge_columns(segment, columns_by_field_id) or judge(segment)
        if verdict is None:
            usable.append(segment)
        else:
            skipped.append(verdict)
    first = (usable or segments)[0]
    keys, key_ids = _keys(first, columns_by_field_id)
    columns = tuple(
        columns_by_field_id[field_id].path
        for field_id in key_ids or first.field_ids
        if field_id in columns_by_field_id
    )
    return IndexState(
        name=name,
        kind=kind_of_segment(first),
        columns=columns,
        segments=tuple(usable),
        skipped=tuple(skipped),
        keys=keys,
    )


def _keys(
    segment: Segment, columns_by_field_id: Mapping[int, Column]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """What an entry is over where its fields do not say it, and which of them: they are also those of expressions and values."""
    if not is_ours(segment.type_url):
        return (), ()
    try:
        details = details_from_bytes(segment.details)
        if not any(key.fields for key in details.keys):
            return (), ()
        keys = tuple(key.path for key in keys_of_segment(segment, details, columns_by_field_id))
    except (DetailsError, InvalidRequestError, LookupError):
        return (), ()  # whoever asks it says what is wrong
    return keys, tuple(dict.fromkeys(field_id for key in details.keys for _, field_id in key.fields))


def _judge_columns(segment: Segment, columns_by_field_id: Mapping[int, Column]) -> SkippedSegment | None:
    missing = [field_id for field_id in segment.field_ids if field_id not in columns_by_field_id]
    if not missing:
        return None
    return SkippedSegment(
        segment=segment,
        reason=SkipReason.COLUMN_DROPPED,
        explanation=f"its column (field {missing[0]}) is no longer in the table",
    )
