"""Builds, keeps and queries every kind of index of a Lance table, distributed on Spark.

>>> import lancewright as lw
>>> table = lw.open("s3://lake/events", spark=spark)      # doctest: +SKIP
>>> table.create_index("user_id", kind="btree")           # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from lancewright.version import __version__

if TYPE_CHECKING:
    from lancewright.api import IndexInfo, IndexList, Plan, Receipt, Table, open
    from lancewright.errors import (
        ConflictError,
        CorruptIndexError,
        InvalidRequestError,
        LancewrightError,
        NotFoundError,
        TasksFailedError,
        UnsupportedError,
    )
    from lancewright.kinds.plugins import register_kind
    from lancewright.maintain.policy import Policy
    from lancewright.model.predicate.expression import Expression, col
    from lancewright.model.request import IndexRequest
    from lancewright.model.text_query import Boolean, Match, Phrase
    from lancewright.query.search.search import Search
    from lancewright.sql_verbs.registration import register
    from lancewright.sql_verbs.run import sql

__all__ = [
    "Boolean",
    "ConflictError",
    "CorruptIndexError",
    "Expression",
    "IndexInfo",
    "IndexList",
    "IndexRequest",
    "InvalidRequestError",
    "LancewrightError",
    "Match",
    "NotFoundError",
    "Phrase",
    "Plan",
    "Policy",
    "Receipt",
    "Search",
    "Table",
    "TasksFailedError",
    "UnsupportedError",
    "__version__",
    "col",
    "open",
    "register",
    "register_kind",
    "sql",
]

# Names are imported when they are asked for. A worker of Spark needs a few modules and not the whole package: it starts its
# first task 0.3 CPU seconds sooner. None may be called like a module of the package: importing that would take its place.
_HOMES = {
    "Boolean": "lancewright.model.text_query",
    "ConflictError": "lancewright.errors",
    "CorruptIndexError": "lancewright.errors",
    "Expression": "lancewright.model.predicate.expression",
    "IndexInfo": "lancewright.api",
    "IndexList": "lancewright.api",
    "IndexRequest": "lancewright.model.request",
    "InvalidRequestError": "lancewright.errors",
    "LancewrightError": "lancewright.errors",
    "Match": "lancewright.model.text_query",
    "NotFoundError": "lancewright.errors",
    "Phrase": "lancewright.model.text_query",
    "Policy": "lancewright.maintain.policy",
    "Plan": "lancewright.api",
    "Receipt": "lancewright.api",
    "Search": "lancewright.query.search.search",
    "Table": "lancewright.api",
    "TasksFailedError": "lancewright.errors",
    "UnsupportedError": "lancewright.errors",
    "col": "lancewright.model.predicate.expression",
    "open": "lancewright.api",
    "register": "lancewright.sql_verbs.registration",
    "register_kind": "lancewright.kinds.plugins",
    "sql": "lancewright.sql_verbs.run",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'lancewright' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
