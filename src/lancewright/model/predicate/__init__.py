"""Predicates: the one tree that indexes, scans and searches are planned from.

``resolve_where`` takes what a user wrote, SQL or ``col("a") > 3``, and gives the bound tree.
"""

from __future__ import annotations

from lancewright.model.predicate.binding import bind_predicate, parse_predicate, resolve_where
from lancewright.model.predicate.expression import ColumnExpression, Expression, col
from lancewright.model.predicate.normal_form import simplify, to_negation_normal_form
from lancewright.model.predicate.printing import to_lance_sql
from lancewright.model.predicate.tree import (
    FALSE,
    NULL,
    TRUE,
    And,
    Argument,
    Call,
    Comparison,
    Constant,
    InList,
    IsNull,
    Like,
    Literal,
    Not,
    Opaque,
    Operator,
    Or,
    Predicate,
    columns_of,
    conjoin,
    conjuncts,
    leaves_to_lance,
)

__all__ = [
    "FALSE",
    "NULL",
    "TRUE",
    "And",
    "Argument",
    "Call",
    "ColumnExpression",
    "Comparison",
    "Constant",
    "Expression",
    "InList",
    "IsNull",
    "Like",
    "Literal",
    "Not",
    "Opaque",
    "Operator",
    "Or",
    "Predicate",
    "bind_predicate",
    "col",
    "columns_of",
    "conjoin",
    "conjuncts",
    "leaves_to_lance",
    "parse_predicate",
    "resolve_where",
    "simplify",
    "to_lance_sql",
    "to_negation_normal_form",
]
