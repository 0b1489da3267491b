"""What a caller asks an index of our own or of another package's kind to rank by. Frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lancewright.errors import InvalidRequestError
from lancewright.query.search.request import Scope, check_count, columns_of

if TYPE_CHECKING:
    from lancewright.query.prefilter import AnsweredFilter
    from lancewright.query.search.request import Prefilter

NEAR = "near"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindScope:
    """Where it looks: which columns, which index, which rows. The rest is as in ``Scope``."""

    columns: tuple[str, ...] = ()
    index: str | None = None
    prefilter: Prefilter = None
    fast: bool = False
    strict: bool = False
    use_index: bool = True
    filter: AnsweredFilter | None = None

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        Scope(index=self.index, fast=self.fast, use_index=self.use_index)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KindRequest:
    """The ``k`` rows that rank best by a query that a kind understands. ``queries`` are several only of a batch."""

    queries: tuple[Mapping[str, Any], ...]  # Any: the kind's own words
    k: int
    scope: KindScope
    batch: bool = False

    def __post_init__(self) -> None:
        """Refuse a k that is none, and queries that are none."""
        check_count("k", self.k)
        for query in self.queries:
            if not query or not all(isinstance(name, str) for name in list[object](query)):
                raise InvalidRequestError(
                    f"query={query!r} is no query", 'Pass a dict, such as {"near": (4.9, 52.37)}.'
                )


def read_query(query: object, near: object) -> Mapping[str, Any]:  # Any: as above
    """What a caller passed as ``query`` or ``near``."""
    if near is not None:
        return {NEAR: near}
    if not isinstance(query, Mapping):
        raise InvalidRequestError(
            f"query= is a {type(query).__name__}", 'Pass a dict, such as {"near": (4.9, 52.37)}.'
        )
    return query


def read_columns(column: object) -> tuple[str, ...]:
    """What a caller passed as ``column``: one name, or a list of them."""
    if column is None:
        return ()
    return (column,) if isinstance(column, str) else columns_of(column) or ()
