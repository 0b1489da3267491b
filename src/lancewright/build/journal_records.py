"""The journal's records as JSON, and back exactly. Pure.

What makes no sense counts as absent: a file cut short, another format, or one that somebody edited.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from pyroaring import FrozenBitMap

from lancewright.build.lease import Lease
from lancewright.build.spec import Written
from lancewright.model.index import Segment, SegmentFile
from lancewright.table.conflict import FragmentProof

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

FORMAT = 1
T = TypeVar("T")
Proofs = dict[str, dict[int, FragmentProof]]


def to_bytes(content: Mapping[str, Any]) -> bytes:
    """One record as a file."""
    return json.dumps({"format": FORMAT, **content}, separators=(",", ":")).encode()


def from_bytes(content: bytes | None, parse: Callable[[Mapping[str, Any]], T]) -> T | None:
    """Read one record; None when there is no file, or none that ``parse`` can take."""
    try:
        parsed = json.loads(content or b"")
        return parse(parsed) if isinstance(parsed, dict) and parsed.get("format") == FORMAT else None
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return None


def lease_to_json(lease: Lease) -> dict[str, Any]:
    """Who works on a build."""
    return asdict(lease)


def lease_from_json(content: Mapping[str, Any]) -> Lease:
    """The lease as it was."""
    return Lease(
        owner=_text(content["owner"]),
        machine=_text(content["machine"]),
        process_id=_whole(content["process_id"]),
        process_started=_text(content["process_started"]),
        seen_at=float(content["seen_at"]),
    )


def proofs_to_json(proofs: Mapping[str, Iterable[FragmentProof]]) -> dict[str, Any]:
    """What the fragments of each index look like."""
    return {
        "proofs": {
            name: [[proof.fragment_id, proof.column_stamp, proof.deletion_stamp] for proof in entries]
            for name, entries in proofs.items()
        }
    }


def proofs_from_json(content: Mapping[str, Any]) -> Proofs:
    """The proofs as they were: index name, then fragment id."""
    return {
        name: {proof.fragment_id: proof for proof in (_proof_from_json(*entry) for entry in entries)}
        for name, entries in _mapping(content["proofs"]).items()
    }


def written_to_json(written: Written) -> dict[str, Any]:
    """A finished segment and the task that wrote it."""
    return {
        "task_id": written.task_id,
        "index": written.index,
        "version": written.version,
        "rows": written.rows,
        "seconds": written.seconds,
        "segment": segment_to_json(written.segment),
    }


def written_from_json(content: Mapping[str, Any]) -> Written:
    """The finished segment as it was."""
    return Written(
        task_id=_text(content["task_id"]),
        index=_text(content["index"]),
        version=_whole(content["version"]),
        segment=segment_from_json(_mapping(content["segment"])),
        rows=_whole(content["rows"]),
        seconds=float(content["seconds"]),
    )


def segments_from_json(content: Mapping[str, Any]) -> tuple[str, ...]:
    """The uuids of a note of what a commit publishes."""
    return tuple(_text(uuid) for uuid in content["segments"])


def segment_to_json(segment: Segment) -> dict[str, Any]:
    """A manifest entry."""
    return {
        "uuid": segment.uuid,
        "name": segment.name,
        "field_ids": list(segment.field_ids),
        "dataset_version": segment.dataset_version,
        "fragments": list(segment.covered),
        "index_version": segment.index_version,
        "type_url": segment.type_url,
        "details": base64.b64encode(segment.details).decode(),
        "created_at": segment.created_at.isoformat() if segment.created_at else None,
        "base_id": segment.base_id,
        "files": None if segment.files is None else [[file.path, file.size_bytes] for file in segment.files],
        "covering_field_ids": list(segment.covering_field_ids),
    }


def segment_from_json(content: Mapping[str, Any]) -> Segment:
    """The manifest entry as it was."""
    files = content["files"]
    return Segment(
        uuid=_text(content["uuid"]),
        name=_text(content["name"]),
        field_ids=_wholes(content["field_ids"]),
        dataset_version=_whole(content["dataset_version"]),
        fragments=FrozenBitMap(_wholes(content["fragments"])),
        index_version=_whole(content["index_version"]),
        type_url=None if content["type_url"] is None else _text(content["type_url"]),
        details=base64.b64decode(content["details"]),
        created_at=datetime.fromisoformat(content["created_at"]) if content["created_at"] else None,
        base_id=None if content["base_id"] is None else _whole(content["base_id"]),
        files=None
        if files is None
        else tuple(SegmentFile(path=_text(path), size_bytes=_whole(size)) for path, size in files),
        covering_field_ids=_wholes(content["covering_field_ids"]),
    )


def _proof_from_json(fragment: Any, column: Any, deletion: Any) -> FragmentProof:  # Any: whatever JSON holds
    return FragmentProof(
        fragment_id=_whole(fragment),
        column_stamp=_text(column),
        deletion_stamp=None if deletion is None else _text(deletion),
    )


def _text(value: Any) -> str:  # Any: whatever JSON holds
    if not isinstance(value, str):
        raise TypeError
    return value


def _whole(value: Any) -> int:  # Any: whatever JSON holds
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return value


def _wholes(values: Any) -> tuple[int, ...]:  # Any: whatever JSON holds
    return tuple(_whole(value) for value in values)


def _mapping(value: Any) -> dict[str, Any]:  # Any: whatever JSON holds
    if not isinstance(value, dict):
        raise TypeError
    return value
