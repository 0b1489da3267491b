"""Turns a judged index into work for a build: the same kind, options and model as its segments have."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lancewright.build.index_work import IndexWork
from lancewright.build.resolve import ResolvedRequest, resolve_requests
from lancewright.errors import CorruptIndexError, NotFoundError, UnsupportedError
from lancewright.kinds.btree.empty_ranges import count_parts
from lancewright.kinds.lance_native.inheritance import read_options
from lancewright.maintain.judgement import Fate, Judgement
from lancewright.model.request import IndexRequest
from lancewright.table.column_reader import read_expression_type
from lancewright.table.segment_reader import SegmentReader

if TYPE_CHECKING:
    from lancewright.kinds.lance_native.definition import NativeKind
    from lancewright.model.index import Segment
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.table.location import TableRef

# A delta is small: one task, and then no merge of several, until it would keep an executor busy for some seconds.
ROWS_PER_DELTA_TASK = 2_000_000


def inherit_request(
    table: TableRef, snapshot: TableSnapshot, judgement: Judgement, kind: NativeKind, *, lenient: bool = False
) -> ResolvedRequest:
    """The request that makes segments like those the index has; raises when they do not say how they were made.

    ``lenient``: for a scalar kind that answers alike whatever its options, take the defaults then.
    """
    source = _choose_source(judgement)
    if len(source.field_ids) != 1:
        raise UnsupportedError(
            f"Index {source.name!r} is over {len(source.field_ids)} columns", "Build it anew, on one column."
        )
    try:
        options = read_options(kind, source, SegmentReader(table.pinned(snapshot.version), source))
    except (CorruptIndexError, NotFoundError):
        if not lenient or kind.family != "scalar" or any(one.required for one in kind.parameters):
            raise
        options = {"layout": "range"} if count_parts(source) else {}
    if kind.parameter("layout") is not None:
        options.pop("layout", None)
        if judgement.segments(Fate.KEEP) or judgement.segments(Fate.REWRITE):
            # Only an index built as a whole is sorted as a whole; a later merge of its segments sorts them again.
            options["layout"] = "fragment"
    request = IndexRequest(
        column=snapshot.columns_by_field_id[source.field_ids[0]].path,
        kind=kind.name,
        name=judgement.index.name,
        parameters=options,
        replace=True,
    )
    (resolved,) = resolve_requests(
        snapshot, [request], partial(read_expression_type, table.pinned(snapshot.version))
    )
    return replace(resolved, model_is_whole=resolved.given_model is not None)


def begin_refresh(judgement: Judgement, resolved: ResolvedRequest) -> IndexWork:
    """The work that brings a judged index up to date."""
    keeps = judgement.segments(Fate.KEEP)
    skipped = tuple(entry.segment for entry in judgement.index.skipped)
    rewrites = tuple((segment,) for segment in judgement.segments(Fate.REWRITE))
    return IndexWork(
        resolved=resolved,
        wanted=judgement.wanted,
        swaps=True,
        stays=(*keeps, *skipped),
        rewrites=rewrites,
        rows_per_task_min=ROWS_PER_DELTA_TASK if keeps or rewrites else 0,
    )


def _choose_source(judgement: Judgement) -> Segment:
    """The newest segment with files, of those that stay if there are any."""
    fates = {verdict.segment.uuid: verdict.fate for verdict in judgement.verdicts}
    return max(
        judgement.index.segments,
        key=lambda segment: (
            bool(segment.files),
            fates[segment.uuid] in {Fate.KEEP, Fate.REWRITE},
            segment.dataset_version,
        ),
    )
