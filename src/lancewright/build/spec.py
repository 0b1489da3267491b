"""The values a build's tasks carry: what to build, over which fragments, for which table version."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lancewright.model.computed import ComputedColumn

if TYPE_CHECKING:
    from lancewright.kinds.plugins import PluginRef
    from lancewright.model.columns import Column
    from lancewright.model.index import Segment
    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSpec:
    """One index of a build, validated: ``parameters_json`` is normalised, arrays are in the model file.

    ``plugin`` says where a kind comes from that is not Lance's; only such a kind has ``more_columns``, and ``keys``, which
    are set when they are not just the columns. ``kept`` are the columns whose values go into the index.
    """

    name: str
    kind: str
    column: Column
    parameters_json: str
    train: bool = True
    model_path: str | None = None
    given_model_path: str | None = None
    more_columns: tuple[Column, ...] = ()
    plugin: PluginRef | None = None
    keys: tuple[Column | ComputedColumn, ...] = ()
    kept: tuple[Column, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        """Every column that is read, in the order of the keys."""
        return (self.column, *self.more_columns)

    @property
    def key_columns(self) -> tuple[Column | ComputedColumn, ...]:
        """What each key is."""
        return self.keys or self.columns

    @property
    def key_fields(self) -> tuple[tuple[tuple[str, int], ...], ...]:
        """For each key the columns it is over, as (path, field id); nothing when every key is a column."""
        return tuple(
            key.fields if isinstance(key, ComputedColumn) else ((key.path, key.field_id),)
            for key in self.keys
        )

    @property
    def leaf_ids(self) -> tuple[int, ...]:
        """The fields that hold the columns' data."""
        return tuple(dict.fromkeys(leaf for column in self.columns for leaf in column.leaf_ids))

    @property
    def parameters(self) -> dict[str, Any]:
        """The kind's own parameters."""
        return dict(json.loads(self.parameters_json))

    @property
    def is_ranged(self) -> bool:
        """True when the rows are to be sorted as a whole; an empty index has no layout."""
        return self.train and self.plugin is None and self.parameters.get("layout") == "range"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSettings:
    """What all tasks of a build share: the table pinned to a version, the indexes, the journal's folder."""

    table: TableRef
    specs: tuple[IndexSpec, ...]
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainWork:
    """Train the model of one vector index."""

    task_id: str
    spec_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildWork:
    """Build one segment over these fragments."""

    task_id: str
    spec_number: int
    fragments: tuple[int, ...]
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeWork:
    """Merge these segments into one that covers ``fragments``; the sources stay as they are, committed or not.

    ``may_lose``: what Lance leaves out is built from rows afterwards, so it is no failure.
    """

    task_id: str
    spec_number: int
    sources: tuple[Segment, ...]
    rows: int
    fragments: tuple[int, ...]
    may_lose: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a build or merge task leaves: a finished segment that nobody can see yet."""

    task_id: str
    index: str
    version: int
    segment: Segment
    rows: int
    seconds: float
