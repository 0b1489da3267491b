"""Chooses how a compaction carries indexes over, and refuses a way that would harm one. Pure.

``rewrite`` ends with segments that hold the new addresses: by deferring and catching up in the same run, on executors, where every kind
goes along; else Lance remaps all indexes at once in its commit. ``reuse`` leaves segments alone and has readers translate, until a
catch-up. ``drop`` does nothing for them: they do not cover the new fragments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from lancewright.errors import UnsupportedError
from lancewright.kinds.btree.empty_ranges import find_empty_range_risk, find_ranged
from lancewright.kinds.registry import native_kind
from lancewright.maintain.judgement import TRANSLATED_BY_REWRITE

if TYPE_CHECKING:
    from lancewright.model.snapshot import TableSnapshot

Remap: TypeAlias = Literal["drop", "rewrite", "reuse"]
# A vector or JSON index that does not say what is inside may be one of those a deferred compaction harms.
_UNCLEAR_KINDS = frozenset({"vector", "json"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How indexes are carried over.

    ``defers``: the commit leaves them alone, and the table notes what moved. ``drops``: it leaves them alone, and nothing is noted.
    """

    remap: Remap
    defers: bool = False
    drops: bool = False


def choose_way(snapshot: TableSnapshot, asked: Remap | None) -> Way:
    """How indexes are carried over; raises when the way asked for would harm one of them."""
    if snapshot.stable_row_ids:
        return _choose_on_stable_row_ids(snapshot, asked)
    if asked == "drop":
        return _choose_drop(snapshot)
    harmed = [index.name for index in snapshot.indexes if not _follows(index.kind)]
    ranged = find_ranged(snapshot.segments)
    if harmed and snapshot.deferred:
        raise UnsupportedError(
            f"Index {harmed[0]!r} answers wrongly after a deferred compaction, and this table notes one that is not caught up with",
            "Call catch_up; build anew what still waits then, with replace=True.",
        )
    if harmed and ranged:
        raise UnsupportedError(
            f"Index {harmed[0]!r} answers wrongly after a deferred compaction, and index {ranged[0].name!r} may break in any other",
            "Drop one of them, or build the ordered one again with layout='fragment'.",
        )
    if asked == "reuse" and harmed:
        raise UnsupportedError(
            f"Index {harmed[0]!r} answers wrongly after a deferred compaction",
            "Leave remap out, or drop this index first.",
        )
    if asked == "reuse":
        return Way(remap="reuse", defers=True)
    return Way(
        remap="rewrite", defers=not harmed and (bool(ranged or snapshot.deferred) or _catches_up(snapshot))
    )


def _choose_on_stable_row_ids(snapshot: TableSnapshot, asked: Remap | None) -> Way:
    if asked == "reuse":
        raise UnsupportedError(
            "remap='reuse' defers, which Lance does not do on a table with stable row ids",
            "Leave remap out: there Lance rewrites only what holds addresses.",
        )
    if asked == "drop":
        raise UnsupportedError(
            "remap='drop' leaves indexes alone, which Lance takes for having followed on a table with stable row ids",
            "Leave remap out: there Lance rewrites only what holds addresses.",
        )
    _refuse_risk(snapshot)
    return Way(remap="rewrite")


def _choose_drop(snapshot: TableSnapshot) -> Way:
    if snapshot.deferred:
        raise UnsupportedError(
            "remap='drop' would leave what the table notes of a deferred compaction half true",
            "Call catch_up; build anew what still waits then, with replace=True.",
        )
    return Way(remap="drop", drops=True)


def _catches_up(snapshot: TableSnapshot) -> bool:
    """True when every segment can be written anew; kinds that are not known here Lance would not compact otherwise."""
    return all(
        index.kind in TRANSLATED_BY_REWRITE or native_kind(index.kind) is None for index in snapshot.indexes
    )


def _follows(kind: str) -> bool:
    if kind in _UNCLEAR_KINDS:
        return False
    found = native_kind(kind)
    return found is None or found.follows_deferred_compaction


def _refuse_risk(snapshot: TableSnapshot) -> None:
    for index in snapshot.indexes:
        risk = find_empty_range_risk(snapshot, index.name)
        if risk is not None:
            raise UnsupportedError(f"A compaction may break index {index.name!r}: {risk.reason}", risk.remedy)
