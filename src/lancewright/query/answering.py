"""Answers which form a condition has, so that it can be looked up in what a kind is trusted for. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lancewright.errors import InvalidRequestError
from lancewright.kinds.lance_native.trusted import UNTRUSTED, Condition, Trusted
from lancewright.kinds.registry import find_kind
from lancewright.model.predicate import Call, Comparison, InList, IsNull, Like, Literal, Not, Operator

if TYPE_CHECKING:
    from lancewright.model.predicate import Predicate

_HAS_LABEL: Final = frozenset({"array_has", "array_contains", "array_has_any", "array_has_all"})
_WILDCARDS: Final = ("%", "_")
_NGRAM_CHARACTERS_MIN: Final = 3
_COMPARED: Final = {Operator.EQUAL: Condition.EQUAL, Operator.NOT_EQUAL: Condition.NOT_EQUAL}
_NEGATED: Final = {
    Condition.EQUAL: Condition.NOT_EQUAL,
    Condition.NOT_EQUAL: Condition.EQUAL,
    Condition.ORDER: Condition.ORDER,
    Condition.IN: Condition.NOT_IN,
    Condition.IS_NULL: Condition.IS_NOT_NULL,
    Condition.PREFIX: Condition.NOT_PREFIX,
    Condition.PATTERN: Condition.NOT_PATTERN,
    Condition.CONTAINS: Condition.NOT_CONTAINS,
    Condition.CONTAINS_SHORT: Condition.NOT_CONTAINS,
    Condition.CONTAINS_EMPTY: Condition.NOT_CONTAINS,
    Condition.HAS_LABEL: Condition.NOT_HAS_LABEL,
    Condition.TOUCHES: Condition.NOT_TOUCHES,
    Condition.JSON_VALUE: Condition.JSON_VALUE,
}


def trusted_for(kind: str) -> Trusted:
    """What one of Lance's kinds is asked; nothing, of a kind that is not known here."""
    try:
        return find_kind(kind).trusted
    except InvalidRequestError:
        return UNTRUSTED


def condition_of(atom: Predicate) -> Condition:
    """The form of a leaf of a negation normal form: a condition, or a NOT over one."""
    match atom:
        case Not(child=child):
            return _NEGATED.get(condition_of(child), Condition.OTHER)
        case Comparison(operator=operator):
            return _COMPARED.get(operator, Condition.ORDER)
        case InList():
            return Condition.IN
        case IsNull():
            return Condition.IS_NULL
        case _:
            return _condition_on_contents(atom)


def _condition_on_contents(atom: Predicate) -> Condition:
    match atom:
        case _ if is_prefix(atom):
            return Condition.PREFIX
        case Like(escape=None, ignore_case=False):
            return Condition.PATTERN
        case Call(function=function) if function.startswith("json_"):
            return Condition.JSON_VALUE
        case Call(operator=None):
            return _condition_of_call(atom)
        case _:
            return Condition.OTHER


def _condition_of_call(call: Call) -> Condition:
    match call:
        case Call(function="contains", arguments=(Literal() as needle,)):
            return _condition_of_needle(str(needle.value))
        case Call(function="regexp_like"):
            return Condition.REGEXP
        case Call(function=function) if function in _HAS_LABEL:
            return Condition.HAS_LABEL
        case Call(function="st_intersects" | "st_within"):
            return Condition.TOUCHES
        case _:
            return Condition.OTHER


def _condition_of_needle(needle: str) -> Condition:
    if not needle:
        return Condition.CONTAINS_EMPTY
    return Condition.CONTAINS if len(needle) >= _NGRAM_CHARACTERS_MIN else Condition.CONTAINS_SHORT


def is_negative(atom: Predicate) -> bool:
    """True for a condition that an index answers by what it leaves out."""
    match atom:
        case Not() | Comparison(operator=Operator.NOT_EQUAL):
            return True
        case _:
            return False


def is_prefix(atom: Predicate) -> bool:
    """True for ``LIKE 'text%'`` and ``starts_with``: a range of texts."""
    match atom:
        case Like(pattern=pattern, escape=None, ignore_case=False):
            head = pattern[:-1]
            plain = not any(wildcard in head for wildcard in _WILDCARDS) and "\\" not in head
            return bool(head) and plain and pattern.endswith("%")
        case Call(function="starts_with", operator=None, arguments=(Literal() as prefix,)):
            return bool(prefix.value)
        case _:
            return False


def prefix_of(atom: Predicate) -> str:
    """The text that a prefix condition asks for."""
    match atom:
        case Like(pattern=pattern):
            return pattern[:-1]
        case Call(arguments=(Literal() as prefix,)):
            return str(prefix.value)
        case _:
            return ""
