"""What a filter says before its names mean anything: the shape that SQL text and Python expressions share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Name:
    """A column by its path."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Number:
    """Digits as they were written, without a sign."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """A string; ``double_quoted`` because many take that for a name."""

    value: str
    double_quoted: bool = False


@dataclass(frozen=True, slots=True)
class Value:
    """A value that is no text or number: bytes, TRUE, NULL (None), or whatever Python code gave."""

    value: Any  # Any: what users compare with


@dataclass(frozen=True, slots=True)
class Cast:
    """``CAST(child AS type)``; ``safe`` gives NULL instead of an error. ``type_sql`` is the type as Lance writes it."""

    child: Syntax
    type: pa.DataType
    type_sql: str
    safe: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """``AND`` or ``OR`` of two or more."""

    word: str
    children: tuple[Syntax, ...]


@dataclass(frozen=True, slots=True)
class Negation:
    """``NOT child``; ``fused`` when it is written inside: ``x NOT IN (1)``, ``x IS NOT NULL``."""

    child: Syntax
    fused: bool = False


@dataclass(frozen=True, slots=True)
class Minus:
    """``- child``."""

    child: Syntax


@dataclass(frozen=True, slots=True)
class Binary:
    """A comparison or arithmetic; ``!=`` and ``=`` are written so."""

    sign: str
    left: Syntax
    right: Syntax


@dataclass(frozen=True, slots=True)
class Distinct:
    """``left IS NOT DISTINCT FROM right``: NULL equals NULL."""

    left: Syntax
    right: Syntax


@dataclass(frozen=True, slots=True)
class Test:
    """``child IS word``, where the word is NULL, TRUE, FALSE or UNKNOWN."""

    child: Syntax
    word: str


@dataclass(frozen=True, slots=True)
class In:
    """``child IN (items)``."""

    child: Syntax
    items: tuple[Syntax, ...]


@dataclass(frozen=True, slots=True)
class Between:
    """``child BETWEEN low AND high``."""

    child: Syntax
    low: Syntax
    high: Syntax


@dataclass(frozen=True, slots=True)
class Matches:
    """``child LIKE pattern``, or ``ILIKE``."""

    child: Syntax
    pattern: Syntax
    escape: str | None
    ignore_case: bool


@dataclass(frozen=True, slots=True)
class Function:
    """A call; the name is in lower case."""

    name: str
    arguments: tuple[Syntax, ...]


@dataclass(frozen=True, slots=True)
class Array:
    """``[a, b]``."""

    items: tuple[Syntax, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """``child[index]``."""

    child: Syntax
    index: Syntax


Syntax: TypeAlias = (
    Name
    | Number
    | Text
    | Value
    | Cast
    | Chain
    | Negation
    | Minus
    | Binary
    | Distinct
    | Test
    | In
    | Between
    | Matches
    | Function
    | Array
    | Item
)
