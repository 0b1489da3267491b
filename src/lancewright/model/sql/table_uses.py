"""Finds the Lance tables and table functions that a query reads, each with its place in the text.

A call whose arguments are not all constants is left where it is: only Spark can evaluate them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lancewright.errors import InvalidRequestError
from lancewright.model.sql.reading import NoValueError, TokenReader
from lancewright.model.sql.statements import FORMATS
from lancewright.model.sql.tokens import Token, TokenKind, cut_tokens

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lancewright.model.sql.reading import Bound, SqlValue

# A view keeps the text of its query: what stands in it must mean the same tomorrow.
_KEEPS_ITS_TEXT = ("VIEW", "FUNCTION")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUse:
    """A table that a query reads: by its place (``function`` is None), or through a function of ours."""

    start: int
    end: int
    function: str | None = None
    positional: tuple[SqlValue, ...] = ()
    named: Mapping[str, SqlValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundUses:
    """What a query reads, and which of its unnamed markers, counted from 0, were arguments of it."""

    uses: tuple[TableUse, ...]
    markers: frozenset[int] = frozenset()


def find_uses(text: str, functions: Collection[str], bound: Bound = None) -> FoundUses:
    """Every use of a Lance table in a query, in the order of the text."""
    try:
        tokens = cut_tokens(text)
    except InvalidRequestError:
        return FoundUses(uses=())
    if _keeps_its_text(tokens):
        return FoundUses(uses=())
    uses = []
    place = 0
    while place < len(tokens):
        found = _read_call(text, tokens, place, functions, bound) or _read_place(tokens, place)
        if found is None:
            place += 1
        else:
            uses.append(found[0])
            place = found[1]
    return FoundUses(uses=tuple(uses), markers=_markers_in(tokens, uses))


def replace_uses(text: str, uses: Sequence[TableUse], names: Sequence[str], *, has_braces: bool) -> str:
    """The text with a name in braces in the place of each use, as Spark takes frames.

    Other braces are doubled, which stands for one, unless the text ``has_braces`` of this meaning already.
    """
    parts: list[str] = []
    position = 0
    for use, name in zip(uses, names, strict=True):
        parts += (_plain_text(text[position : use.start], has_braces=has_braces), f"{{{name}}}")
        position = use.end
    return "".join((*parts, _plain_text(text[position:], has_braces=has_braces)))


def _plain_text(text: str, *, has_braces: bool) -> str:
    return text if has_braces else text.replace("{", "{{").replace("}", "}}")


def _keeps_its_text(tokens: Sequence[Token]) -> bool:
    if not tokens or not tokens[0].is_word("CREATE", "ALTER"):
        return False
    for token in tokens:
        if token.is_word("AS", "SELECT"):
            return False
        if token.is_word(*_KEEPS_ITS_TEXT):
            return True
    return False


def _read_call(
    text: str, tokens: Sequence[Token], place: int, functions: Collection[str], bound: Bound
) -> tuple[TableUse, int] | None:
    token = tokens[place]
    name = token.value.lower()
    if token.kind is not TokenKind.WORD or name not in functions or not _follows(tokens, place, "("):
        return None
    before = tokens[place - 1] if place else None
    if before is not None and (before.is_symbol(".") or before.is_word("LATERAL", "FUNCTION")):
        return None
    reader = TokenReader(text, tokens, place + 2, bound=bound)
    try:
        positional, named = _read_arguments(reader, name)
    except NoValueError:
        return None
    end = tokens[reader.place - 1].end
    use = TableUse(start=token.start, end=end, function=name, positional=positional, named=named)
    return use, reader.place


def _read_arguments(reader: TokenReader, function: str) -> tuple[tuple[SqlValue, ...], dict[str, SqlValue]]:
    positional: list[SqlValue] = []
    named: dict[str, SqlValue] = {}
    while not reader.take_symbol(")"):
        if positional or named:
            _need(reader, ",")
        token = reader.token
        if token is not None and token.kind is TokenKind.WORD and _is_named(reader):
            name = token.value.lower()
            if name in named:
                raise InvalidRequestError(f"{function} is given {name} twice", "Give it once.")
            reader.place += 2
            named[name] = reader.value()
        elif named:
            raise NoValueError
        else:
            positional.append(reader.value())
        if reader.token is None or not (reader.token.is_symbol(",") or reader.token.is_symbol(")")):
            raise NoValueError
    return tuple(positional), named


def _need(reader: TokenReader, symbol: str) -> None:
    if not reader.take_symbol(symbol):
        raise NoValueError


def _is_named(reader: TokenReader) -> bool:
    start = reader.place
    reader.place += 1
    found = reader.token is not None and reader.token.is_symbol("=>")
    reader.place = start
    return found


def _read_place(tokens: Sequence[Token], place: int) -> tuple[TableUse, int] | None:
    """``lance.`place` `` where a table may stand."""
    token = tokens[place]
    if not token.is_word(*FORMATS) or not _follows(tokens, place, ".") or place == 0:
        return None
    quoted = tokens[place + 2] if place + 2 < len(tokens) else None
    if quoted is None or quoted.kind is not TokenKind.QUOTED or _follows(tokens, place + 2, "."):
        return None
    before = tokens[place - 1]
    # After a comma it may be a column of a table that somebody calls "lance"; no column has a slash in its name.
    if not (before.is_word("FROM", "JOIN", "TABLE") or (before.is_symbol(",") and "/" in quoted.value)):
        return None
    return TableUse(start=token.start, end=quoted.end, positional=(quoted.value,)), place + 3


def _follows(tokens: Sequence[Token], place: int, symbol: str) -> bool:
    return place + 1 < len(tokens) and tokens[place + 1].is_symbol(symbol)


def _markers_in(tokens: Sequence[Token], uses: Sequence[TableUse]) -> frozenset[int]:
    markers = [token for token in tokens if token.kind is TokenKind.MARKER and token.value == "?"]
    return frozenset(
        number
        for number, token in enumerate(markers)
        if any(use.start <= token.start < use.end for use in uses)
    )
