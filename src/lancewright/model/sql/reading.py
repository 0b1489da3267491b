"""Reads tokens one after the other: words, names, values. What stands there instead is told with its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from lancewright.errors import InvalidRequestError
from lancewright.model.sql.tokens import Token, TokenKind

if TYPE_CHECKING:
    from collections.abc import Sequence

# Any: a value of SQL is a number, a text, a truth, NULL or a list of values; one that was bound is whatever the caller has.
SqlValue: TypeAlias = Any
Bound: TypeAlias = "Mapping[str, SqlValue] | Sequence[SqlValue] | None"


class NoValueError(Exception):
    """What stands there is an expression, and only Spark can evaluate it."""


class TokenReader:
    """Reads the tokens of one text from a place on."""

    def __init__(self, text: str, tokens: Sequence[Token], place: int = 0, *, bound: Bound = None) -> None:
        """Keep the text and its tokens; ``bound`` are the values of markers."""
        self._text = text
        self._tokens = tokens
        self._bound = bound
        self.place = place

    @property
    def token(self) -> Token | None:
        """The next token."""
        return self._tokens[self.place] if self.place < len(self._tokens) else None

    def calls_function(self) -> bool:
        """True when a word and an opening bracket are next."""
        following = self._tokens[self.place + 1] if self.place + 1 < len(self._tokens) else None
        return (
            self.token is not None
            and self.token.kind is TokenKind.WORD
            and following is not None
            and following.is_symbol("(")
        )

    def take_word(self, *words: str) -> bool:
        """Step over a word if it is one of these."""
        found = self.token is not None and self.token.is_word(*words)
        self.place += found
        return found

    def take_symbol(self, symbol: str) -> bool:
        """Step over a symbol if it is this one."""
        found = self.token is not None and self.token.is_symbol(symbol)
        self.place += found
        return found

    def need_word(self, *words: str) -> None:
        """Step over a word, which has to be one of these."""
        if not self.take_word(*words):
            raise self.unexpected(" or ".join(words))

    def need_symbol(self, symbol: str) -> None:
        """Step over a symbol, which has to be this one."""
        if not self.take_symbol(symbol):
            raise self.unexpected(repr(symbol))

    def need_end(self) -> None:
        """Nothing may follow but a semicolon."""
        self.take_symbol(";")
        if self.token is not None:
            raise self.unexpected("the end of the statement")

    def name(self, what: str) -> str:
        """A name, in backticks or not."""
        token = self.token
        if token is None or token.kind not in {TokenKind.WORD, TokenKind.QUOTED} or not token.value:
            raise self.unexpected(what)
        self.place += 1
        return token.value

    def path(self, what: str) -> tuple[str, ...]:
        """Names joined by dots."""
        names = [self.name(what)]
        while self.take_symbol("."):
            names.append(self.name(what))
        return tuple(names)

    def value(self) -> SqlValue:
        """A constant, an array of constants, or the value of a marker; NoValueError where none stands."""
        token = self.token
        if token is None:
            raise NoValueError
        if token.kind is TokenKind.MARKER:
            return self._marker(token)
        if token.kind is TokenKind.STRING:
            return self._strings()
        if token.is_word("TRUE", "FALSE", "NULL"):
            self.place += 1
            return {"TRUE": True, "FALSE": False, "NULL": None}[token.value.upper()]
        if token.is_word("ARRAY"):
            return self._array()
        return self._number()

    def unexpected(self, wanted: str) -> InvalidRequestError:
        """An error that says what was expected, and what stands there."""
        token = self.token
        if token is None:
            return InvalidRequestError(f"The statement ends where {wanted} should stand", "Complete it.")
        line = self._text.count("\n", 0, token.start) + 1
        column = token.start - self._text.rfind("\n", 0, token.start)
        return InvalidRequestError(
            f"{self._text[token.start : token.end]!r} in line {line}, column {column} stands where {wanted} should",
            "See the guide on Spark frames and SQL for what a statement about indexes looks like.",
        )

    def _strings(self) -> str:
        """Strings that follow each other are one."""
        parts = []
        while (token := self.token) is not None and token.kind is TokenKind.STRING:
            parts.append(token.value)
            self.place += 1
        return "".join(parts)

    def _array(self) -> list[SqlValue]:
        self.place += 1
        if not self.take_symbol("("):
            raise NoValueError
        values: list[SqlValue] = []
        while not self.take_symbol(")"):
            if values and not self.take_symbol(","):
                raise NoValueError
            values.append(self.value())
        return values

    def _number(self) -> int | float:
        sign = -1 if self.take_symbol("-") else 1
        token = self.token
        if token is None or token.kind is not TokenKind.NUMBER:
            raise NoValueError
        self.place += 1
        digits = token.value.rstrip("lLsSyYfFdDbB")
        if digits.isdecimal() and digits == token.value.rstrip("lLsSyY"):
            return sign * int(digits)
        return sign * float(digits)

    def _marker(self, token: Token) -> SqlValue:
        self.place += 1
        if token.value == "?":
            number = (
                sum(one.value == "?" and one.kind is TokenKind.MARKER for one in self._tokens[: self.place])
                - 1
            )
            if isinstance(self._bound, list | tuple) and number < len(self._bound):
                return self._bound[number]
        elif isinstance(self._bound, Mapping) and token.value[1:] in self._bound:
            return self._bound[token.value[1:]]
        raise InvalidRequestError(f"The marker {token.value} has no value", "Pass it in args=.")
