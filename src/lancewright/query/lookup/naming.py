"""Has indexes that name rows, but not which key each is for, name those of some keys: Lance's B-trees and bitmaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lancewright.model.predicate import InList, Literal
from lancewright.query.prefilter import FilterRequest, answer_filter

if TYPE_CHECKING:
    from lancewright.model.columns import Column
    from lancewright.query.lookup.matching import KeySet
    from lancewright.query.prefilter import AnsweredFilter
    from lancewright.table.location import TableRef

# More are as many page reads, and a list of literals that Lance reads as text.
NAMED_KEYS_MAX = 10_000


def name_rows(table: TableRef, columns: tuple[Column, ...], keys: KeySet) -> AnsweredFilter | None:
    """The rows with one of these keys, and no others, when indexes name them all, or why they do not; None when none are asked.

    Of whole numbers and texts. The table is pinned to a version.
    """
    column = columns[0]
    is_plain = pa.types.is_integer(column.type) or pa.types.is_string(column.type)
    if len(columns) > 1 or not is_plain or not 0 < len(keys) <= NAMED_KEYS_MAX:
        return None
    values = keys.columns[0].unique().to_pylist()
    literals = tuple(Literal(value=value, type=column.type) for value in values)
    bound = InList(column=column.path, literals=literals)
    return answer_filter(FilterRequest(table=table, bound=bound))
