"""Joins the lists that one column is compared with, before Lance does, who forgets the NULLs.

Lance reads ``x NOT IN (1) OR x NOT IN (2)`` as TRUE, which it is not where x is NULL. Lists that are joined here leave
nothing for Lance to join. The result is TRUE for the same rows; under NOT nothing is touched.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lancewright.model.predicate.tree import (
    FALSE,
    And,
    Comparison,
    InList,
    IsNull,
    Literal,
    Not,
    Operator,
    Or,
    Predicate,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable


def merge_lists(predicate: Predicate) -> Predicate:
    """Join lists over one column in AND and OR; write a list of one as a comparison."""
    match predicate:
        case And(children=children):
            return _join(And, [merge_lists(child) for child in children])
        case Or(children=children):
            return _join(Or, [merge_lists(child) for child in children])
        case InList(column=column, literals=(literal,)):
            return Comparison(column=column, operator=Operator.EQUAL, literal=literal)
        case Not(child=InList(column=column, literals=(literal,))):
            return Comparison(column=column, operator=Operator.NOT_EQUAL, literal=literal)
        case _:
            return predicate


def _join(kind: type[And | Or], children: Iterable[Predicate]) -> Predicate:
    """The lists of an AND leave what is in all of them; so do the excluded lists of an OR."""
    lists: dict[str, list[tuple[Literal, ...]]] = {}
    others: list[Predicate] = []
    for child in children:
        listed = _listed(child) if kind is And else _excluded(child)
        if listed is None:
            others.append(child)
        else:
            lists.setdefault(listed[0], []).append(listed[1])
    joined = [_common(kind, column, found) for column, found in lists.items()]
    if kind is And and FALSE in joined:
        return FALSE
    parts = (*others, *joined)
    return parts[0] if len(parts) == 1 else kind(children=parts)


def _listed(child: Predicate) -> tuple[str, tuple[Literal, ...]] | None:
    match child:
        case InList(column=column, literals=literals):
            return column, literals
        case Comparison(column=column, operator=Operator.EQUAL, literal=literal):
            return column, (literal,)
        case _:
            return None


def _excluded(child: Predicate) -> tuple[str, tuple[Literal, ...]] | None:
    match child:
        case Not(child=InList(column=column, literals=literals)):
            return column, literals
        case Comparison(column=column, operator=Operator.NOT_EQUAL, literal=literal):
            return column, (literal,)
        case _:
            return None


def _common(kind: type[And | Or], column: str, lists: list[tuple[Literal, ...]]) -> Predicate:
    kept = {_key(literal): literal for literal in lists[0]}
    for literals in lists[1:]:
        keys = {_key(literal) for literal in literals}
        kept = {key: literal for key, literal in kept.items() if key in keys}
    if not kept:
        return FALSE if kind is And else Not(child=IsNull(column=column))
    joined = InList(column=column, literals=tuple(kept.values()))
    return merge_lists(joined if kind is And else Not(child=joined))


def _key(literal: Literal) -> Hashable:
    """Equal for literals that Lance calls equal: the zeros are, and NaN is to NaN of the same sign."""
    value = literal.value
    if isinstance(value, float) and math.isnan(value):
        return (literal.type, "NaN", math.copysign(1, value))
    return (literal.type, value)
