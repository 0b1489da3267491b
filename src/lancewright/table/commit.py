"""Makes segments visible: one atomic transaction that adds some and removes others. Decides nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import lance

from lancewright.errors import ConflictError, InvalidRequestError
from lancewright.table.conflict import find_overlap
from lancewright.table.lance_compat import (
    is_commit_conflict,
    open_cause,
    segment_stub,
    segment_to_lance,
    translating,
)
from lancewright.table.opening import open_dataset

if TYPE_CHECKING:
    from lancewright.model.index import Segment
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexChange:
    """Segments to add and segments to remove, of one or several indexes, all at once or not at all."""

    add: tuple[Segment, ...] = ()
    remove: tuple[Segment, ...] = ()


def validate_change(snapshot: TableSnapshot, change: IndexChange) -> None:
    """Raise when a change would leave overlapping coverage, or cover fragments the table does not have."""
    removed = {segment.uuid for segment in change.remove}
    known = snapshot.fragments_by_id
    for name in dict.fromkeys(segment.name for segment in change.add):
        added = [segment for segment in change.add if segment.name == name]
        stays = [segment for segment in snapshot.segments_named(name) if segment.uuid not in removed]
        overlap = find_overlap([*stays, *added])
        if overlap:
            raise InvalidRequestError(
                f"Segments of index {name!r} cover fragments {sorted(overlap)[:10]} twice",
                "Commit segments with disjoint fragments, or remove the ones they replace in the same change.",
            )
        gone = sorted(
            {fragment for segment in added for fragment in segment.covered if fragment not in known}
        )
        if gone:
            raise ConflictError(
                f"Fragments {gone[:10]} of index {name!r} are no longer in the table",
                "Read the table again and rebuild what was lost.",
            )
        if not {field_id for segment in added for field_id in segment.field_ids} <= set(
            snapshot.columns_by_field_id
        ):
            raise ConflictError(
                f"The column of index {name!r} is no longer in the table", "Index a column that exists."
            )


def commit_segments(table: TableRef, snapshot: TableSnapshot, change: IndexChange) -> int:
    """Commit a change that is valid for ``snapshot`` and return the new version.

    Lance rebases over commits that came after the snapshot where that is right: it takes rewritten fragments out
    of the coverage and follows a deferred compaction. Where it is not, this raises ConflictError and nothing changed.
    """
    validate_change(snapshot, change)
    operation = lance.LanceOperation.CreateIndex(
        [segment_to_lance(segment) for segment in change.add],
        [segment_stub(segment) for segment in change.remove],
    )
    dataset = open_dataset(table.latest())
    with translating(table, "commit an index to"):
        try:
            # The transaction reads the snapshot's version, and is rebased from there by Lance.
            committed = lance.LanceDataset.commit(dataset, operation, read_version=snapshot.version)
        except Exception as error:
            if not is_commit_conflict(error):
                raise
            raise ConflictError(
                f"Another writer changed {table.name} after version {snapshot.version}",
                "Read the table again and retry.",
            ) from open_cause(error, table)
    return int(committed.version)
