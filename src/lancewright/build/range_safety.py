"""Decides whether a range-sorted BTree keeps its ranges, and whether the table must be set to protect them. Pure.

A range that loses all its rows to an immediate compaction leaves an empty part, and Lance's reader dies on it
(``kinds.btree.empty_ranges``). A table set to deferred remap is safe from that, but some kinds of index do not survive a
deferred remap. Where the one or the other cannot be, the ranges are copied into one file before anybody sees them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewright.build.resolve import survives_deferred_remap
from lancewright.kinds.btree.empty_ranges import defers_remap
from lancewright.kinds.registry import find_any_kind, list_kinds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lancewright.build.spec import IndexSpec
    from lancewright.model.snapshot import TableSnapshot

# An index that does not say which kind it is, or what is inside it, may be one of those that are harmed.
_UNCLEAR_KINDS = frozenset({"vector", "json", "unknown"})


def keeps_ranges(snapshot: TableSnapshot, specs: Sequence[IndexSpec], spec: IndexSpec) -> bool:
    """True when the ranges of ``spec``, built together with ``specs``, may be shown as they are."""
    asked = bool(spec.parameters.get("keep_ranges", False))
    return asked or defers_remap(snapshot) or wants_deferral(snapshot, specs, spec)


def wants_deferral(snapshot: TableSnapshot, specs: Sequence[IndexSpec], spec: IndexSpec) -> bool:
    """True when publishing ranges of ``spec`` sets the table to deferred remap, unless it is set already."""
    allowed = bool(spec.parameters.get("defer_remap", True)) and not snapshot.stable_row_ids
    return allowed and not _harms_another(snapshot, specs)


def _harms_another(snapshot: TableSnapshot, specs: Iterable[IndexSpec]) -> bool:
    harmed = {kind.name for kind in list_kinds() if not kind.follows_deferred_compaction} | _UNCLEAR_KINDS
    if any(index.kind in harmed for index in snapshot.indexes):
        return True
    return not all(survives_deferred_remap(find_any_kind(spec.kind), spec.parameters) for spec in specs)
