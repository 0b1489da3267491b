"""Builds, keeps and queries every kind of index of a Lance table, distributed on Spark.

>>> import lancewright as lw
>>> table = lw.open("s3://lake/events", spark=spark)      # doctest: +SKIP
>>> table.create_index("user_id", kind="btree")           # doctest: +SKIP
"""

from __future__ import annotations

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
from lancewright.sql.registration import register
from lancewright.sql.run import sql
from lancewright.version import __version__

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
