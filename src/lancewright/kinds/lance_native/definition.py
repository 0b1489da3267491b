"""What a kind that Lance builds is: data about it, and two pure questions. Building it is ``segments``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from lancewright.kinds.lance_native.trusted import UNTRUSTED, Trusted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lancewright.model.columns import Column

Family = Literal["scalar", "text", "vector"]
ParameterType = Literal["int", "float", "bool", "str", "list of str", "array", "mapping"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a kind: its type, its bounds and what it does.

    ``default`` is what holds when the parameter is not given; None leaves the choice to Lance, whose own default is
    named in ``doc``. ``nullable`` means that a given None has a meaning of its own and is passed on.
    ``schema`` describes the entries of a mapping.
    """

    name: str
    type: ParameterType
    doc: str
    default: Any = None  # of the parameter's own type
    low: float | None = None
    high: float | None = None
    choices: tuple[Any, ...] = ()  # of the parameter's own type
    nullable: bool = False
    required: bool = False
    schema: tuple[Parameter, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trimming:
    """Whether a segment may be committed with fewer fragments than it was built over.

    ``alive``: the fragments taken out still exist, and another segment of the index covers them, now or later. Lance
    masks by what the whole index covers, not by segment, so the old postings come back with the new ones.
    ``gone``: the fragments taken out no longer exist: compacted or deleted.
    Taking out fragments that nobody covers afterwards is always right.
    """

    alive: bool
    gone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeKind:
    """One index kind that Lance builds, reads and maintains.

    ``accepts`` says why a column cannot be indexed, ``combine`` why a set of parameters does not fit together or does
    not fit the column; both return None when all is well.

    ``unmergeable_on``: columns whose segments cannot be merged, of a kind whose other segments can.
    ``whole_table_if``: with these parameters Lance builds rightly only over all fragments of a version, as one segment.
    ``stale_on_update``: on a table with stable row ids, an update that rewrites rows leaves the old value of a row in
    the older segment, under the same row id as in the newer one, and Lance answers with both. Such an index is right
    only while all its segments are built from the same version.
    ``follows_deferred_compaction``: its segments stay right when Lance translates their row addresses while loading.
    FM answers wrongly then, and an HNSW graph cannot be searched once a row that it holds was deleted.
    ``trusted``: the conditions of filters it is asked.
    ``cleaned_by_merge``: merging one trimmed segment with itself drops the postings of what was taken out.
    All of these are measured per kind and row-id mode in ``tests/unit/kinds/test_trimming.py``.
    """

    name: str
    lance_name: str
    family: Family
    type_url: str
    index_version_max: int
    parameters: tuple[Parameter, ...]
    accepts: Callable[[Column], str | None]
    doc: str
    combine: Callable[[Column, Mapping[str, Any]], str | None] = lambda _column, _parameters: None
    mergeable: bool = True
    unmergeable_on: Callable[[Column], bool] = lambda _column: False
    single_segment: bool = False
    whole_table_if: Callable[[Mapping[str, Any]], bool] = lambda _parameters: False
    whole_table: bool = False
    supports_stable_row_ids: bool = True
    stale_on_update: bool = False
    trimming_on_addresses: Trimming = Trimming(alive=False, gone=True)
    trimming_on_stable_row_ids: Trimming = Trimming(alive=False, gone=True)
    cleaned_by_merge: bool = True
    follows_deferred_compaction: bool = True
    aliases: tuple[str, ...] = ()
    rows_max: int = 2**63 - 1
    trusted: Trusted = UNTRUSTED

    def merges(self, column: Column) -> bool:
        """True when segments over this column can be merged into one."""
        return self.mergeable and not self.unmergeable_on(column)

    def settled(self, parameters: Mapping[str, Any]) -> NativeKind:
        """This kind as it is with these parameters."""
        if not self.whole_table_if(parameters):
            return self
        return replace(self, mergeable=False, single_segment=True, whole_table=True)

    @property
    def trimmable_on_addresses(self) -> bool:
        """True when any fragment may be taken out of a segment, on a table without stable row ids."""
        return self.trimming_on_addresses.alive and self.trimming_on_addresses.gone

    @property
    def trimmable_on_stable_row_ids(self) -> bool:
        """True when any fragment may be taken out of a segment, on a table with stable row ids."""
        return self.trimming_on_stable_row_ids.alive and self.trimming_on_stable_row_ids.gone

    def parameter(self, name: str) -> Parameter | None:
        """The parameter of this name, if the kind has it."""
        return next((parameter for parameter in self.parameters if parameter.name == name), None)
