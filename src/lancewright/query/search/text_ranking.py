"""Ranks what a text search found, and searches again without the index when that cannot be read or knows values of the past."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewright.errors import CorruptIndexError, LancewrightError, UnsupportedError
from lancewright.kinds.lance_native.inheritance import read_options
from lancewright.kinds.registry import find_kind
from lancewright.model.coverage import measure_coverage
from lancewright.query.search.columns import TEXT_KIND
from lancewright.query.search.notes import SearchNote, SearchReason
from lancewright.query.search.tasks import search_job, whole_text_task
from lancewright.query.search.top_k import keep_best
from lancewright.query.search.trust import find_stale, may_be_stale
from lancewright.query.trust import field_ids, shows_rewriting
from lancewright.runtime.runner import ignore_outcome, run_tasks
from lancewright.table.history import read_history
from lancewright.table.lance_compat import translating
from lancewright.table.opening import open_dataset
from lancewright.table.row_taker import read_row_versions
from lancewright.table.segment_reader import SegmentReader
from lancewright.table.text_search import MATCHED_SCHEMA, SCORE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lancewright.model.index import IndexState
    from lancewright.query.search.plan import TextPlan
    from lancewright.query.search.request import TextRequest
    from lancewright.query.search.vector_worker import Found
    from lancewright.runtime.runner import Runner
    from lancewright.table.location import TableRef
    from lancewright.table.metering import SearchEffort

# One task reads and indexes them: some minutes.
WHOLE_ROWS_MAX = 5_000_000
_VERSIONS_READ_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """A text search, and who runs its tasks."""

    table: TableRef
    plan: TextPlan
    request: TextRequest
    runner: Runner

    @property
    def pinned(self) -> TableRef:
        """The table at the version that is searched."""
        return self.table.pinned(self.plan.snapshot.version)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranked:
    """The rows, best first, what happened on the way, and what a search anew took."""

    rows: pa.Table
    notes: tuple[SearchNote, ...]
    efforts: Mapping[str, SearchEffort] = field(default_factory=dict)


def rank_texts(texts: Texts, found: Iterable[Found], notes: tuple[SearchNote, ...]) -> Ranked:
    """The best of what the tasks found, or of all texts read anew."""
    parts = tuple(found)
    broken = any(note.reason is SearchReason.BROKEN_SEGMENT for part in parts for note in part.notes)
    rows = pa.concat_tables([MATCHED_SCHEMA.empty_table(), *(part.rows for part in parts)])
    best = keep_best(rows, SCORE, texts.plan.k, descending=True)
    why = "it cannot be read" if broken else _why_doubted(texts, best)
    if not why or texts.plan.index is None:
        return Ranked(rows=best, notes=notes)
    words = f"{why}; its texts were read and indexed anew for this search, rebuild it"
    note = SearchNote(reason=SearchReason.READ_WHOLE, subject=texts.plan.index.name, explanation=words)
    return replace(_search_anew(texts, texts.plan.index, why), notes=(*notes, note))


def _search_anew(texts: Texts, index: IndexState, why: str) -> Ranked:
    rows = sum(texts.plan.snapshot.fragments_by_id[fragment].rows for fragment in texts.plan.fragments)
    if rows > WHOLE_ROWS_MAX:
        raise UnsupportedError(
            f"Text index {index.name!r} cannot answer: {why}; {rows:,} texts are too many to be read for one search",
            "Build it again with create_index(..., replace=True).",
        )
    task = whole_text_task(
        texts.table, texts.plan, texts.request.scope.prefilter, _options(texts, index, why)
    )
    done = run_tasks(texts.runner, search_job(texts.table, texts.plan), (task,), ignore_outcome)
    answer: Found = done[task.id].result
    for note in answer.notes:
        raise CorruptIndexError(
            f"Index {index.name!r} cannot be read: {note.explanation}",
            "Build it again with create_index(..., replace=True).",
        )
    best = keep_best(answer.rows, SCORE, texts.plan.k, descending=True)
    return Ranked(rows=best, notes=(), efforts={task.id: answer.effort})


def _options(texts: Texts, index: IndexState, why: str) -> dict[str, Any]:  # Any: an option's value
    """How the index cuts texts into words, from whichever of its segments still says so."""
    kind, problem = find_kind(TEXT_KIND), ""
    for segment in index.segments:
        try:
            return read_options(kind, segment, SegmentReader(texts.pinned, segment))
        except LancewrightError as error:
            problem = error.problem
    raise CorruptIndexError(
        f"Index {index.name!r} cannot be read: {why}, and how it cuts texts into words is lost too ({problem})",
        "Build it again with create_index(..., replace=True).",
    )


def _why_doubted(texts: Texts, best: pa.Table) -> str:
    """Say why an older segment may have found rows by texts they do not have any more."""
    plan, index = texts.plan, texts.plan.index
    if index is None or not len(best) or len({segment.dataset_version for segment in index.segments}) < 2:
        return ""
    if _was_rewritten(texts, index):
        return "its column was rewritten in place, and its older segments know the old texts"
    if not may_be_stale(plan.snapshot, index):
        return ""
    covered = measure_coverage(plan.snapshot, index).covered
    inside = [address >> 32 in covered for address in best["_rowaddr"].to_pylist()]
    ids = best["_rowid"].filter(pa.array(inside)).to_numpy()
    if not len(ids):
        return ""
    with translating(texts.pinned, "read the versions of rows of"):
        created, updated = read_row_versions(open_dataset(texts.pinned), ids)
    stale = int(find_stale(index, created, updated).sum())
    return f"it may know {stale} of the rows found from before their last update" if stale else ""


def _was_rewritten(texts: Texts, index: IndexState) -> bool:
    snapshot, fields = texts.plan.snapshot, field_ids(texts.plan.snapshot, index)
    oldest = min(segment.dataset_version for segment in index.segments)
    history = read_history(texts.pinned, oldest, snapshot.version, _VERSIONS_READ_MAX)
    if not history.complete:
        return shows_rewriting(snapshot, index, fields)
    return history.rewritten_fields is None or not fields.isdisjoint(history.rewritten_fields)
