"""Chooses which of Spark's filters are answered here, and which Spark has to evaluate. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import datasource as pushed

from lancewright.model.predicate import And
from lancewright.spark.filters import PushedFilter, filter_to_predicate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lancewright.model.columns import Column
    from lancewright.model.predicate import Predicate

# Never TRUE where the column is NULL.
_REJECTS_NULL = (
    pushed.EqualTo,
    pushed.GreaterThan,
    pushed.GreaterThanOrEqual,
    pushed.LessThan,
    pushed.LessThanOrEqual,
    pushed.In,
    pushed.StringStartsWith,
    pushed.StringEndsWith,
    pushed.StringContains,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushdown:
    """What is asked of the table, and the filters that Spark evaluates on the rows that come back."""

    predicate: Predicate | None
    left: tuple[pushed.Filter, ...]


def choose_filters(filters: Sequence[pushed.Filter], columns: Mapping[tuple[str, ...], Column]) -> Pushdown:
    """Filters that mean the same to Lance are answered; one that may let more through is asked and left as well."""
    known = [(one, filter_to_predicate(one, columns)) for one in filters]
    left = tuple(one for one, found in known if found is None or not found.exact)
    asked = [found.predicate for one, found in known if found is not None and not _is_implied(one, known)]
    predicate = And(children=tuple(asked)) if len(asked) > 1 else next(iter(asked), None)
    return Pushdown(predicate=predicate, left=left)


def _is_implied(filter_: pushed.Filter, known: Sequence[tuple[pushed.Filter, PushedFilter | None]]) -> bool:
    """True for the ``IS NOT NULL`` that Spark adds to a comparison: the column would be read for it alone."""
    if not isinstance(filter_, pushed.IsNotNull):
        return False
    path = filter_.attribute
    return any(
        found is not None and found.exact and _column_rejecting_null(other)[: len(path)] == path
        for other, found in known
    )


def _column_rejecting_null(filter_: pushed.Filter) -> tuple[str, ...]:
    inner = filter_.child if isinstance(filter_, pushed.Not) else filter_
    return tuple(inner.attribute) if isinstance(inner, _REJECTS_NULL) else ()
