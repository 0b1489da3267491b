"""Cuts SQL text into Spark's tokens, each with its place in the text. Comments and white space are left out.

Spark's dialect and not Lance's: strings have backslash escapes, and a doubled quote stands for one.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from lancewright.errors import InvalidRequestError

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:BD|bd|[lLsSyYfFdD])?(?![A-Za-z0-9_])")
_MARKER = re.compile(r":[A-Za-z_][A-Za-z0-9_]*")
_ARROW = "=>"
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|[0-3][0-7]{2}|.)|(''|\"\")", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


class TokenKind(enum.Enum):
    """What a token is."""

    WORD = enum.auto()
    QUOTED = enum.auto()
    STRING = enum.auto()
    NUMBER = enum.auto()
    MARKER = enum.auto()
    SYMBOL = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One token: what it says, without quotes, and where it stands."""

    kind: TokenKind
    value: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        """True for one of these words in any case, when it is not quoted."""
        return self.kind is TokenKind.WORD and self.value.upper() in words

    def is_symbol(self, symbol: str) -> bool:
        """True for this symbol."""
        return self.kind is TokenKind.SYMBOL and self.value == symbol


def cut_tokens(text: str) -> tuple[Token, ...]:
    """The tokens of a text; raise when a string, a name or a comment does not end."""
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
        elif text.startswith("--", position):
            position = _end_of_line(text, position)
        elif text.startswith("/*", position):
            position = _end_of_comment(text, position)
        else:
            tokens.append(_token(text, position))
            position = tokens[-1].end
    return tuple(tokens)


def _token(text: str, start: int) -> Token:
    letter = text[start]
    is_raw = letter in "rR" and text[start + 1 : start + 2] in {"'", '"'}
    if letter in "'\"" or is_raw:
        end = _end_of_string(text, start + is_raw, raw=is_raw)
        inner = text[start + is_raw + 1 : end - 1]
        value = inner if is_raw else _unescape(inner, text[start])
        return Token(kind=TokenKind.STRING, value=value, start=start, end=end)
    if letter == "`":
        end = _end_of_name(text, start)
        value = text[start + 1 : end - 1].replace("``", "`")
        return Token(kind=TokenKind.QUOTED, value=value, start=start, end=end)
    for kind, pattern in ((TokenKind.WORD, _WORD), (TokenKind.NUMBER, _NUMBER), (TokenKind.MARKER, _MARKER)):
        match = pattern.match(text, start)
        if match:
            return Token(kind=kind, value=match.group(), start=start, end=match.end())
    if letter == "?":
        return Token(kind=TokenKind.MARKER, value="?", start=start, end=start + 1)
    symbol = _ARROW if text.startswith(_ARROW, start) else letter
    return Token(kind=TokenKind.SYMBOL, value=symbol, start=start, end=start + len(symbol))


def _end_of_line(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end + 1


def _end_of_comment(text: str, start: int) -> int:
    """Comments in brackets nest."""
    depth, position = 0, start
    while position < len(text):
        pair = text[position : position + 2]
        depth += {"/*": 1, "*/": -1}.get(pair, 0)
        position += 2 if pair in {"/*", "*/"} else 1
        if depth == 0:
            return position
    raise _unended("A comment", "*/")


def _end_of_string(text: str, start: int, *, raw: bool) -> int:
    quote, position = text[start], start + 1
    while position < len(text):
        if text[position] == "\\" and not raw:
            position += 2
        elif text[position] != quote:
            position += 1
        elif not raw and text.startswith(quote, position + 1):
            position += 2
        else:
            return position + 1
    raise _unended("A string", quote)


def _end_of_name(text: str, start: int) -> int:
    position = start + 1
    while position < len(text):
        if text[position] != "`":
            position += 1
        elif text.startswith("`", position + 1):
            position += 2
        else:
            return position + 1
    raise _unended("A name in backticks", "`")


def _unescape(inner: str, quote: str) -> str:
    def one(match: re.Match[str]) -> str:
        escape, doubled = match.groups()
        if doubled is not None:
            return quote if doubled == quote * 2 else str(doubled)
        if len(escape) == 1:
            return _ESCAPED.get(escape, escape)
        return chr(int(escape[1:], 16)) if escape[0] == "u" else chr(int(escape, 8))

    return _ESCAPE.sub(one, inner)


def _unended(what: str, closing: str) -> InvalidRequestError:
    return InvalidRequestError(f"{what} in the statement does not end", f"Close it with {closing}")
