"""Rewrites a predicate without changing for which rows it is TRUE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewright.model.predicate.lists import merge_lists
from lancewright.model.predicate.tree import (
    FALSE,
    NULL,
    TRUE,
    And,
    Comparison,
    Constant,
    InList,
    Not,
    Or,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lancewright.model.predicate.tree import Predicate


def to_negation_normal_form(predicate: Predicate) -> Predicate:
    """Push NOT to the leaves: the result is TRUE, FALSE and NULL for the same rows.

    A negated comparison gets the opposite operator. That is exact for floats too, because Lance compares them in a total
    order: NaN is equal to itself and above everything (with the sign bit set, below), the zeros are equal.
    """
    return _push(predicate, negated=False)


def simplify(predicate: Predicate) -> Predicate:
    """Flatten, drop duplicates, fold constants and join lists: the result is TRUE for the same rows.

    Where only TRUE counts, NULL is as good as FALSE; under NOT the two are kept apart.
    """
    return merge_lists(_fold(predicate, only_true=True))


def _push(predicate: Predicate, *, negated: bool) -> Predicate:
    match predicate:
        case Not(child=child):
            return _push(child, negated=not negated)
        case And(children=children) | Or(children=children):
            parts = tuple(_push(child, negated=negated) for child in children)
            return And(children=parts) if isinstance(predicate, And) != negated else Or(children=parts)
        case Constant(value=value) if negated and value is not None:
            return Constant(value=not value)
        case Comparison(column=column, operator=operator, literal=literal) if negated:
            return Comparison(column=column, operator=operator.negated, literal=literal)
        case Constant():
            return predicate
        case _:
            return Not(child=predicate) if negated else predicate


def _fold(predicate: Predicate, *, only_true: bool) -> Predicate:
    match predicate:
        case And(children=children):
            return _fold_children(And, children, TRUE, FALSE, only_true=only_true)
        case Or(children=children):
            return _fold_children(Or, children, FALSE, TRUE, only_true=only_true)
        case Not(child=child):
            return _fold_not(_fold(child, only_true=False))
        case InList(column=column, literals=literals):
            distinct = tuple(dict.fromkeys(literals))
            return InList(column=column, literals=distinct)
        case Constant(value=None) if only_true:
            return FALSE
        case _:
            return predicate


def _fold_not(child: Predicate) -> Predicate:
    match child:
        case Not(child=inner):
            return inner
        case Constant(value=value):
            return NULL if value is None else Constant(value=not value)
        case _:
            return Not(child=child)


def _fold_children(
    kind: type[And | Or],
    children: Iterable[Predicate],
    neutral: Constant,
    deciding: Constant,
    *,
    only_true: bool,
) -> Predicate:
    parts: dict[Predicate, None] = {}
    for child in children:
        folded = _fold(child, only_true=only_true)
        if folded == deciding:
            return deciding
        if isinstance(folded, kind):
            parts.update(dict.fromkeys(folded.children))
        elif folded != neutral:
            parts[folded] = None
    if not parts:
        return neutral
    return next(iter(parts)) if len(parts) == 1 else kind(children=tuple(parts))
