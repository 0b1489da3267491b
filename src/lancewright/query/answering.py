"""Answers which kind of index answers which condition, and how well. Pure.

Says what is measured right (the tests compare every kind with a scan), not what Lance would try: an index that answers
wrongly under some condition is not listed for it.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from lancewright.model.predicate import Call, Comparison, InList, IsNull, Like, Literal, Not, Operator

if TYPE_CHECKING:
    from lancewright.model.predicate import Predicate


class Precision(enum.StrEnum):
    """How an index answers a condition.

    EXACT: just the rows for which it is TRUE. AT_MOST: those and perhaps others, so the rows are checked again.
    IN_TASKS: at most, and only Lance itself can read the index, while it scans; it checks the rows again.
    """

    EXACT = "exact"
    AT_MOST = "at_most"
    IN_TASKS = "in_tasks"


_HAS_LABEL: Final = frozenset({"array_has", "array_contains", "array_has_any", "array_has_all"})
_WILDCARDS: Final = ("%", "_")
_NGRAM_CHARACTERS_MIN: Final = 3


def find_precision(kind: str, atom: Predicate) -> Precision | None:
    """How an index of this kind on the atom's column answers the atom; None when it does not.

    An atom is a leaf of a negation normal form: a condition, or a NOT over one.
    """
    answers = _ANSWERS.get(kind)
    return None if answers is None else answers(atom)


def _ordered(atom: Predicate) -> Precision | None:
    match atom:
        case Comparison() | InList() | IsNull() | Not(child=Comparison() | InList() | IsNull()):
            return Precision.EXACT
        case _:
            return None


def _btree(atom: Predicate) -> Precision | None:
    return Precision.EXACT if is_prefix(atom) else _ordered(atom)


def _label_list(atom: Predicate) -> Precision | None:
    match atom:
        case Call(function=function, operator=None) if function in _HAS_LABEL:
            return Precision.EXACT
        case _:
            return None


def _zonemap(atom: Predicate) -> Precision | None:
    match atom:
        case Comparison(operator=Operator.NOT_EQUAL):
            return None
        case Comparison() | InList() | IsNull():
            return Precision.AT_MOST
        case _:
            return Precision.AT_MOST if is_prefix(atom) else None


def _bloomfilter(atom: Predicate) -> Precision | None:
    match atom:
        case Comparison(operator=Operator.EQUAL) | InList() | IsNull():
            return Precision.IN_TASKS
        case _:
            return None


def _ngram(atom: Predicate) -> Precision | None:
    match atom:
        case Call(function="contains", operator=None, arguments=(Literal() as needle,)):
            return Precision.IN_TASKS if len(str(needle.value)) >= _NGRAM_CHARACTERS_MIN else None
        case (
            Like(escape=None, ignore_case=False) | Call(function="starts_with" | "regexp_like", operator=None)
        ):
            return Precision.IN_TASKS
        case _:
            return None


def _fm(atom: Predicate) -> Precision | None:
    # Lance 14 answers wrongly for an empty needle, and for NULLs under NOT.
    match atom:
        case Call(function="contains", operator=None, arguments=(Literal() as needle,)):
            return Precision.IN_TASKS if needle.value else None
        case _:
            return None


def _rtree(atom: Predicate) -> Precision | None:
    match atom:
        case Call(function="st_intersects" | "st_within", operator=None):
            return Precision.IN_TASKS
        case _:
            return None


_ANSWERS: Final = {
    "btree": _btree,
    "bitmap": _ordered,
    "label_list": _label_list,
    "zonemap": _zonemap,
    "bloomfilter": _bloomfilter,
    "ngram": _ngram,
    "fm": _fm,
    "rtree": _rtree,
}


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
