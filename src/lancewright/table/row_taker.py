"""Reads columns of rows that are known by their row ids, in the order asked. Decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewright.model.row_set import row_set
from lancewright.table.allow_list import encode_treemap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lancewright.model.columns import Column

_CREATED = "_row_created_at_version"
_UPDATED = "_row_last_updated_at_version"


def take_columns(dataset: Any, row_ids: NDArray[np.uint64], columns: Sequence[Column]) -> list[pa.Array]:
    """The values of each column, one for each row id; an id may come twice. Any: pylance's dataset is untyped."""
    unique, places = np.unique(row_ids, return_inverse=True)
    roots = list(dict.fromkeys(column.names[0] for column in columns))
    taken = dataset._take_rows(unique.tolist(), columns=roots)  # noqa: SLF001 - pylance's own name for it
    found = []
    for column in columns:
        values = taken[column.names[0]].combine_chunks()
        for name in column.names[1:]:
            values = pc.struct_field(values, [name])
        found.append(values.take(pa.array(places.ravel())))
    return found


def read_row_versions(
    dataset: Any, row_ids: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """For these rows in any order: the versions that created them, and that gave them their present values.

    With stable row ids only. They lie in the manifest. A scan, because a take fails in Lance 14 when rows lie in several fragments.
    """
    scanner = dataset.scanner(
        columns=[_CREATED, _UPDATED],
        with_row_id=True,
        row_addr_allowlist=encode_treemap(row_set(row_ids)),
    )
    found = scanner.to_table()
    return found[_CREATED].to_numpy(), found[_UPDATED].to_numpy()
