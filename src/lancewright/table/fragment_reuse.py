"""Answers which fragments a segment covers after deferred compactions: the entry still names the old ones.

A deferred compaction leaves index files and entries alone and notes in Lance's fragment reuse index which fragments
became which. Lance follows these notes when it opens a table, and so must whoever compares an entry with fragments.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyroaring import BitMap, FrozenBitMap

from lancewright.model.snapshot import DeferredCompaction
from lancewright.table.manifest_messages import FragmentReuse, FragmentReuseDetails

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lancewright.model.index import Segment

FRAGMENT_REUSE_NAME = "__lance_frag_reuse"


def read_reuse(
    segments: tuple[Segment, ...], open_root: Callable[[Segment], Any]
) -> tuple[DeferredCompaction, ...]:  # Any: a pylance file session
    """The compactions the table notes, in commit order; ``open_root`` gives a session on the table whose file one is."""
    notes = next((segment for segment in segments if segment.name == FRAGMENT_REUSE_NAME), None)
    return () if notes is None else read_notes(notes, open_root(notes))


def follow_reuse(
    segments: tuple[Segment, ...], compactions: tuple[DeferredCompaction, ...]
) -> tuple[Segment, ...]:
    """The segments with the fragments they cover now."""
    if not compactions:
        return segments
    return tuple(
        segment if segment.is_system else replace(segment, fragments=_follow(segment.fragments, compactions))
        for segment in segments
    )


def read_notes(notes: Segment, session: Any) -> tuple[DeferredCompaction, ...]:  # a pylance file session
    """The compactions a fragment reuse entry notes, in commit order."""
    details = FragmentReuseDetails.FromString(notes.details)
    content = details.inline
    if details.HasField("external"):
        # Past some 200 KB the notes are a file of their own.
        file = details.external
        path = f"_indices/{notes.uuid}/{file.path}"
        content = FragmentReuse.FromString(bytes(session.read_range(path, file.offset, file.size)))
    return tuple(
        DeferredCompaction(
            version=version.dataset_version,
            old=FrozenBitMap(fragment.id for fragment in group.old_fragments),
            new=FrozenBitMap(fragment.id for fragment in group.new_fragments),
        )
        for version in content.versions
        for group in version.groups
    )


def _follow(fragments: FrozenBitMap | None, compactions: Iterable[DeferredCompaction]) -> FrozenBitMap | None:
    """As Lance does it: a new fragment is covered when all that went into it was."""
    if fragments is None:
        return None
    current = BitMap(fragments)
    for rewrite in compactions:
        if current.isdisjoint(rewrite.old):
            continue
        whole = rewrite.old <= current
        current -= rewrite.old
        if whole:
            current |= rewrite.new
    return FrozenBitMap(current)
