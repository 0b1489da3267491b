"""Fuses two rankings by reciprocal ranks: a row counts ``1 / (constant + rank)`` in each ranking it is in. Pure.

Ranks and not scores, because a distance and a BM25 score have no common measure.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

RELEVANCE = "_relevance_score"


def fuse_ranks(near: pa.Table, matched: pa.Table, k: int, constant: float) -> pa.Table:
    """The ``k`` rows with the highest sum, ties by row id. A row of one ranking only has NULL in the other's column.

    Both tables are best first and have no row twice.
    """
    ids = np.unique(np.concatenate([near["_rowid"].to_numpy(), matched["_rowid"].to_numpy()]))
    addresses = np.zeros(len(ids), dtype=np.uint64)
    relevance = np.zeros(len(ids), dtype=np.float64)
    columns = {}
    for rows, name in ((near, "_distance"), (matched, "_score")):
        places = np.searchsorted(ids, rows["_rowid"].to_numpy())
        relevance[places] += 1.0 / (constant + np.arange(1, len(rows) + 1))
        addresses[places] = rows["_rowaddr"].to_numpy()
        values, missing = np.zeros(len(ids), dtype=np.float32), np.ones(len(ids), dtype=bool)
        values[places], missing[places] = rows[name].to_numpy(), False
        columns[name] = pa.array(values, mask=missing)
    best = np.lexsort((ids, -relevance))[:k]
    fused = {**columns, RELEVANCE: pa.array(relevance), "_rowid": ids, "_rowaddr": addresses}
    return pa.table(fused).take(best)
