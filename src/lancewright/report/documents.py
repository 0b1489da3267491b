"""The same facts for machines: plain dictionaries that ``json.dumps`` takes. Field names are stable."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lancewright.errors import TasksFailedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lancewright.build.drop import DropReceipt
    from lancewright.build.plan import BuildPlan
    from lancewright.build.receipt import CreateReceipt
    from lancewright.errors import LancewrightError
    from lancewright.kinds.lance_native.definition import NativeKind, Parameter
    from lancewright.kinds.plugin_kind import PluginKind
    from lancewright.model.coverage import Coverage
    from lancewright.model.index import IndexState, Segment
    from lancewright.model.snapshot import TableSnapshot

Document = dict[str, Any]  # Any: JSON


def receipt_document(receipt: CreateReceipt | DropReceipt) -> Document:
    """What a verb did."""
    return asdict(receipt)


def plan_document(plan: BuildPlan) -> Document:
    """What a build would do."""
    return {
        "table": plan.table,
        "version": plan.version,
        "parallelism": plan.parallelism,
        "tasks": plan.tasks,
        "rows": plan.rows,
        "estimated_bytes": plan.estimated_bytes,
        "task_memory_bytes": plan.task_memory_bytes,
        "indexes": [
            {
                "name": index.spec.name,
                "kind": index.spec.kind,
                "column": ", ".join(key.path for key in index.spec.key_columns),
                "parameters": index.spec.parameters,
                "rows": index.rows,
                "segments_expected": index.segments_expected,
                "estimated_bytes": index.estimated_bytes,
                "task_memory_bytes": index.task_memory_bytes,
                "tasks": [{"fragments": list(group.fragments), "rows": group.rows} for group in index.groups],
            }
            for index in plan.indexes
        ],
    }


def indexes_document(snapshot: TableSnapshot, entries: Sequence[tuple[IndexState, Coverage]]) -> Document:
    """The indexes of a table with what they cover."""
    return {
        "table": snapshot.uri,
        "version": snapshot.version,
        "rows": snapshot.rows,
        "fragments": len(snapshot.fragments),
        "stable_row_ids": snapshot.stable_row_ids,
        "indexes": [_index_document(index, coverage) for index, coverage in entries],
    }


def kind_document(kind: NativeKind | PluginKind) -> Document:
    """A kind and its parameters."""
    return {
        "name": kind.name,
        "aliases": list(kind.aliases),
        "family": kind.family,
        "doc": kind.doc,
        "parameters": [_parameter_document(parameter) for parameter in kind.parameters],
    }


def error_document(error: LancewrightError) -> Document:
    """What went wrong; for failed tasks, on which fragments."""
    told: Document = {"error": type(error).__name__, "problem": error.problem, "remedy": error.remedy}
    return {**told, "fragments": list(error.fragments)} if isinstance(error, TasksFailedError) else told


def _index_document(index: IndexState, coverage: Coverage) -> Document:
    return {
        "name": index.name,
        "kind": index.kind,
        "columns": list(index.shown_keys),
        "size_bytes": index.size_bytes,
        "covered_rows": coverage.covered_rows,
        "gap_rows": coverage.gap_rows,
        "covered_fragments": list(coverage.covered),
        "dead_fragments": list(coverage.dead),
        "gaps": [
            {"fragment": gap.fragment_id, "rows": gap.rows, "reason": gap.reason.value}
            for gap in coverage.gaps
        ],
        "segments": [_segment_document(segment) for segment in index.segments],
        "skipped": [
            {
                **_segment_document(entry.segment),
                "reason": entry.reason.value,
                "explanation": entry.explanation,
            }
            for entry in index.skipped
        ],
    }


def _segment_document(segment: Segment) -> Document:
    return {
        "uuid": segment.uuid,
        "fragments": list(segment.covered),
        "dataset_version": segment.dataset_version,
        "index_version": segment.index_version,
        "type_url": segment.type_url,
        "size_bytes": segment.size_bytes,
        "created_at": segment.created_at.isoformat() if segment.created_at else None,
    }


def _parameter_document(parameter: Parameter) -> Document:
    return {
        "name": parameter.name,
        "type": parameter.type,
        "default": parameter.default,
        "required": parameter.required,
        "doc": parameter.doc,
    }
