"""The table functions: what each takes, and which verb answers it. The same for a task of Spark and for ``lw.sql``."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from lancewright.api import open as open_table
from lancewright.errors import InvalidRequestError
from lancewright.query.search.search import Search
from lancewright.report.rows import index_rows
from lancewright.scans import Scan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from lancewright.api import Table
    from lancewright.query.explain import Explanation
    from lancewright.query.search.explanation import SearchExplanation


Explained: TypeAlias = "Explanation | SearchExplanation"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall:
    """One call. ``storage_options`` are the session's, and never a part of the query's text.

    As text it names the function alone: a place may carry a password.
    """

    function: str
    positional: tuple[Any, ...] = field(default=(), repr=False)  # Any: constants of SQL
    named: Mapping[str, Any] = field(default_factory=dict, repr=False)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)


class Answer(Protocol):
    """Rows that are not there yet."""

    def schema(self) -> pa.Schema:
        """Their schema."""
        ...

    def to_arrow(self) -> pa.Table:
        """The rows, in this process."""
        ...

    def to_spark(self) -> Any:  # Any: a classic or a Connect frame
        """The rows, as a frame."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRows:
    """Rows that are there already: few, and about the table rather than of it."""

    rows: pa.Table

    def schema(self) -> pa.Schema:
        """Their schema."""
        return self.rows.schema

    def to_arrow(self) -> pa.Table:
        """The rows."""
        return self.rows

    def to_spark(self) -> Any:  # Any: see Answer
        """Nobody needs it: who has a session makes the frame."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFunction:
    """What a function takes, after the table, and what answers it."""

    needed: tuple[str, ...]
    options: tuple[str, ...]
    answer: Callable[[Table, dict[str, Any]], Any]  # Any: constants of SQL; an Answer

    @property
    def names(self) -> tuple[str, ...]:
        """All arguments, in the order in which they may be given without names."""
        return ("table", *self.needed, *self.options, "branch")


def list_functions() -> tuple[str, ...]:
    """The names of all table functions."""
    return tuple(_FUNCTIONS)


def answer_call(call: FunctionCall, session: Any = None) -> Answer:  # Any: a classic or a Connect session
    """What a call asks for, checked and not run. With a session, work runs on its executors; without, in this process."""
    function = _FUNCTIONS[call.function]
    arguments = _bind(call, function)
    table = open_table(
        arguments.pop("table"),
        spark=session,
        branch=arguments.pop("branch", None),
        storage_options=dict(call.storage_options),
        progress=False,
    )
    found: Answer = function.answer(table, arguments)
    return found


def pin_call(call: FunctionCall) -> FunctionCall:
    """The call at the version the table has now, so that whoever answers it later sees the same rows."""
    arguments = _bind(call, _FUNCTIONS[call.function])
    if "version" not in arguments and "tag" not in arguments:
        table = open_table(
            arguments["table"],
            branch=arguments.get("branch"),
            storage_options=dict(call.storage_options),
            progress=False,
        )
        arguments["version"] = table.snapshot().version
    return replace(call, positional=(), named=arguments)


def _bind(call: FunctionCall, function: TableFunction) -> dict[str, Any]:
    """Arguments by their names; one that is NULL was not given."""
    takes = f"It takes: {', '.join(function.names)}."
    if len(call.positional) > len(function.names):
        raise InvalidRequestError(f"{call.function} is given {len(call.positional)} arguments", takes)
    arguments = dict(zip(function.names, call.positional, strict=False))
    for name, value in call.named.items():
        if name not in function.names:
            raise InvalidRequestError(f"{call.function} takes no {name!r}", takes)
        if name in arguments:
            raise InvalidRequestError(f"{call.function} is given {name} twice", takes)
        arguments[name] = value
    given = {name: _plain(value) for name, value in arguments.items() if value is not None}
    for name in ("table", *function.needed):
        if name not in given:
            raise InvalidRequestError(f"{call.function} is not given {name!r}", takes)
    return given


def _plain(value: Any) -> Any:  # Any: a constant of SQL, which writes fractions as decimals
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return float(value) if isinstance(value, Decimal) else value


def _indexes(table: Table, arguments: dict[str, Any]) -> Answer:
    listed = table.indexes(arguments.get("version"))
    return KnownRows(rows=index_rows([(one.state, one.coverage) for one in listed]))


def explain_call(call: FunctionCall, *, analyze: bool = False, session: Any = None) -> Explained:
    """How the rows of a scan or of a search are found. Any: a classic or a Connect session."""
    answer = answer_call(call, session)
    if not isinstance(answer, Scan | Search):
        raise InvalidRequestError(
            f"{call.function} finds no rows through an index", "Explain a scan or a search."
        )
    return answer.explain(analyze=analyze)


def _explain(table: Table, arguments: dict[str, Any]) -> Answer:
    analyze = arguments.pop("analyze", False) is True
    asked = tuple(name for name in ("vector", "text", "query") if name in arguments)
    if asked not in _EXPLAINED:
        raise InvalidRequestError(
            "lance_explain is given query beside vector or text", "Give it one of them."
        )
    name = _EXPLAINED[asked]
    if name == "lance_scan" and "where" not in arguments:
        raise InvalidRequestError(
            "lance_explain is given nothing to explain", "Give it where, vector, text or query."
        )
    explained = _FUNCTIONS[name]
    for argument in arguments:
        if argument not in explained.names:
            raise InvalidRequestError(
                f"lance_explain takes no {argument!r} for what {name} does",
                f"It takes: {', '.join(explained.names)}.",
            )
    answer = explained.answer(table, arguments)
    told: Explained = answer.explain(analyze=analyze)
    return KnownRows(rows=told.to_arrow())


def _query(text: object) -> dict[str, Any]:  # Any: the words of a kind
    """What an index ranks by, as JSON."""
    try:
        query = json.loads(str(text))
    except ValueError as error:
        raise InvalidRequestError(f"query {text!r} is no JSON: {error}", _QUERY_EXAMPLE) from error
    if not isinstance(query, dict):
        raise InvalidRequestError(f"query {text!r} is no JSON object", _QUERY_EXAMPLE)
    return query


_QUERY_EXAMPLE = """Write it as '{"near": [4.9, 52.37]}'."""
# Which of vector, text and query are given: the function whose rows are explained.
_EXPLAINED = {
    (): "lance_scan",
    ("vector",): "lance_vector_search",
    ("text",): "lance_text_search",
    ("vector", "text"): "lance_hybrid_search",
    ("query",): "lance_index_search",
}
_FOUND = ("columns", "where")
_READ = ("fast", "strict", "version")
_FUNCTIONS = {
    "lance_scan": TableFunction(
        needed=(),
        options=("where", "columns", "limit", "version", "tag", "use_indexes", "strict"),
        answer=lambda table, arguments: table.scan(**arguments),
    ),
    "lance_vector_search": TableFunction(
        needed=("vector",),
        options=(
            *("k", "column", *_FOUND, "index", "metric", "nprobes", "refine_factor", "ef"),
            *("lower_bound", "upper_bound", "use_index", *_READ),
        ),
        answer=lambda table, arguments: table.search(**arguments),
    ),
    "lance_text_search": TableFunction(
        needed=("text",),
        options=("k", "column", *_FOUND, "index", "operator", "fuzziness", "phrase", *_READ),
        answer=lambda table, arguments: table.search(**arguments),
    ),
    "lance_hybrid_search": TableFunction(
        needed=("vector", "text"),
        options=(
            *("k", "vector_column", "text_column", *_FOUND, "candidates", "rank_constant"),
            *("metric", "nprobes", "refine_factor", *_READ),
        ),
        answer=lambda table, arguments: table.hybrid_search(**arguments),
    ),
    "lance_index_search": TableFunction(
        needed=("query",),
        options=("k", "column", *_FOUND, "index", "use_index", *_READ),
        answer=lambda table, arguments: table.search(query=_query(arguments.pop("query")), **arguments),
    ),
    "lance_indexes": TableFunction(needed=(), options=("version",), answer=_indexes),
}
_OF_SEARCHES = dict.fromkeys(
    name
    for function in ("lance_vector_search", "lance_text_search", "lance_hybrid_search", "lance_index_search")
    for name in (*_FUNCTIONS[function].needed, *_FUNCTIONS[function].options)
)
_FUNCTIONS["lance_explain"] = TableFunction(
    needed=(),
    options=tuple(dict.fromkeys(("where", "columns", "analyze", "version", "tag", *_OF_SEARCHES))),
    answer=_explain,
)
