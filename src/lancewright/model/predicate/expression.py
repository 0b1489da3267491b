"""A filter written in Python: ``(col("a") > 3) & col("b").is_null()``. Knows no table; ``binding`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from lancewright.errors import InvalidRequestError
from lancewright.model.columns import split_path
from lancewright.model.predicate import syntax as syn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lancewright.model.predicate.syntax import Syntax


class Expression:
    """A condition on columns. Combine conditions with ``&``, ``|`` and ``~``, each in parentheses."""

    __slots__ = ("syntax",)

    def __init__(self, syntax: Syntax) -> None:
        """Hold what the condition says."""
        self.syntax = syntax

    def __and__(self, other: Expression) -> Expression:
        """Both."""
        return _chain("AND", self, other)

    def __or__(self, other: Expression) -> Expression:
        """Either."""
        return _chain("OR", self, other)

    def __invert__(self) -> Expression:
        """Not this."""
        return Expression(syn.Negation(self.syntax))

    def __bool__(self) -> NoReturn:
        """Refuse: ``and``, ``or``, ``not``, ``in`` and ``a < x < b`` ask for a truth value that only rows have."""
        raise InvalidRequestError(
            "An expression has no truth value of its own",
            "Use & instead of and, | instead of or, ~ instead of not, .isin() instead of in, .between() for a range.",
        )

    def __repr__(self) -> str:
        """The shape of the condition."""
        return f"{type(self).__name__}({self.syntax})"


class ColumnExpression(Expression):
    """A column by its path, to be compared with values or other columns. A boolean column is a condition itself."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # == makes a condition, so columns are no keys

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]  # a condition, not a truth value
        return self._compare("=", other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]  # as __eq__
        return self._compare("!=", other)

    def __lt__(self, other: Any) -> Expression:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Expression:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Expression:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> Expression:
        return self._compare(">=", other)

    def isin(self, values: Iterable[Any]) -> Expression:
        """Equal to one of these; nothing is in an empty list."""
        if isinstance(values, str | bytes):
            raise InvalidRequestError(f"isin takes a list, not {values!r:.60}", "Write isin([value]).")
        items = tuple(_operand(value) for value in values)
        return Expression(syn.In(self.syntax, items))

    def is_null(self) -> Expression:
        """The column has no value."""
        return Expression(syn.Test(self.syntax, "NULL"))

    def is_not_null(self) -> Expression:
        """The column has a value."""
        return ~self.is_null()

    def between(self, low: Any, high: Any) -> Expression:
        """From low to high, both included."""
        return Expression(syn.Between(self.syntax, _operand(low), _operand(high)))

    def like(self, pattern: str, escape: str | None = None) -> Expression:
        """SQL's LIKE: ``%`` is any text, ``_`` any character; the backslash escapes, or what is given."""
        return Expression(syn.Matches(self.syntax, _text(pattern), _escape(escape), ignore_case=False))

    def ilike(self, pattern: str, escape: str | None = None) -> Expression:
        """LIKE without regard to case."""
        return Expression(syn.Matches(self.syntax, _text(pattern), _escape(escape), ignore_case=True))

    def startswith(self, prefix: str) -> Expression:
        """The text starts with this."""
        return self._call("starts_with", _text(prefix))

    def endswith(self, suffix: str) -> Expression:
        """The text ends with this."""
        return self._call("ends_with", _text(suffix))

    def contains(self, text: str) -> Expression:
        """The text contains this."""
        return self._call("contains", _text(text))

    def has(self, value: Any) -> Expression:
        """The list has this item."""
        return self._call("array_has", _operand(value))

    def has_any(self, values: Iterable[Any]) -> Expression:
        """The list has one of these items."""
        return self._call("array_has_any", syn.Array(tuple(_operand(value) for value in values)))

    def has_all(self, values: Iterable[Any]) -> Expression:
        """The list has all of these items."""
        return self._call("array_has_all", syn.Array(tuple(_operand(value) for value in values)))

    def _compare(self, sign: str, other: object) -> Expression:
        return Expression(syn.Binary(sign, self.syntax, _operand(other)))

    def _call(self, name: str, argument: Syntax) -> Expression:
        return Expression(syn.Function(name, (self.syntax, argument)))


def col(path: str) -> ColumnExpression:
    """The column with this path; a name with special characters is in backticks, as in SQL."""
    return ColumnExpression(syn.Name(split_path(path)))


def _chain(word: str, left: Expression, right: Expression) -> Expression:
    if not isinstance(right, Expression):
        raise InvalidRequestError(
            f"{right!r:.60} is no condition", "Put each condition in parentheses: (col('a') > 3) & (col('b') == 4)."
        )  # fmt: skip
    parts: list[Syntax] = []
    for side in (left.syntax, right.syntax):
        parts += side.children if isinstance(side, syn.Chain) and side.word == word else [side]
    return Expression(syn.Chain(word, tuple(parts)))


def _operand(value: Any) -> Syntax:
    if isinstance(value, ColumnExpression):
        return value.syntax
    if isinstance(value, Expression):
        raise InvalidRequestError("A condition cannot be compared", "Combine conditions with &, | and ~.")
    return syn.Text(str(value)) if isinstance(value, str) else syn.Value(value)


def _text(value: str) -> Syntax:
    if not isinstance(value, str):
        raise InvalidRequestError(f"{value!r:.60} is not a string", "Give a string.")
    return syn.Text(value)


def _escape(escape: str | None) -> str | None:
    if escape is not None and len(escape) != 1:
        raise InvalidRequestError(f"The escape {escape!r} is not one character", "Give one character.")
    return escape
