"""Lance's compaction in three steps: plan on the driver, one task on an executor, commit on the driver.

Tasks and results travel as text, as Lance writes them. A commit is refused as a whole when another writer changed one of its
fragments.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lance
from lance.fragment import FragmentMetadata
from lance.optimize import Compaction, CompactionTask, RewriteResult
from pyroaring import FrozenBitMap

from lancewright.errors import ConflictError
from lancewright.table.lance_compat import is_commit_conflict, open_cause, translating
from lancewright.table.opening import open_dataset

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPart:
    """One task: fragments that become fewer. ``text`` is Lance's own description of it."""

    fragments: FrozenBitMap
    rows: int
    text: str


def plan_compaction(table: TableRef, options: Mapping[str, Any]) -> tuple[CompactionPart, ...]:
    """What a compaction of this version would do; ``options`` are Lance's."""
    with translating(table, "plan a compaction of"):
        plan = Compaction.plan(open_dataset(table), dict(options))  # type: ignore[arg-type] # a TypedDict of Lance
        return tuple(_part(task.json()) for task in plan.tasks)  # type: ignore[attr-defined] # the stub leaves it out


def run_compaction(table: TableRef, text: str) -> str:
    """Write the new data files of one task; nobody sees them until the result is committed."""
    with translating(table, "compact fragments of"):
        task = CompactionTask.from_json(text)  # type: ignore[attr-defined] # as above
        return str(task.execute(open_dataset(table)).json())


def commit_compaction(table: TableRef, results: Sequence[str], options: Mapping[str, Any]) -> int:
    """Commit results, with the options they were planned with; return the version.

    Raises ConflictError, with the table as it was, when another writer changed one of the fragments.
    """
    dataset = open_dataset(table.latest())
    with _committing(table):
        rewrites = [RewriteResult.from_json(result) for result in results]  # type: ignore[attr-defined] # as above
        Compaction.commit(dataset, rewrites, dict(options))  # type: ignore[arg-type] # as above
    return int(dataset.version)


def commit_compaction_alone(table: TableRef, results: Sequence[str]) -> int:
    """Commit results of one plan and leave every index as it is: none covers the new fragments; return the version.

    Only for a table without stable row ids: with them Lance takes every index for having followed. Raises as above.
    """
    read = [json.loads(result) for result in results]
    operation = lance.LanceOperation.Rewrite(
        groups=[
            lance.LanceOperation.RewriteGroup(
                old_fragments=_fragments(result["original_fragments"]),
                new_fragments=_fragments(result["new_fragments"]),
            )
            for result in read
        ],
        rewritten_indices=[],
    )
    with _committing(table):
        oldest = min(result["read_version"] for result in read)
        return int(
            lance.LanceDataset.commit(open_dataset(table.latest()), operation, read_version=oldest).version
        )


@contextmanager
def _committing(table: TableRef) -> Iterator[None]:
    with translating(table, "commit a compaction of"):
        try:
            yield
        except Exception as error:
            if not is_commit_conflict(error):
                raise
            raise ConflictError(
                f"Another writer changed fragments of {table.name} that were being compacted",
                "Run the same call again.",
            ) from open_cause(error, table)


def _fragments(
    entries: Sequence[Mapping[str, Any]],
) -> list[Any]:  # Any: JSON of Lance, and its untyped metadata
    return [FragmentMetadata.from_json(json.dumps(entry)) for entry in entries]


def _part(text: str) -> CompactionPart:
    fragments = json.loads(text)["task"]["fragments"]
    return CompactionPart(
        fragments=FrozenBitMap(entry["id"] for entry in fragments),
        rows=sum(_rows(entry) for entry in fragments),
        text=text,
    )


def _rows(fragment: Mapping[str, Any]) -> int:  # Any: JSON of Lance
    deletion = fragment.get("deletion_file") or {}
    return int(fragment.get("physical_rows") or 0) - int(deletion.get("num_deleted_rows") or 0)
