"""Decides whether a search for vectors goes through an index of a kind that is not Lance's, and puts it into that kind's words. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lancewright.errors import InvalidRequestError, UnsupportedError
from lancewright.query.kind_index import is_kind_index
from lancewright.query.search.columns import find_indexes, find_vector_column, fit_vectors
from lancewright.query.search.kind_choice import choose_ranker
from lancewright.query.search.kind_request import KindRequest, KindScope

if TYPE_CHECKING:
    from lancewright.model.columns import Column
    from lancewright.model.index import IndexState
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.query.search.request import VectorRequest, VectorTuning

VECTOR = "vector"


def read_as_kind_request(snapshot: TableSnapshot, request: VectorRequest) -> KindRequest | None:
    """The request for a kind when its index is named, or the only sort of index on the column; else None."""
    scope, tuning = request.scope, request.tuning
    named = None if scope.index is None else snapshot.index(scope.index)
    if named is not None and is_kind_index(named):
        column = find_vector_column(snapshot, _column_name(scope.column, named))
        _refuse_lances_options(tuning)
    elif scope.index is not None or not scope.use_index or _lances_options(tuning):
        return None
    else:
        column = find_vector_column(snapshot, scope.column)
        if find_indexes(snapshot, column, text=False) or not _has_kind_index(snapshot, column):
            return None
    asked = _request(column, request)
    if named is None and not scope.strict and not _is_ranked(snapshot, asked):
        return None  # Lance's exact search needs no index
    return asked


def _request(column: Column, request: VectorRequest) -> KindRequest:
    scope, tuning = request.scope, request.tuning
    options: dict[str, Any] = {}
    if tuning.metric is not None:
        options["metric"] = tuning.metric
    if tuning.ef is not None:
        options["ef"] = tuning.ef
    vectors = fit_vectors(column, request.vectors)
    return KindRequest(
        queries=tuple({VECTOR: vector.tolist(), **options} for vector in vectors),
        k=tuning.k,
        scope=KindScope(
            columns=(column.path,),
            index=scope.index,
            prefilter=scope.prefilter,
            fast=scope.fast,
            strict=scope.strict,
            filter=scope.filter,
        ),
        batch=request.batch,
    )


def _is_ranked(snapshot: TableSnapshot, request: KindRequest) -> bool:
    """True unless no index can; raises when the vector itself is wrong."""
    try:
        choose_ranker(snapshot, request)
    except UnsupportedError:
        return False
    return True


def _has_kind_index(snapshot: TableSnapshot, column: Column) -> bool:
    return any(is_kind_index(index) and index.columns == (column.path,) for index in snapshot.indexes)


def _column_name(asked: str | None, index: IndexState) -> str | None:
    return asked if asked is not None or len(index.columns) != 1 else index.columns[0]


def _lances_options(tuning: VectorTuning) -> list[str]:
    given = {
        "nprobes": tuning.nprobes,
        "refine_factor": tuning.refine_factor,
        "lower_bound": tuning.lower_bound,
        "upper_bound": tuning.upper_bound,
    }
    return [name for name, value in given.items() if value is not None]


def _refuse_lances_options(tuning: VectorTuning) -> None:
    given = _lances_options(tuning)
    if given:
        raise InvalidRequestError(
            f"{', '.join(given)} belong to an index of Lance's", "Leave them out, or name another index."
        )
