"""What a build returns: the version it committed last, and each index as it is there. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyroaring import FrozenBitMap

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lancewright.build.resolve import ResolvedRequest
    from lancewright.model.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReceipt:
    """What a build did for one index."""

    name: str
    kind: str
    created: bool
    fragments: int
    rows: int
    segments: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateReceipt:
    """What a build did: the version it committed last and each index."""

    table: str
    version: int
    rounds: int
    seconds: float
    indexes: tuple[IndexReceipt, ...]


def write_receipt(
    snapshot: TableSnapshot,
    resolved: Sequence[ResolvedRequest],
    created: Collection[str],
    *,
    rounds: int,
    seconds: float,
) -> CreateReceipt:
    """Say what became of every request; ``created`` names the indexes this build committed."""
    return CreateReceipt(
        table=snapshot.uri,
        version=snapshot.version,
        rounds=rounds,
        seconds=seconds,
        indexes=tuple(
            _index_receipt(snapshot, entry, created=entry.spec.name in created) for entry in resolved
        ),
    )


def _index_receipt(snapshot: TableSnapshot, entry: ResolvedRequest, *, created: bool) -> IndexReceipt:
    index = snapshot.index(entry.spec.name)
    segments = index.segments if index else ()
    covered = FrozenBitMap().union(*(segment.covered for segment in segments))
    inside = [fragment for fragment in snapshot.fragments if fragment.id in covered]
    return IndexReceipt(
        name=entry.spec.name,
        kind=index.kind if index and not created else entry.kind.name,
        created=created,
        fragments=len(inside),
        rows=sum(fragment.rows for fragment in inside),
        segments=len(segments),
    )
