"""Asks Lance for nearest vectors: of some segments of an index, or exactly among the rows of some fragments.

Lance computes every distance, so that exact and indexed rows are measured alike: L2 squared, ``1 - dot``, cosine, hamming.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewright.table.allow_list import encode_allow_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from lancewright.model.row_set import RowSet

DISTANCE = "_distance"
# query: which of the vectors asked for; the rest as Lance names it
NEAREST_SCHEMA = pa.schema(
    [("query", pa.int32()), (DISTANCE, pa.float32()), ("_rowid", pa.uint64()), ("_rowaddr", pa.uint64())]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestOptions:
    """How to search, the same for every part of the table.

    ``nprobes`` partitions are searched at least, and more only while fewer than ``k`` rows were found: a filter that few rows
    pass would otherwise leave the answer short. ``lower_bound`` belongs to the range of distances, ``upper_bound`` does not.
    """

    column: str
    metric: str
    k: int
    nprobes: int | None = None
    refine_factor: int | None = None
    ef: int | None = None
    lower_bound: float | None = None
    upper_bound: float | None = None

    @property
    def bounded(self) -> bool:
        """True when rows are left out for their distance."""
        return self.lower_bound is not None or self.upper_bound is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """Which rows may be found: those a condition is TRUE for, and those of a set. ``None`` restricts nothing."""

    sql: str | None = None
    allowed: RowSet | None = None
    use_scalar_index: bool = True


def search_segments(
    dataset: Any,  # Any: pylance's dataset is untyped
    options: NearestOptions,
    vectors: NDArray[np.generic],
    segments: Sequence[str],
    rows: RowFilter,
) -> pa.Table:
    """The nearest rows of these segments for each vector."""
    nearest = _nearest(options, vectors, use_index=True)
    if options.nprobes is not None:
        nearest["minimum_nprobes"] = options.nprobes
    scanner = dataset.scanner(
        nearest={**nearest, "refine_factor": options.refine_factor, "ef": options.ef},
        index_segments=list(segments),
        **_scan_options(dataset, rows),
    )
    return _as_nearest(scanner.to_table())


def search_fragments(
    dataset: Any,  # Any: as above
    options: NearestOptions,
    vectors: NDArray[np.generic],
    fragments: Sequence[int],
    rows: RowFilter,
) -> pa.Table:
    """The exactly nearest rows of these fragments for each vector; reads only these fragments."""
    scanner = dataset.scanner(
        nearest=_nearest(options, vectors, use_index=False),
        fragments=[dataset.get_fragment(fragment) for fragment in fragments],
        **_scan_options(dataset, rows),
    )
    return _as_nearest(scanner.to_table())


def _nearest(options: NearestOptions, vectors: NDArray[np.generic], *, use_index: bool) -> dict[str, Any]:
    bounds = (options.lower_bound, options.upper_bound) if options.bounded else None
    return {
        "column": options.column,
        # One vector is asked for as one: Lance plans it differently, and with more parallelism.
        "q": vectors[0] if len(vectors) == 1 else vectors,
        "k": options.k,
        "metric": options.metric,
        "distance_range": bounds,
        "use_index": use_index,
    }


def _scan_options(dataset: Any, rows: RowFilter) -> dict[str, Any]:  # Any: values of many types
    return {
        "columns": [DISTANCE],
        "disable_scoring_autoprojection": True,
        "with_row_id": True,
        "with_row_address": True,
        # Also what makes Lance accept ``fragments`` beside ``nearest``.
        "prefilter": True,
        **filter_options(dataset, rows),
    }


def filter_options(dataset: Any, rows: RowFilter) -> dict[str, Any]:  # Any: values of many types
    """What tells a scanner which rows it may give."""
    options: dict[str, Any] = {"use_scalar_index": rows.use_scalar_index}
    if rows.sql is not None:
        options["filter"] = rows.sql
    if rows.allowed is not None:
        options["row_addr_allowlist"] = encode_allow_list(dataset, rows.allowed)
    return options


def _as_nearest(found: pa.Table) -> pa.Table:
    numbered = "query_index" in found.schema.names
    queries = found["query_index"] if numbered else pa.array([0] * len(found), pa.int32())
    columns = [queries, *(found[name] for name in NEAREST_SCHEMA.names[1:])]
    return pa.table(columns, names=NEAREST_SCHEMA.names).cast(NEAREST_SCHEMA)
