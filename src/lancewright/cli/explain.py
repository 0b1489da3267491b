"""The command that says how rows are found: of a filter, a vector, a text, the last two together, or what a kind ranks by."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lancewright.cli.commands import (
    AsJson,
    Branch,
    Columns,
    StorageOptions,
    TableVersion,
    Uri,
    Where,
    names_or_none,
    open_table,
)
from lancewright.errors import InvalidRequestError

if TYPE_CHECKING:
    import lancewright.api as lw
    from lancewright.query.search.search import Search
    from lancewright.scans import Scan


def explain(
    uri: Uri,
    where: Where = None,
    columns: Columns = None,
    vector: Annotated[
        str | None, typer.Option("--vector", help="Explain a search for this vector, a JSON array.")
    ] = None,
    text: Annotated[str | None, typer.Option("--text", help="Explain a search for this text.")] = None,
    query: Annotated[
        str | None,
        typer.Option("--query", help="Explain what an index of any kind ranks by this, a JSON object."),
    ] = None,
    k: Annotated[int, typer.Option("--k", help="How many rows a search finds.")] = 10,
    vector_column: Annotated[
        str | None, typer.Option("--vector-column", help="The column of vectors, when there are several.")
    ] = None,
    text_column: Annotated[
        str | None, typer.Option("--text-column", help="The column of texts, when several have an index.")
    ] = None,
    analyze: Annotated[bool, typer.Option("--analyze", help="Run the query and say what it took.")] = False,
    branch: Branch = None,
    version: TableVersion = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Say which index answers what of a filter or a search, and why the others do not."""
    asked: dict[str, Any] = {  # Any: each argument has its own type
        "where": where,
        "columns": names_or_none(columns),
        "version": version,
    }
    ranked = {"vector": _vector(vector), "text": text}
    with open_table(uri, storage_option, branch, local=True, quiet=True) as table:
        found: Scan | Search
        if query is not None:
            found = table.search(**asked, **ranked, query=_query(query), k=k)
        elif vector is None and text is None:
            found = table.scan(**asked)
        else:
            found = _search(table, {**asked, **ranked, "k": k}, (vector_column, text_column))
        explanation = found.explain(analyze=analyze)
    typer.echo(explanation.to_json() if as_json else explanation.to_text())


def _search(
    table: lw.Table,
    asked: dict[str, Any],  # Any: each argument has its own type
    columns: tuple[str | None, str | None],
) -> Search:
    vector_column, text_column = columns
    if asked["vector"] is not None and asked["text"] is not None:
        return table.hybrid_search(**asked, vector_column=vector_column, text_column=text_column)
    return table.search(**asked, column=text_column if asked["vector"] is None else vector_column)


def _vector(text: str | None) -> Any:  # Any: whatever JSON holds; the search checks it
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        raise InvalidRequestError(
            f"--vector {text!r} is no JSON array", "Write it as [0.1, 0.2, 0.3]."
        ) from None


def _query(text: str) -> Any:  # Any: as above
    try:
        return json.loads(text)
    except ValueError:
        raise InvalidRequestError(
            f"--query {text!r} is no JSON object", """Write it as '{"near": [4.9, 52.37]}'."""
        ) from None
