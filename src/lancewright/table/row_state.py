"""Answers which rows of some fragments are live and may be found, by id and address, and which of some rows are. Reads no column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lancewright.model.row_set import row_set
from lancewright.table.allow_list import encode_treemap
from lancewright.table.vector_search import filter_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lancewright.table.vector_search import RowFilter

    Ids = NDArray[np.uint64]


def read_allowed_rows(
    dataset: Any, fragments: Sequence[int], rows: RowFilter
) -> tuple[Ids, Ids]:  # Any: pylance's dataset is untyped
    """The ids and addresses of the live rows of these fragments that a filter lets through; its columns are read, no others."""
    found = dataset.scanner(
        columns=[],
        fragments=[dataset.get_fragment(fragment) for fragment in fragments],
        with_row_id=True,
        with_row_address=True,
        prefilter=True,
        **filter_options(dataset, rows),
    ).to_table()
    return found["_rowid"].to_numpy(), found["_rowaddr"].to_numpy()


def find_live_rows(dataset: Any, row_ids: Ids) -> tuple[Ids, Ids]:  # Any: as above
    """Those of these row ids that are live, ascending, and their addresses. The fragments of addresses must be there."""
    if not len(row_ids):
        return row_ids, row_ids
    found = dataset.scanner(
        columns=[],
        row_addr_allowlist=encode_treemap(row_set(row_ids)),
        with_row_id=True,
        with_row_address=True,
        use_scalar_index=False,
    ).to_table()
    ids, addresses = found["_rowid"].to_numpy(), found["_rowaddr"].to_numpy()
    order = np.argsort(ids)
    return ids[order], addresses[order]
