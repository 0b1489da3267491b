"""Has indexes that name rows, but not which key each is for, name those of some keys: Lance's B-trees and bitmaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lancewright.model.predicate import InList, Literal
from lancewright.query.prefilter import FilterRequest, choose_prefilter
from lancewright.query.search.request import RowsPrefilter

if TYPE_CHECKING:
    from lancewright.model.columns import Column
    from lancewright.model.row_set import RowSet
    from lancewright.query.lookup.matching import KeySet
    from lancewright.table.location import TableRef

# More are as many page reads, and a list of literals that Lance reads as text.
NAMED_KEYS_MAX = 10_000


def name_rows(table: TableRef, columns: tuple[Column, ...], keys: KeySet) -> RowSet | None:
    """The rows with one of these keys, and no others, when indexes name them all; else None.

    Of whole numbers and texts. The table is pinned to a version.
    """
    column = columns[0]
    is_plain = pa.types.is_integer(column.type) or pa.types.is_string(column.type)
    if len(columns) > 1 or not is_plain or not 0 < len(keys) <= NAMED_KEYS_MAX:
        return None
    values = keys.columns[0].unique().to_pylist()
    literals = tuple(Literal(value=value, type=column.type) for value in values)
    bound = InList(column=column.path, literals=literals)
    named = choose_prefilter(FilterRequest(table=table, bound=bound))
    return named.rows if isinstance(named, RowsPrefilter) else None
