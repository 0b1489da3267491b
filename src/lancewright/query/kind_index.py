"""Answers whether an index of a kind that is not Lance's may be asked here, and for which fragments. Reads no file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyroaring import BitMap, FrozenBitMap

from lancewright.errors import LancewrightError
from lancewright.kinds.contract import Nulls, Spec
from lancewright.kinds.plugins import PLUGINS, Trouble, Unusable
from lancewright.kinds.segment.calling import calling
from lancewright.kinds.segment.judging import KindSegment, declared_as, judge_kind_segment, keys_of
from lancewright.model.segment_details import is_ours
from lancewright.query.plan import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lancewright.kinds.contract import IndexKind
    from lancewright.model.index import IndexState
    from lancewright.model.snapshot import TableSnapshot

_REASONS = {
    Trouble.NO_PLUGIN: Reason.NO_PLUGIN,
    Trouble.PLUGIN_IMPORT_FAILED: Reason.PLUGIN_IMPORT_FAILED,
    Trouble.API_MISMATCH: Reason.API_MISMATCH,
    Trouble.FORMAT_TOO_NEW: Reason.FORMAT_TOO_NEW,
    Trouble.FORMAT_OLD_REBUILD: Reason.FORMAT_OLD_REBUILD,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KindIndex:
    """An index that can be asked: its kind, what was declared, its columns by key, and its segments."""

    name: str
    kind: IndexKind
    spec: Spec
    columns: tuple[str, ...]
    segments: tuple[KindSegment, ...]
    strips_nulls: bool

    @property
    def covered(self) -> FrozenBitMap:
        """The live fragments it answers for."""
        return FrozenBitMap(BitMap.union(BitMap(), *(segment.covered for segment in self.segments)))

    def names_unseen_rows(self, keys: Iterable[int]) -> bool:
        """True when a lookup over these keys also names rows that the kind never saw, to be checked."""
        asked = frozenset(keys)
        return any(
            segment.details.unkeyed
            or (
                self.strips_nulls
                and any(key.nulls for place, key in enumerate(segment.details.keys) if place not in asked)
            )
            for segment in self.segments
        )


def is_kind_index(index: IndexState) -> bool:
    """True for indexes of kinds that are not Lance's."""
    entries = index.segments or tuple(entry.segment for entry in index.skipped)
    return bool(entries) and is_ours(entries[0].type_url)


def judge_kind_index(
    snapshot: TableSnapshot, index: IndexState, live: FrozenBitMap
) -> KindIndex | tuple[Reason, str]:
    """The index as one to be asked, or why not. Segments that cannot be asked leave their fragments to be scanned."""
    kind = PLUGINS.load(index.kind)
    if isinstance(kind, Unusable):
        return _REASONS[kind.trouble], f"{kind.problem}; {kind.remedy}"
    usable: list[KindSegment] = []
    trouble: tuple[Reason, str] | None = None
    for segment in index.segments:
        judged = judge_kind_segment(snapshot, kind, segment, live)
        if isinstance(judged, KindSegment):
            usable.append(judged)
        else:
            trouble = trouble or (_REASONS[judged.trouble], f"{judged.problem}; {judged.remedy}")
    if not usable:
        return trouble or (Reason.NOT_BUILT, "it has no segment")
    first = usable[0]
    # A probe is planned once for all segments, so they must have been declared alike.
    declared = declared_as(snapshot, first.segment, first.details)
    alike = tuple(one for one in usable if declared_as(snapshot, one.segment, one.details) == declared)
    try:
        return _index_of(snapshot, index, kind, alike)
    except (LancewrightError, ValueError) as error:
        return Reason.PLUGIN_FAILED, error.problem if isinstance(error, LancewrightError) else str(error)


def _index_of(
    snapshot: TableSnapshot, index: IndexState, kind: IndexKind, segments: tuple[KindSegment, ...]
) -> KindIndex:
    first = segments[0]
    spec = Spec(
        name=index.name,
        kind=kind.name,
        keys=keys_of(snapshot, first.segment, first.details),
        parameters=dict(json.loads(first.details.parameters)),
        format=first.details.format,
    )
    with calling(kind, "input"):
        strips = kind.input(spec).nulls is Nulls.STRIP
    return KindIndex(
        name=index.name,
        kind=kind,
        spec=spec,
        columns=tuple(key.name for key in spec.keys),
        segments=segments,
        strips_nulls=strips,
    )
