"""Answers which rows come first in an order by columns. Pure.

The order is that of a sorted index: NULL before everything else, floats as Lance compares them, texts by their bytes; descending is
the opposite. Rows that are equal in all columns come in the order of their addresses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancewright.errors import InvalidRequestError
from lancewright.kinds.composite.codes import gather_key
from lancewright.kinds.contract import Key
from lancewright.kinds.key_types import check_keys
from lancewright.model.columns import find_column
from lancewright.table.column_reader import plain_type, plain_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from lancewright.model.columns import Column

ADDRESS = "_rowaddr"
_DIRECTION = re.compile(r"\s+(asc|desc)\s*\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderKey:
    """One column to order by."""

    column: str
    descending: bool = False


def read_order(order_by: object) -> tuple[OrderKey, ...]:
    """What a caller wrote: a column or several, each with ``DESC`` behind it or not."""
    if order_by is None:
        return ()
    items = [order_by] if isinstance(order_by, str) else order_by
    if not isinstance(items, list | tuple) or not items or not all(isinstance(one, str) for one in items):
        raise InvalidRequestError(
            f"order_by={order_by!r:.60} is no list of columns", "Write order_by=['tenant', 'at DESC']."
        )
    return tuple(_read_key(str(item)) for item in items)


def _read_key(text: str) -> OrderKey:
    found = _DIRECTION.search(text)
    if found is None:
        return OrderKey(column=text.strip())
    return OrderKey(column=text[: found.start()].strip(), descending=found.group(1).lower() == "desc")


def bind_order(keys: Sequence[OrderKey], columns: Mapping[tuple[str, ...], Column]) -> tuple[OrderKey, ...]:
    """The same by the paths of a table's columns; raise for what has no order."""
    bound = []
    for key in keys:
        column = find_column(columns, key.column)
        if len(column.names) > 1:
            raise InvalidRequestError(
                f"order_by names {column.path}, a field of a struct", "Order by columns of the table itself."
            )
        check_keys(
            "order_by", [Key(name=column.path, type=plain_type(column.type), metadata=column.metadata)]
        )
        bound.append(OrderKey(column=column.path, descending=key.descending))
    return tuple(bound)


def cut_first(rows: pa.Table, names: Sequence[str], keys: Sequence[OrderKey], count: int) -> pa.Table:
    """The first rows in the order; ``names`` are what the columns of the keys are called, in their order."""
    # The last of lexsort's keys decides first.
    levels: list[NDArray[np.uint64]] = [rows.column(ADDRESS).to_numpy()]
    for name, key in reversed(list(zip(names, keys, strict=True))):
        levels += _levels(rows.column(name), descending=key.descending)
    return rows.take(pa.array(np.lexsort(levels)[:count]))


def _levels(values: pa.ChunkedArray, *, descending: bool) -> list[NDArray[np.uint64]]:
    parts = [plain_values(chunk) for chunk in values.chunks]
    gathered = gather_key(parts, plain_type(values.type))
    known = (~gathered.nulls).astype(np.uint64)
    numbers = np.where(gathered.nulls, np.uint64(0), gathered.numbers)
    return [~numbers, ~known] if descending else [numbers, known]
