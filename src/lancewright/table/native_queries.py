"""Asks Lance's own scanner, with its indexes or without: what the demo compares and what checks rely on.

Plans nothing and distributes nothing; one process, one dataset handle per query, so every answer starts cold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lancewright.table.lance_compat import translating
from lancewright.table.opening import open_dataset

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeQuery:
    """One query in Lance's terms: a filter, a text search or a nearest-neighbour search."""

    columns: tuple[str, ...]
    predicate: str | None = None
    text: str | None = None
    text_column: str | None = None
    vector: tuple[float, ...] | None = None
    vector_column: str | None = None
    limit: int | None = None
    refine_factor: int | None = None


def run_query(table: TableRef, query: NativeQuery, *, use_index: bool) -> pa.Table:
    """Run the query and return its rows."""
    with translating(table, "query"):
        return _scanner(table, query, use_index=use_index).to_table()


def explain_query(table: TableRef, query: NativeQuery) -> str:
    """Lance's plan of the query."""
    with translating(table, "query"):
        return str(_scanner(table, query, use_index=True).explain_plan())


def _scanner(
    table: TableRef, query: NativeQuery, *, use_index: bool
) -> Any:  # Any: pylance's scanner is untyped
    options: dict[str, Any] = {
        "columns": list(query.columns),
        "use_scalar_index": use_index,
        "disable_scoring_autoprojection": True,
    }
    if query.predicate is not None:
        options["filter"] = query.predicate
    if query.limit is not None:
        options["limit"] = query.limit
    if query.text is not None:
        columns = [query.text_column] if query.text_column else None
        options["full_text_query"] = {"query": query.text, "columns": columns}
    if query.vector is not None:
        options["nearest"] = _nearest(query, query.vector, use_index=use_index)
    return open_dataset(table).scanner(**options)


def _nearest(query: NativeQuery, vector: Sequence[float], *, use_index: bool) -> dict[str, Any]:
    import numpy as np

    return {
        "column": query.vector_column,
        "q": np.array(vector, dtype="f4"),
        "k": query.limit or 10,
        "use_index": use_index,
        "refine_factor": query.refine_factor,
    }
