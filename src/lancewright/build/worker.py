"""What runs on an executor: train a model, build a segment, merge segments. Opens the pinned version, commits nothing.

Memory: one fragment group at a time; Lance sorts in a pool of 150 MB per process and spills past it.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from pyroaring import FrozenBitMap

from lancewright.build.journal import Journal
from lancewright.build.kind_merge_worker import merge_kind_segments
from lancewright.build.kind_worker import build_kind_segment
from lancewright.build.spec import BuildSettings, BuildWork, IndexSpec, MergeWork, TrainWork, Written
from lancewright.errors import ConflictError, CorruptIndexError, UnsupportedError
from lancewright.kinds.lance_native import segments as native_segments
from lancewright.kinds.lance_native.training import train_model
from lancewright.kinds.lance_native.vector_model import VectorModel
from lancewright.kinds.registry import find_kind
from lancewright.table.lance_compat import segment_from_lance, segment_to_lance, translating
from lancewright.table.opening import open_dataset
from lancewright.table.side_files import SideFiles

if TYPE_CHECKING:
    from lancewright.model.index import Segment


def train_index_model(settings: BuildSettings, work: TrainWork) -> int:
    """Train one index's model, once for all its tasks; return the model's size in bytes."""
    spec = settings.specs[work.spec_number]
    journal = _journal(settings)
    given = _read_model(journal, spec.given_model_path)
    with translating(settings.table, f"train the model of index {spec.name!r} on"):
        model = train_model(
            open_dataset(settings.table), find_kind(spec.kind), spec.column, spec.parameters, given
        )
    content = model.to_bytes()
    journal.write_model(_required(spec.model_path), content)
    return len(content)


def build_index_segment(settings: BuildSettings, work: BuildWork) -> Written:
    """Build one segment over the task's fragments and record it in the journal."""
    started = time.monotonic()
    spec = settings.specs[work.spec_number]
    journal = _journal(settings)
    if spec.plugin is not None:
        segment = build_kind_segment(settings.table, spec, work.fragments if spec.train else ())
        return _record(settings, journal, spec, work, segment, started)
    model = _read_model(journal, spec.model_path)
    with translating(settings.table, f"build index {spec.name!r} of"):
        index = native_segments.build_segment(
            open_dataset(settings.table),
            find_kind(spec.kind),
            spec.column,
            spec.parameters,
            work.fragments,
            # A name nobody has: Lance refuses one that another column's index carries, and the commit names the segment.
            f"lancewright-{uuid.uuid4().hex}",
            train=spec.train,
            model=model,
        )
    return _record(settings, journal, spec, work, segment_from_lance(index), started)


def merge_index_segments(settings: BuildSettings, work: MergeWork) -> Written | None:
    """Merge a group of segments into one and record it in the journal; None when nothing of it came through."""
    started = time.monotonic()
    spec = settings.specs[work.spec_number]
    if spec.plugin is not None:
        own = merge_kind_segments(settings.table, spec, work.sources, work.fragments)
        return _record(settings, _journal(settings), spec, work, own, started)
    with translating(settings.table, f"merge segments of index {spec.name!r} of"):
        sources = [segment_to_lance(source) for source in work.sources]
        index = native_segments.merge_segments(open_dataset(settings.table), sources)
    merged = segment_from_lance(index)
    fragments = FrozenBitMap(work.fragments) & merged.covered
    if len(fragments) < len(work.fragments) and not (work.may_lose and fragments):
        SideFiles(settings.table).delete_segment(merged.uuid)
        if work.may_lose:
            return None
        raise _lost(merged, work)
    # Lance gives it the oldest version of its sources, at which some of its fragments did not exist: whoever follows the
    # history from there, Lance's own next merge among them, takes those for not covered. What it holds is true of this one.
    claimed = replace(merged, fragments=FrozenBitMap(fragments), dataset_version=settings.table.version or 0)
    return _record(settings, _journal(settings), spec, work, claimed, started)


def _lost(merged: Segment, work: MergeWork) -> UnsupportedError:
    """Lance merges some segments built before a deferred compaction into one that covers nothing, without an error."""
    missing = FrozenBitMap(work.fragments) - merged.covered
    return UnsupportedError(
        f"Lance merged segments of index {merged.name!r} and lost fragments {list(missing)[:10]}",
        "Build the index anew with replace=True.",
    )


def _record(
    settings: BuildSettings,
    journal: Journal,
    spec: IndexSpec,
    work: BuildWork | MergeWork,
    segment: Segment,
    started: float,
) -> Written:
    _require_driver(settings, journal, segment)
    written = Written(
        task_id=work.task_id,
        index=spec.name,
        version=settings.table.version or 0,
        segment=replace(segment, name=spec.name),
        rows=work.rows,
        seconds=time.monotonic() - started,
    )
    journal.record_segment(written)
    return written


def _require_driver(settings: BuildSettings, journal: Journal, segment: Segment) -> None:
    """Let a late attempt, speculative or left behind by a dead driver, take its segment away instead of leaving it."""
    if journal.read_lease() is None:
        SideFiles(settings.table).delete_segment(segment.uuid)
        raise ConflictError("The build ended before this task did", "Nothing: another attempt did its work.")


def _journal(settings: BuildSettings) -> Journal:
    return Journal(SideFiles(settings.table), settings.folder)


def _read_model(journal: Journal, path: str | None) -> VectorModel | None:
    if path is None:
        return None
    content = journal.read_model(path)
    if content is None:
        raise CorruptIndexError(
            f"The model {path} of this build is gone",
            "Run the build again with resume=False to train it anew.",
        )
    return VectorModel.from_bytes(content)


def _required(path: str | None) -> str:
    if path is None:
        raise CorruptIndexError("A training task came without a place for its model", "Run the build again.")
    return path
