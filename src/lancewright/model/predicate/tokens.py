"""Cuts a filter into tokens, exactly as Lance's own reader does, and refuses what that reader would silently misread.

Lance ends reading at the first thing it does not expect and drops the rest: ``x = 1)``, ``x = 1; DELETE``, ``x = 1_000``
are all ``x = 1`` there. Here each of them is an error. No general SQL tokenizer is used, because a quote or an escape
read otherwise than Lance reads it would change which rows are returned.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from lancewright.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator


class TokenKind(enum.Enum):
    """What a token is."""

    WORD = enum.auto()
    QUOTED_NAME = enum.auto()
    TEXT = enum.auto()
    DOUBLE_QUOTED = enum.auto()
    HEX = enum.auto()
    NUMBER = enum.auto()
    SIGN = enum.auto()
    END = enum.auto()


@dataclass(frozen=True, slots=True)
class Token:
    """One token: what it stands for, and where it starts."""

    kind: TokenKind
    text: str
    position: int

    def is_word(self, *words: str) -> bool:
        """True for one of these unquoted words, in any case."""
        return self.kind is TokenKind.WORD and self.text.upper() in words

    def is_sign(self, *signs: str) -> bool:
        """True for one of these signs."""
        return self.kind is TokenKind.SIGN and self.text in signs


_PATTERN = re.compile(
    r"""
    (?P<space>[ \t\r\n]+)
  | (?P<comment>--|/\*|\#)
  | (?P<hex>[xX]'(?P<hex_digits>(?:[0-9a-fA-F]{2})*)')
  | (?P<odd_text>(?:[xXeEnNbBrRqQ]|[uU]&|0[xX])['"]|\$[A-Za-z_]*\$)
  | (?P<text>'(?P<single>(?:[^']|'')*)')
  | (?P<double_quoted>"(?P<double>(?:[^"]|"")*)")
  | (?P<quoted_name>`(?P<name>(?:[^`]|``)+)`)
  | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_.`"']))
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<sign><=>|<>|!=|<=|>=|==|::|\|\||<<|>>|[-+*/%<>=(),.\[\]])
    """,
    re.VERBOSE,
)
_SAME_SIGN = {"<>": "!=", "==": "="}


def cut_tokens(sql: str) -> tuple[Token, ...]:
    """All tokens of a filter and an END; raise for what is none."""
    return tuple(_tokens(sql))


def refuse(sql: str, position: int, problem: str, remedy: str) -> NoReturn:
    """Raise with the place in the filter."""
    raise InvalidRequestError(f"The filter {_excerpt(sql, position)} {problem}", remedy)


def _tokens(sql: str) -> Iterator[Token]:
    position = 0
    while position < len(sql):
        match = _PATTERN.match(sql, position)
        if match is None:
            _refuse_character(sql, position)
        group = match.lastgroup or ""
        if group in {"comment", "odd_text"}:
            _refuse_extra(sql, position, group)
        if group != "space":
            yield _token(match, group)
        position = match.end()
    yield Token(TokenKind.END, "", len(sql))


def _token(match: re.Match[str], group: str) -> Token:
    position = match.start()
    match group:
        case "text":
            return Token(TokenKind.TEXT, match["single"].replace("''", "'"), position)
        case "double_quoted":
            return Token(TokenKind.DOUBLE_QUOTED, match["double"].replace('""', '"'), position)
        case "quoted_name":
            return Token(TokenKind.QUOTED_NAME, match["name"].replace("``", "`"), position)
        case "hex":
            return Token(TokenKind.HEX, match["hex_digits"], position)
        case "sign":
            return Token(TokenKind.SIGN, _SAME_SIGN.get(match.group(), match.group()), position)
        case "number":
            return Token(TokenKind.NUMBER, match.group(), position)
        case _:
            return Token(TokenKind.WORD, match.group(), position)


def _refuse_extra(sql: str, position: int, group: str) -> NoReturn:
    if group == "comment":
        refuse(sql, position, "has a comment", "Leave comments out of filters.")
    refuse(sql, position, "has a string with a prefix", "Write strings as '…' and bytes as X'6162'.")


def _refuse_character(sql: str, position: int) -> NoReturn:
    character = sql[position]
    if character in "'\"`":
        refuse(sql, position, f"has a {character} that is not closed", "Close it; double it to mean itself.")
    if character == ";":
        refuse(sql, position, "has a ;", "Write one condition, not statements.")
    if character in "?$:@":
        refuse(
            sql, position, f"has a placeholder {character!r}", 'Use values, or Python: lw.col("a") == value.'
        )
    if character.isdigit():
        refuse(sql, position, "has a number followed by letters", "Write numbers as 5, 2.5 or 1e6.")
    refuse(
        sql,
        position,
        f"has a {character!r} that is not understood",
        "Put names with special characters in backticks.",
    )


def _excerpt(sql: str, position: int, around: int = 40) -> str:
    start, end = max(0, position - around), position + around
    shown = ("…" if start else "") + sql[start:end] + ("…" if end < len(sql) else "")
    return f"{shown!r} (at character {position + 1})"
