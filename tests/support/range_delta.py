"""Sorts fragments that an index does not cover into a segment of their own, as a build does. Publishes nothing."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping  # noqa: TC003 - a field of a dataclass, read at run time by those who list fields
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyroaring import FrozenBitMap

from lancewright.build.plan import IndexDemand, plan_index
from lancewright.build.range_build import RangeBuild, build_ranges
from lancewright.build.range_copy import plain_where_unsafe
from lancewright.build.spec import IndexSpec
from lancewright.errors import InvalidRequestError
from lancewright.kinds.registry import find_kind
from lancewright.runtime.runner import ATTEMPTS_MAX
from lancewright.table.side_files import SIDE_FOLDER, SideFiles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lancewright.model.columns import Column
    from lancewright.model.index import Segment
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.runtime.runner import Runner
    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeDelta:
    """Which fragments to sort, for which index; ``parameters`` are those of a range-sorted build."""

    table: TableRef
    snapshot: TableSnapshot
    name: str
    column: Column
    fragments: Iterable[int]
    parameters: Mapping[str, object] = field(default_factory=dict)
    attempts_max: int = ATTEMPTS_MAX


def build_delta(delta: RangeDelta, runner: Runner) -> Segment:
    """Build the segment; its caller adds it to the index in one commit.

    Without deferred remap it ends as one file, unless ``keep_ranges`` is among the parameters.
    """
    spec = IndexSpec(
        name=delta.name,
        kind="btree",
        column=delta.column,
        parameters_json=json.dumps({**delta.parameters, "layout": "range"}, sort_keys=True),
    )
    demand = IndexDemand(spec=spec, kind=find_kind("btree"), wanted=FrozenBitMap(delta.fragments))
    groups = plan_index(delta.snapshot, demand, runner.parallelism).groups
    if not any(group.fragments for group in groups):
        raise InvalidRequestError(
            f"No fragment of this version is to be added to index {delta.name!r}",
            "Name fragments that are there.",
        )
    build = RangeBuild(
        table=delta.table,
        folder=f"{SIDE_FOLDER}/deltas/{uuid.uuid4().hex}",
        spec=spec,
        snapshot=delta.snapshot,
        groups=groups,
        attempts_max=delta.attempts_max,
    )
    files = SideFiles(delta.table)
    try:
        (result,) = build_ranges([build], runner)
    except BaseException:
        # Nobody takes this sort up again.
        for path in files.list(f"{build.folder}/sorts"):
            files.delete_segment(path.rpartition("/")[2].removesuffix(".json"))
        raise
    finally:
        files.delete_folder(build.folder)
    if delta.parameters.get("keep_ranges"):
        return result.segment
    return plain_where_unsafe(
        delta.table, delta.snapshot, delta.column, result.segment, runner, delta.attempts_max
    )
