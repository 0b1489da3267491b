"""What runs on an executor of a compaction: one group of fragments is written as fewer. Commits nothing.

Memory: what Lance keeps of one fragment while it copies it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancewright.table.compaction import run_compaction

if TYPE_CHECKING:
    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactSettings:
    """What all tasks share: the table pinned to the version the plan was made of."""

    table: TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactWork:
    """One task, in Lance's own words."""

    text: str


def compact_fragments(settings: CompactSettings, work: CompactWork) -> str:
    """Write the new files; the result, in Lance's own words, is for the commit."""
    return run_compaction(settings.table, work.text)
