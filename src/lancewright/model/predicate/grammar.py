"""Reads the tokens of a filter into its syntax, with the precedences of Lance's own parser.

Whatever Lance's planner refuses (subqueries, CASE, windows, bit operators) is refused here with what to do instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from lancewright.model.predicate import syntax as syn
from lancewright.model.predicate.tokens import Token, TokenKind, cut_tokens, refuse
from lancewright.model.predicate.type_names import TYPE_WORDS, type_of_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lancewright.model.predicate.syntax import Syntax

# The precedences of sqlparser, which Lance reads filters with.
_OR, _AND, _NOT, _IS, _LIKE, _COMPARE, _SHIFT, _ADD, _MULTIPLY, _CAST, _INDEX = (
    5, 10, 15, 17, 19, 20, 22, 30, 40, 50, 60,
)  # fmt: skip
_SIGNS = {
    **dict.fromkeys(("=", "!=", "<", "<=", ">", ">="), _COMPARE),
    **dict.fromkeys(("<<", ">>"), _SHIFT),
    **dict.fromkeys(("+", "-"), _ADD),
    **dict.fromkeys(("*", "/", "%", "||"), _MULTIPLY),
    "::": _CAST,
    "[": _INDEX,
}
# Lance's parser allows 50 levels.
_NESTING_MAX = 40
# Where an operand is expected, Lance takes every other word for a name: group, order, from.
_NO_NAMES = frozenset(
    {"AND", "OR", "IN", "IS", "LIKE", "ILIKE", "BETWEEN", "SELECT", "CASE", "INTERVAL", "EXISTS"}
    | {"CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP", "TRIM"}
)  # fmt: skip
_REMEDIES = {
    "SELECT": "Subqueries are not possible: read the values first and use IN.",
    "EXISTS": "Subqueries are not possible: read the values first and use IN.",
    "CASE": "Write the cases with AND and OR.",
    "INTERVAL": "Compute the value and write it as a literal.",
    "CURRENT_DATE": "Write the date: each task of a scan would read another clock.",
    "CURRENT_TIME": "Write the time: each task of a scan would read another clock.",
    "CURRENT_TIMESTAMP": "Write the time: each task of a scan would read another clock.",
}


def read_filter(sql: str) -> Syntax:
    """The syntax of a filter; raise when it is not one whole condition."""
    reader = _Reader(sql, cut_tokens(sql))
    if len(reader.tokens) == 1:
        refuse(sql, 0, "is empty", "Write a condition, or leave the argument out.")
    found = reader.read(0)
    if reader.token.kind is not TokenKind.END:
        reader.refuse_token()
    return found


@dataclass(slots=True)
class _Reader:
    sql: str
    tokens: Sequence[Token]
    place: int = 0
    depth: int = field(default=0)

    @property
    def token(self) -> Token:
        return self.tokens[self.place]

    @property
    def following(self) -> Token:
        return self.tokens[min(self.place + 1, len(self.tokens) - 1)]

    def next(self) -> Token:
        token = self.token
        self.place += 1
        return token

    def accept_word(self, *words: str) -> bool:
        found = self.token.is_word(*words)
        self.place += found
        return found

    def accept_sign(self, *signs: str) -> bool:
        found = self.token.is_sign(*signs)
        self.place += found
        return found

    def expect_word(self, word: str) -> None:
        if not self.accept_word(word):
            self.refuse_token(f"needs {word} here")

    def expect_sign(self, sign: str) -> None:
        if not self.accept_sign(sign):
            self.refuse_token(f"needs {sign!r} here")

    def refuse_token(self, problem: str = "") -> NoReturn:
        token = self.token
        seen = (
            "ends too early"
            if token.kind is TokenKind.END
            else f"has {token.text!r} where it is not understood"
        )
        remedy = _REMEDIES.get(
            token.text.upper(), "Check the quotes, the parentheses and the words around it."
        )
        refuse(self.sql, token.position, problem or seen, remedy)

    def read(self, precedence: int) -> Syntax:
        """The longest expression whose operators bind more tightly than this."""
        self.depth += 1
        if self.depth > _NESTING_MAX:
            refuse(self.sql, self.token.position, "is nested too deeply", "Write it with fewer parentheses.")
        chain = ""
        left = self._operand()
        while (found := self._precedence()) > precedence:
            word = self.token.text.upper()
            left = self._infix(left, found, chain == word)
            chain = word if found in {_AND, _OR} else ""
        self.depth -= 1
        return left

    def _precedence(self) -> int:
        """How tightly the operator at the current token binds; 0 when there is none."""
        token = self.token
        if token.kind is TokenKind.SIGN:
            return _SIGNS.get(token.text, 0)
        if token.is_word("OR"):
            return _OR
        if token.is_word("AND"):
            return _AND
        if token.is_word("IS"):
            return _IS
        if token.is_word("NOT"):
            token = self.following
        if token.is_word("LIKE", "ILIKE"):
            return _LIKE
        return _COMPARE if token.is_word("IN", "BETWEEN") else 0

    def _infix(self, left: Syntax, precedence: int, continues: bool) -> Syntax:  # noqa: FBT001  a private step of read
        token = self.next()
        if precedence in {_AND, _OR}:
            return _chain(token.text.upper(), left, self.read(precedence), continues)
        if token.is_sign("::"):
            type_, name = self._type()
            return syn.Cast(left, type_, name)
        if token.is_sign("["):
            index = self.read(0)
            self.expect_sign("]")
            return syn.Item(left, index)
        if token.kind is TokenKind.SIGN:
            return syn.Binary(token.text, left, self.read(precedence))
        if token.is_word("IS"):
            return self._test(left)
        negated = token.is_word("NOT")
        found = self._membership(left, self.next() if negated else token)
        return syn.Negation(found, fused=True) if negated else found

    def _test(self, left: Syntax) -> Syntax:
        negated = self.accept_word("NOT")
        if self.accept_word("DISTINCT"):
            self.expect_word("FROM")
            # As in Lance, everything to the right belongs to it: a IS DISTINCT FROM (b AND c).
            same = syn.Distinct(left, self.read(0))
            return same if negated else syn.Negation(same, fused=True)
        if not self.token.is_word("NULL", "TRUE", "FALSE", "UNKNOWN"):
            self.refuse_token("needs NULL, TRUE, FALSE or DISTINCT FROM after IS")
        found = syn.Test(left, self.next().text.upper())
        return syn.Negation(found, fused=True) if negated else found

    def _membership(self, left: Syntax, word: Token) -> Syntax:
        if word.is_word("IN"):
            self.expect_sign("(")
            return syn.In(left, self._items(")"))
        if word.is_word("BETWEEN"):
            low = self.read(_COMPARE)
            self.expect_word("AND")
            return syn.Between(left, low, self.read(_COMPARE))
        pattern = self.read(_LIKE)
        escape = self._text("one character") if self.accept_word("ESCAPE") else None
        if escape is not None and len(escape) != 1:
            refuse(
                self.sql, self.token.position, "has an ESCAPE that is not one character", "Write ESCAPE '!'."
            )
        return syn.Matches(left, pattern, escape, word.is_word("ILIKE"))

    def _items(self, end: str) -> tuple[Syntax, ...]:
        if self.token.is_sign(end) or self.token.is_word("SELECT"):
            self.refuse_token()
        items = [self.read(0)]
        while self.accept_sign(","):
            items.append(self.read(0))
        self.expect_sign(end)
        return tuple(items)

    def _operand(self) -> Syntax:
        token = self.token
        match token.kind:
            case TokenKind.NUMBER:
                return syn.Number(self.next().text)
            case TokenKind.TEXT:
                return syn.Text(self._text("a string"))
            case TokenKind.DOUBLE_QUOTED:
                return syn.Text(self.next().text, double_quoted=True)
            case TokenKind.HEX:
                return syn.Value(bytes.fromhex(self.next().text))
            case TokenKind.QUOTED_NAME:
                return self._name()
            case TokenKind.WORD:
                return self._word()
            case _:
                return self._sign()

    def _sign(self) -> Syntax:
        if self.accept_sign("("):
            found = self.read(0)
            self.expect_sign(")")
            return found
        if self.accept_sign("-"):
            return syn.Minus(self.read(_MULTIPLY))
        if self.accept_sign("["):
            return syn.Array(() if self.accept_sign("]") else self._items("]"))
        return self.refuse_token()

    def _word(self) -> Syntax:
        token, following = self.token, self.following
        word = token.text.upper()
        if word == "NOT":
            self.next()
            return syn.Negation(self.read(_NOT))
        if word in {"NULL", "TRUE", "FALSE"} and not following.is_sign(".", "("):
            self.next()
            return syn.Value({"NULL": None, "TRUE": True, "FALSE": False}[word])
        if word in {"CAST", "TRY_CAST"} and following.is_sign("("):
            return self._cast(safe=word == "TRY_CAST")
        if word == "ARRAY" and following.is_sign("["):
            self.next()
            return self._sign()
        if word in TYPE_WORDS and following.kind is TokenKind.TEXT:
            type_, name = self._type()
            return syn.Cast(syn.Text(self._text("a string")), type_, name)
        if following.is_sign("("):
            return self._call()
        if word in _NO_NAMES and not following.is_sign("."):
            self.refuse_token()
        return self._name()

    def _cast(self, *, safe: bool) -> Syntax:
        self.place += 2
        child = self.read(0)
        self.expect_word("AS")
        type_, name = self._type()
        self.expect_sign(")")
        return syn.Cast(child, type_, name, safe)

    def _call(self) -> Syntax:
        if self.token.is_word("EXISTS"):
            self.refuse_token()
        name = self.next().text.lower()
        self.expect_sign("(")
        arguments = () if self.accept_sign(")") else self._items(")")
        if self.token.is_word("OVER", "FILTER", "WITHIN"):
            refuse(
                self.sql,
                self.token.position,
                "has a window function",
                "A filter sees one row: compute the window after the scan.",
            )
        return syn.Function(name, arguments)

    def _name(self) -> Syntax:
        names = [self.next().text]
        while self.accept_sign("."):
            if self.token.kind not in {TokenKind.WORD, TokenKind.QUOTED_NAME}:
                self.refuse_token("needs a field name after the dot; quotes do not make one, backticks do")
            names.append(self.next().text)
        return syn.Name(tuple(names))

    def _text(self, what: str) -> str:
        if self.token.kind is not TokenKind.TEXT:
            self.refuse_token(f"needs {what} in single quotes here")
        return self.next().text

    def _type(self) -> tuple[object, str]:
        start = self.token.position
        if not self.token.is_word(*TYPE_WORDS):
            self.refuse_token("needs a type here: BIGINT, DOUBLE, STRING, DATE, TIMESTAMP, DECIMAL(10, 2) …")
        word = self.next().text.upper()
        items = self._items(")") if self.accept_sign("(") else ()
        digits = [item.text if isinstance(item, syn.Number) else "" for item in items]
        numbers = [int(text) if text.isdigit() else -1 for text in digits]
        unsigned = self.accept_word("UNSIGNED")
        found = type_of_name(word, tuple(numbers), unsigned=unsigned)
        if found is None:
            refuse(
                self.sql,
                start,
                f"has a type {word} that Lance does not cast to",
                "Use BIGINT, DOUBLE, STRING, DATE, TIMESTAMP(6), DECIMAL(10, 2) or arrow_cast.",
            )
        return found


def _chain(word: str, left: Syntax, right: Syntax, continues: bool) -> Syntax:  # noqa: FBT001  see _infix
    if continues and isinstance(left, syn.Chain):
        return syn.Chain(word, (*left.children, right))
    return syn.Chain(word, (left, right))
