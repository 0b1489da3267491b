"""Asks of a predicate whether it is TRUE or NULL, which is never NULL itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewright.model.predicate.normal_form import to_negation_normal_form
from lancewright.model.predicate.tree import (
    FALSE,
    TRUE,
    And,
    Comparison,
    Constant,
    InList,
    IsNull,
    Like,
    Not,
    Or,
)

if TYPE_CHECKING:
    from lancewright.model.predicate.tree import Predicate


def is_true(predicate: Predicate) -> Predicate | None:
    """TRUE where the predicate is, else FALSE; None when that takes Lance to know."""
    return _true(to_negation_normal_form(predicate))


def is_null(predicate: Predicate) -> Predicate | None:
    """TRUE where the predicate is NULL, else FALSE; None when that takes Lance to know."""
    true, false = is_true(predicate), is_true(Not(child=predicate))
    if true is None or false is None:
        return None
    return Not(child=Or(children=(true, false)))


def _true(predicate: Predicate) -> Predicate | None:
    match predicate:
        case And(children=children) | Or(children=children):
            parts = tuple(_true(child) for child in children)
            sure = tuple(part for part in parts if part is not None)
            return type(predicate)(children=sure) if len(sure) == len(parts) else None
        case Constant(value=value):
            return TRUE if value else FALSE
        case IsNull() | Not(child=IsNull()):
            return predicate
        # These are NULL only where their column is.
        case (
            Comparison(column=column)
            | InList(column=column)
            | Like(column=column)
            | Not(child=InList(column=column) | Like(column=column))
        ):
            return And(children=(Not(child=IsNull(column=column)), predicate))
        case _:
            return None
