"""Plans a search for texts: one task for everything the index covers, one for everything it does not. Pure.

Two tasks and not more: Lance reads every segment's words to score one segment's rows, so cutting the index saves nothing
(decision 0012), and the scores of rows outside the index depend on all such rows together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewright.errors import InvalidRequestError, UnsupportedError
from lancewright.model.coverage import measure_coverage
from lancewright.model.text_query import Match, walk_query
from lancewright.query.search.columns import find_indexes, find_text_column
from lancewright.query.search.notes import SearchNote, SearchReason
from lancewright.query.search.plan import FragmentGroup, TextPlan
from lancewright.query.search.request import RowsPrefilter, SqlPrefilter
from lancewright.query.search.vector_planner import asks_scalar_indexes, choose_named, note_filter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lancewright.model.columns import Column
    from lancewright.model.index import IndexState
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.model.text_query import TextQuery
    from lancewright.query.search.request import Scope, TextRequest


def plan_text_search(snapshot: TableSnapshot, request: TextRequest) -> TextPlan:
    """Choose the column's text index and what is searched beside it."""
    scope = request.scope
    column = find_text_column(snapshot, scope.column)
    index, notes = _choose_index(snapshot, column, scope)
    covered = tuple(measure_coverage(snapshot, index).covered) if index is not None else ()
    outside = tuple(fragment.id for fragment in snapshot.fragments if fragment.id not in set(covered))
    if index is not None and outside:
        notes = (*notes, _note_outside(snapshot, index, outside, scope))
    scanned = () if scope.fast else outside
    if scanned:
        _check_scannable(request.query, column, index)
    rows = sum(snapshot.fragments_by_id[fragment].rows for fragment in scanned)
    return TextPlan(
        snapshot=snapshot,
        column=column.path,
        query=request.query,
        k=request.k,
        index=index,
        covered=covered,
        covered_rows=sum(snapshot.fragments_by_id[fragment].rows for fragment in covered),
        scanned=FragmentGroup(fragments=scanned, rows=rows) if _may_match(scanned, scope) else None,
        notes=(*notes, *note_filter(snapshot, scope.prefilter)),
        sql=scope.prefilter.sql if isinstance(scope.prefilter, SqlPrefilter) else None,
        use_scalar_index=asks_scalar_indexes(snapshot, scope.prefilter),
        strict=scope.strict,
    )


def _choose_index(
    snapshot: TableSnapshot, column: Column, scope: Scope
) -> tuple[IndexState | None, tuple[SearchNote, ...]]:
    """Lance decides itself which text index of a column it asks, so two of them cannot be told apart."""
    if not scope.use_index:
        raise UnsupportedError(
            "A text search without its index would cut texts into other words", "Leave use_index= out."
        )
    indexes = choose_named(find_indexes(snapshot, column, text=True), scope, column)
    usable = [index for index in indexes if index.segments]
    skipped = tuple(
        _note(SearchReason.NO_PLUGIN, index.name, index.skipped[0].explanation)
        for index in indexes
        if index not in usable and index.skipped
    )
    if skipped:
        raise UnsupportedError(
            f"Text index {skipped[0].subject!r} cannot be read: {skipped[0].explanation}",
            "Build it again with create_index(..., replace=True), or use the version of Lance that wrote it: how it cuts texts into words is known to it alone.",
        )
    if len(find_indexes(snapshot, column, text=True)) > 1:
        names = ", ".join(index.name for index in find_indexes(snapshot, column, text=True))
        raise UnsupportedError(
            f"Column {column.path} has several text indexes: {names}", "Drop all but one of them."
        )
    if usable:
        return usable[0], (
            _note(SearchReason.USED, usable[0].name, f"inverted, {len(usable[0].segments)} segments"),
        )
    if scope.fast:
        raise InvalidRequestError(
            f"fast=True searches indexed rows only, and no text index is on {column.path}",
            "Build one with create_index, or leave fast= out.",
        )
    return None, (
        _note(
            SearchReason.NO_INDEX,
            column.path,
            "no text index: every text is read, and cut as Lance does by default",
        ),
    )


def _note_outside(
    snapshot: TableSnapshot, index: IndexState, outside: Sequence[int], scope: Scope
) -> SearchNote:
    rows = sum(snapshot.fragments_by_id[fragment].rows for fragment in outside)
    what = f"{len(outside)} fragments with {rows:,} rows outside the index"
    if scope.fast:
        return _note(SearchReason.LEFT_OUT, index.name, f"fast=True: {what} are not searched")
    return _note(SearchReason.NOT_COVERED, index.name, f"{what} are read whole, in one task")


def _check_scannable(query: TextQuery, column: Column, index: IndexState | None) -> None:
    """Lance 14 finds no similar word in rows outside an index: they would be missing without a sign."""
    fuzzy = any(isinstance(one, Match) and one.fuzziness for one in walk_query(query))
    if fuzzy:
        where = "an index" if index is None else f"index {index.name!r}"
        raise UnsupportedError(
            f"Column {column.path} has rows outside of {where}, in which Lance finds no similar words",
            "Index them first, or pass fast=True to leave them out, or fuzziness=0.",
        )


def _may_match(scanned: Sequence[int], scope: Scope) -> bool:
    if not isinstance(scope.prefilter, RowsPrefilter):
        return bool(scanned)
    return any(fragment in scope.prefilter.rows.fragments for fragment in scanned)


def _note(reason: SearchReason, subject: str, explanation: str) -> SearchNote:
    return SearchNote(reason=reason, subject=subject, explanation=explanation)
