"""What the build has to know of a kind that is not Lance's, in the words it has for Lance's own. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lancewright.kinds.lance_native.definition import Trimming

if TYPE_CHECKING:
    from lancewright.kinds.plugins import PluginRef
    from lancewright.model.columns import Column

_ANYTHING = Trimming(alive=True, gone=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginKind:
    """A kind of our own or of another package.

    Its segments may be committed with fewer fragments than they were built over, and follow compactions of every sort: what a
    segment names is compared with the fragments it covers now (``query.kind_rows``).
    """

    name: str
    ref: PluginRef
    doc: str = ""
    family: Literal["plugin"] = "plugin"
    parameters: tuple[()] = ()
    aliases: tuple[()] = ()
    rows_max: int = 64_000_000
    mergeable: bool = False
    single_segment: bool = False
    whole_table: bool = False
    stale_on_update: bool = False
    follows_deferred_compaction: bool = True
    trimming_on_addresses: Trimming = _ANYTHING
    trimming_on_stable_row_ids: Trimming = _ANYTHING

    def merges(self, _column: Column) -> bool:
        """True when segments over this column can be merged into one."""
        return self.mergeable
