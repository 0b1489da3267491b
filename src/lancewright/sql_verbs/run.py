"""Runs SQL: statements about indexes here, tables and table functions on executors, everything else as Spark does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewright.api import open as open_table
from lancewright.errors import InvalidRequestError, NotFoundError
from lancewright.model.request import IndexRequest
from lancewright.model.sql.statements import (
    CreateIndex,
    DropIndex,
    ExplainCall,
    ExplainIndex,
    ShowIndexes,
    Statement,
    read_statement,
)
from lancewright.model.sql.table_uses import FoundUses, TableUse, find_uses, replace_uses
from lancewright.report.rows import created_rows, dropped_rows, index_rows
from lancewright.spark.frames import SparkFrames
from lancewright.sql_verbs.functions import FunctionCall, KnownRows, answer_call, explain_call, list_functions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lancewright.api import Table

# Parameters of every kind, which CREATE INDEX takes among the kind's own.
_REQUEST_PARAMETERS = ("segments", "train")


def sql(
    spark: Any,  # Any: a classic or a Connect session, which share no public base
    query: str,
    args: Mapping[str, Any] | Sequence[Any] | None = None,  # Any: values of SQL
    *,
    storage_options: Mapping[str, str] | None = None,
    **frames: Any,
) -> Any:  # Any: a frame of the session
    """Run a statement about indexes, or a query that may read ``lance.`place` `` and call the table functions.

    ``args`` are the values of markers, named or not, and ``frames`` those in braces, as ``spark.sql`` takes them.
    """
    if not isinstance(query, str):
        raise InvalidRequestError(f"The statement is a {type(query).__name__}", "Pass SQL as text.")
    options = dict(storage_options or {})
    statement = read_statement(query, args)
    if isinstance(statement, ExplainCall):
        return SparkFrames(spark).make_frame(explain_text(statement, args, options))
    if statement is not None:
        table = open_table(statement.table, spark=spark, storage_options=options, progress=False)
        return SparkFrames(spark).make_frame(run_statement(table, statement))
    found = find_uses(query, list_functions(), args)
    if not found.uses:
        return spark.sql(query, args=_as_given(args), **frames)
    return _run_query(spark, query, args, found, options, frames)


def explain_text(
    statement: ExplainCall,
    args: Mapping[str, Any] | Sequence[Any] | None,  # Any: values of SQL
    storage_options: Mapping[str, str],
) -> pa.Table:
    """How the rows of the function in a statement are found, as text."""
    functions = list_functions()
    uses = find_uses(statement.call, functions, args).uses
    end = uses[0].end if uses and uses[0].start == 0 else 0
    if not uses or not end or statement.call[end:].strip(" \t\r\n;"):
        raise InvalidRequestError(
            "EXPLAIN INDEX explains one table function with constants, and nothing that follows it",
            f"Call one of {', '.join(functions)}; a condition is its argument where =>.",
        )
    call = FunctionCall(
        function=uses[0].function or "lance_scan",
        positional=uses[0].positional,
        named=uses[0].named,
        storage_options=storage_options,
    )
    return pa.table({"plan": [explain_call(call).to_text()]})


def run_statement(table: Table, statement: Statement) -> pa.Table:
    """Do what a statement about indexes says, and tell it in rows."""
    match statement:
        case CreateIndex():
            receipt = table.create_indexes([_request(statement)])
            return created_rows(receipt)
        case DropIndex(name=name, if_exists=if_exists):
            try:
                return dropped_rows(name, table.drop_index(name))
            except NotFoundError:
                if not if_exists:
                    raise
                return dropped_rows(name, None)
        case ShowIndexes():
            return index_rows([(one.state, one.coverage) for one in table.indexes()])
        case ExplainIndex(where=where):
            return pa.table({"plan": [table.scan(where).explain().to_text()]})
        case ExplainCall():
            return explain_text(statement, None, {})


def _request(statement: CreateIndex) -> IndexRequest:
    general = {
        name: statement.parameters[name] for name in _REQUEST_PARAMETERS if name in statement.parameters
    }
    own = {name: value for name, value in statement.parameters.items() if name not in general}
    return IndexRequest(
        column=statement.columns if len(statement.columns) > 1 else statement.columns[0],
        kind=statement.kind,
        name=statement.name,
        replace=statement.replace,
        if_not_exists=statement.if_not_exists,
        parameters=own,
        **general,
    )


def _run_query(
    spark: Any,  # Any: as above, and below
    query: str,
    args: Mapping[str, Any] | Sequence[Any] | None,
    found: FoundUses,
    options: Mapping[str, str],
    frames: Mapping[str, Any],
) -> Any:
    names = [f"lancewright_{number}" for number in range(len(found.uses))]
    made = {name: _frame(spark, use, options) for name, use in zip(names, found.uses, strict=True)}
    text = replace_uses(query, found.uses, names, has_braces=bool(frames))
    return spark.sql(text, args=_left(args, found.markers), **frames, **made)


def _frame(spark: Any, use: TableUse, options: Mapping[str, str]) -> Any:
    call = FunctionCall(
        function=use.function or "lance_scan",
        positional=use.positional,
        named=use.named,
        storage_options=options,
    )
    answer = answer_call(call, spark)
    return SparkFrames(spark).make_frame(answer.rows) if isinstance(answer, KnownRows) else answer.to_spark()


def _left(args: Any, used: frozenset[int]) -> Any:
    """The values of the markers that are still in the text."""
    if not used or args is None or hasattr(args, "items"):
        return _as_given(args)
    return [value for number, value in enumerate(args) if number not in used]


def _as_given(args: Any) -> Any:
    """Spark takes a dict or a list and nothing like them."""
    if args is None:
        return None
    return dict(args) if hasattr(args, "items") else list(args)
