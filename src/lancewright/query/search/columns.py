"""Answers which column a search is on and which columns it returns, and brings query vectors into the column's type. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lancewright.errors import InvalidRequestError, UnsupportedError
from lancewright.kinds.lance_native.column_types import is_multivector, is_text, storage_type, vector_type
from lancewright.kinds.lance_native.vector import default_metric
from lancewright.model.columns import find_column, find_outside_lists, is_repeated
from lancewright.query.search.request import MORE_METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from lancewright.model.columns import Column
    from lancewright.model.index import IndexState
    from lancewright.model.snapshot import TableSnapshot

TEXT_KIND = "inverted"
ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"
# What Lance's own scan adds; a column of the table cannot carry these names through a search.
_RANKS = ("_distance", "_score", "_relevance_score")
_ALWAYS_KNOWN = (*_RANKS, ROW_ID, ROW_ADDRESS)


def find_vector_column(snapshot: TableSnapshot, name: str | None) -> Column:
    """The column a vector search is on; without a name the only one there is."""
    if name is None:
        found = [column for column in snapshot.columns.values() if _is_vector(snapshot, column)]
        return _only(found, "vector", "column=")
    column = find_column(snapshot.columns, name)
    if is_multivector(column):
        raise UnsupportedError(
            f"Column {column.path} holds several vectors per row", "Search a column with one vector per row."
        )
    if not _is_vector(snapshot, column):
        raise InvalidRequestError(
            f"Column {column.path} is {column.type} and holds no vectors",
            "Search a fixed size list of float16, float32, float64 or uint8.",
        )
    return column


def find_text_column(snapshot: TableSnapshot, name: str | None) -> Column:
    """The column a text search is on; without a name the only one with a text index."""
    if name is None:
        paths = {index.columns[0] for index in snapshot.indexes if index.kind == TEXT_KIND and index.columns}
        return _only([find_column(snapshot.columns, path) for path in sorted(paths)], "text", "column=")
    column = find_column(snapshot.columns, name)
    type_ = storage_type(column.type)
    of_texts = (pa.types.is_list(type_) or pa.types.is_large_list(type_)) and is_text(type_.value_type)
    indexed = any(index.kind == TEXT_KIND and index.columns == (column.path,) for index in snapshot.indexes)
    if not (indexed or is_text(type_) or of_texts):
        raise InvalidRequestError(
            f"Column {column.path} is {column.type} and holds no texts", "Search a column of texts."
        )
    return column


def find_indexes(snapshot: TableSnapshot, column: Column, *, text: bool) -> tuple[IndexState, ...]:
    """Every text index, or every vector index, on a column."""
    return tuple(
        index
        for index in snapshot.indexes
        if index.columns == (column.path,)
        and (index.kind == TEXT_KIND if text else is_vector_kind(index.kind))
    )


def is_vector_kind(kind: str) -> bool:
    """True for every kind that finds nearest vectors."""
    return kind == "vector" or kind.startswith("ivf_")


def choose_metric(column: Column, asked: str | None) -> str:
    """The metric asked for, if it is defined for the column, or the column's own."""
    default = default_metric(column)
    if asked in MORE_METRICS:
        raise InvalidRequestError(
            f"No index on {column.path} ranks by {asked}, and Lance does not",
            f"Build one with create_index({column.path!r}, kind='hnsw', metric={asked!r}).",
        )
    if asked is not None and asked != default and "hamming" in {asked, default}:
        raise InvalidRequestError(
            f"metric={asked!r} is not defined for {column.path}, which is {column.type}",
            f"Pass metric={default!r}, or leave it out.",
        )
    return asked or default


def fit_vectors(column: Column, vectors: NDArray[Any]) -> NDArray[Any]:  # Any: of the column's value type
    """The query vectors as wide and of the type as the column's; raise when they are not of its width or range."""
    type_ = vector_type(column)
    assert type_ is not None, "find_vector_column has looked"  # noqa: S101 - a promise of the caller
    if vectors.shape[1] != type_.list_size:
        raise InvalidRequestError(
            f"The query vector has {vectors.shape[1]} dimensions, column {column.path} has {type_.list_size}",
            "Pass a vector made by the model that made the column's.",
        )
    target = np.dtype(type_.value_type.to_pandas_dtype())
    if target.kind == "u" and not (
        np.equal(np.mod(vectors, 1), 0).all() and vectors.min() >= 0 and vectors.max() <= 255
    ):
        raise InvalidRequestError(
            f"Column {column.path} holds bytes and the query vector other numbers",
            "Pass whole numbers from 0 to 255.",
        )
    with np.errstate(over="ignore"):
        fitted = np.ascontiguousarray(vectors.astype(target))
    if target.kind == "f" and not np.isfinite(fitted).all():
        raise InvalidRequestError(
            f"The query vector does not fit into the {type_.value_type} of column {column.path}",
            "Scale it down.",
        )
    return fitted


def find_outputs(snapshot: TableSnapshot, names: tuple[str, ...] | None) -> tuple[str, ...]:
    """The columns to return under the names asked for; all of the table's when none were named."""
    if names is None:
        return tuple(name for name in snapshot.schema.names if name not in _ALWAYS_KNOWN)
    for name in names:
        if name in _ALWAYS_KNOWN:
            continue
        find_outside_lists(snapshot.columns, name)
    return names


def read_outputs(snapshot: TableSnapshot, names: tuple[str, ...]) -> tuple[Column, ...]:
    """Those of the columns to return that have to be read from the table."""
    return tuple(find_column(snapshot.columns, name) for name in names if name not in _ALWAYS_KNOWN)


def _is_vector(snapshot: TableSnapshot, column: Column) -> bool:
    return (
        vector_type(column) is not None
        and not is_multivector(column)
        and not is_repeated(snapshot.columns, column)
    )


def _only(columns: Iterable[Column], what: str, option: str) -> Column:
    found = list(columns)
    if len(found) == 1:
        return found[0]
    if not found:
        indexed = "an index of texts" if what == "text" else "vectors"
        raise InvalidRequestError(
            f"No column of the table has {indexed}", f"Name the column to search with {option}."
        )
    names = ", ".join(column.path for column in found)
    raise InvalidRequestError(f"Several columns may be searched: {names}", f"Name one with {option}.")
