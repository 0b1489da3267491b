"""Reads statements about indexes. A statement that is not about an index of a Lance table is none of ours: the answer is None.

    CREATE [OR REPLACE] INDEX [IF NOT EXISTS] name ON table USING kind (column, …) [WITH (parameter = value, …)]
    DROP INDEX [IF EXISTS] name ON table
    SHOW INDEXES ON table
    EXPLAIN INDEX SELECT … FROM table [WHERE condition]      or      EXPLAIN INDEX ON table [WHERE condition]
    EXPLAIN INDEX SELECT … FROM function(table, …)

A table is a place in backticks or quotes, alone or after ``lance.``. Names that are not quoted are those of Spark's catalog.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from lancewright.errors import InvalidRequestError
from lancewright.model.columns import quote_name
from lancewright.model.sql.reading import NoValueError, TokenReader
from lancewright.model.sql.tokens import TokenKind, cut_tokens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lancewright.model.sql.reading import Bound, SqlValue

FORMATS = ("LANCE", "LANCEWRIGHT")
# What cannot stand in the condition of an EXPLAIN: it explains how rows are found, not what becomes of them.
_OTHER_CLAUSES = (
    *("GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "UNION", "INTERSECT", "EXCEPT", "MINUS"),
    *("JOIN", "CLUSTER", "DISTRIBUTE", "SORT", "WINDOW", "QUALIFY", "LATERAL"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateIndex:
    """Build an index."""

    table: str
    name: str
    kind: str
    columns: tuple[str, ...]
    if_not_exists: bool = False
    replace: bool = False
    parameters: Mapping[str, SqlValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropIndex:
    """Take an index out of a table."""

    table: str
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowIndexes:
    """List the indexes of a table."""

    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainIndex:
    """Say how rows are found; the condition is in Lance's SQL."""

    table: str
    where: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainCall:
    """Say how the rows of a table function are found; ``call`` is its text."""

    call: str


Statement: TypeAlias = CreateIndex | DropIndex | ShowIndexes | ExplainIndex | ExplainCall


def read_statement(text: str, bound: Bound = None) -> Statement | None:
    """The statement, or None when it is for Spark. Raise when it is ours and wrong."""
    try:
        tokens = cut_tokens(text)
    except InvalidRequestError:
        return None  # Spark says what it thinks of it
    reader = TokenReader(text, tokens, bound=bound)
    if reader.take_word("CREATE"):
        return _read_create(reader)
    if reader.take_word("DROP"):
        return _read_drop(reader)
    if reader.take_word("SHOW"):
        return _read_show(reader)
    if reader.take_word("EXPLAIN") and reader.take_word("INDEX"):
        return _read_explain(text, reader)
    return None


def read_table(reader: TokenReader) -> str | None:
    """The place of a table, or None when a name of Spark's catalog stands there."""
    token = reader.token
    if token is not None and token.is_word(*FORMATS):
        start = reader.place
        reader.place += 1
        if reader.take_symbol(".") and reader.token is not None and reader.token.kind is TokenKind.QUOTED:
            return reader.name("a table")
        reader.place = start
        return None
    if token is None or token.kind not in {TokenKind.QUOTED, TokenKind.STRING} or not token.value:
        return None
    reader.place += 1
    if reader.token is not None and reader.token.is_symbol("."):
        return None
    return token.value


def _read_create(reader: TokenReader) -> CreateIndex | None:
    replace = reader.take_word("OR")
    if replace and not reader.take_word("REPLACE"):
        return None
    if not reader.take_word("INDEX"):
        return None
    if_not_exists = reader.take_word("IF")
    if if_not_exists:
        reader.need_word("NOT")
        reader.need_word("EXISTS")
    name = reader.name("the name of the index")
    reader.need_word("ON")
    reader.take_word("TABLE")
    table = read_table(reader)
    if table is None:
        return None
    reader.need_word("USING")
    kind = reader.name("a kind of index")
    columns = _read_columns(reader)
    parameters = _read_parameters(reader) if reader.take_word("WITH", "OPTIONS") else {}
    reader.need_end()
    return CreateIndex(
        table=table,
        name=name,
        kind=kind.lower(),
        columns=columns,
        if_not_exists=if_not_exists,
        replace=replace,
        parameters=parameters,
    )


def _read_columns(reader: TokenReader) -> tuple[str, ...]:
    reader.need_symbol("(")
    columns = [reader.path("a column")]
    while reader.take_symbol(","):
        columns.append(reader.path("a column"))
    reader.need_symbol(")")
    return tuple(".".join(quote_name(name) for name in names) for names in columns)


def _read_parameters(reader: TokenReader) -> dict[str, SqlValue]:
    reader.need_symbol("(")
    found: dict[str, SqlValue] = {}
    while True:
        name = reader.value() if _is_string(reader) else reader.name("a parameter")
        if name in found:
            raise InvalidRequestError(f"Parameter {name!r} is given twice", "Give it once.")
        reader.need_symbol("=")
        try:
            found[name] = reader.value()
        except NoValueError:
            raise reader.unexpected("a number, a text, TRUE, FALSE, NULL or array(…)") from None
        if reader.take_symbol(")"):
            return found
        reader.need_symbol(",")


def _is_string(reader: TokenReader) -> bool:
    return reader.token is not None and reader.token.kind is TokenKind.STRING


def _read_drop(reader: TokenReader) -> DropIndex | None:
    if not reader.take_word("INDEX"):
        return None
    if_exists = reader.take_word("IF")
    if if_exists:
        reader.need_word("EXISTS")
    name = reader.name("the name of the index")
    reader.need_word("ON")
    reader.take_word("TABLE")
    table = read_table(reader)
    if table is None:
        return None
    reader.need_end()
    return DropIndex(table=table, name=name, if_exists=if_exists)


def _read_show(reader: TokenReader) -> ShowIndexes | None:
    if not reader.take_word("INDEXES"):
        return None
    reader.need_word("ON", "FROM", "IN")
    table = _need_table(reader)
    reader.need_end()
    return ShowIndexes(table=table)


def _read_explain(text: str, reader: TokenReader) -> ExplainIndex | ExplainCall:
    if reader.take_word("SELECT"):
        while not reader.take_word("FROM"):
            if reader.token is None:
                raise reader.unexpected("FROM")
            reader.place += 1
        start = reader.token
        if start is not None and reader.calls_function():
            return ExplainCall(call=text[start.start :])
    else:
        reader.need_word("ON", "SELECT")
    table = _need_table(reader)
    if not reader.take_word("WHERE"):
        reader.need_end()
        return ExplainIndex(table=table, where=None)
    first = reader.token
    if first is None:
        raise reader.unexpected("a condition")
    end = len(text)
    while (token := reader.token) is not None:
        if token.is_word(*_OTHER_CLAUSES):
            raise InvalidRequestError(
                f"EXPLAIN INDEX explains a condition, and {token.value.upper()} follows it",
                "Leave out what follows the condition.",
            )
        if token.is_symbol(";"):
            end = token.start
            reader.need_end()
            break
        reader.place += 1
    return ExplainIndex(table=table, where=text[first.start : end].strip())


def _need_table(reader: TokenReader) -> str:
    table = read_table(reader)
    if table is None:
        raise reader.unexpected("the place of a Lance table, in backticks")
    return table
