"""Searches texts without their index: reads them all, indexes them anew in a temporary folder, and asks that.

For an index that cannot be read or knows values of the past. Scores are those of an index built today.
"""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

import lance
import numpy as np
import pyarrow as pa
from lance.indices import IndexConfig

from lancewright.table.text_search import MATCHED_SCHEMA, SCORE, to_lance_query

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lancewright.model.text_query import TextQuery
    from lancewright.table.vector_search import RowFilter

_TEXT, _ALLOWED, _ID, _ADDRESS = "text", "allowed", "id", "address"


class WholeTexts:
    """The texts of some fragments with an index of their own, until closed."""

    def __init__(
        self,
        dataset: Any,  # Any: pylance's dataset is untyped
        column: str,
        fragments: Sequence[int],
        rows: RowFilter,
        parameters: Mapping[str, Any],  # Any: an option's value
    ) -> None:
        """Read and index them. Memory is a few batches and what Lance takes to build an index."""
        self._folder = TemporaryDirectory(prefix="lancewright-texts-")
        chosen = [dataset.get_fragment(fragment) for fragment in fragments]
        allowed = _allowed(dataset, chosen, rows)
        batches = _batches(dataset, column, chosen, allowed)
        first = next(batches)
        stream = pa.RecordBatchReader.from_batches(first.schema, _chain(first, batches))
        self._dataset: Any = lance.write_dataset(stream, f"{self._folder.name}/texts.lance")
        # In this form, and in no other, Lance takes every parameter that it wrote down itself.
        self._dataset.create_scalar_index(_TEXT, IndexConfig("inverted", dict(parameters)), name="texts")

    def search(self, query: TextQuery, limit: int) -> pa.Table:
        """The best rows, by the ids and addresses they have in the table."""
        found = self._dataset.scanner(
            columns=[SCORE, _ID, _ADDRESS],
            full_text_query=to_lance_query(query, _TEXT),
            filter=_ALLOWED,
            prefilter=True,
            limit=limit,
        ).to_table()
        return pa.table([found[name] for name in (SCORE, _ID, _ADDRESS)], names=MATCHED_SCHEMA.names).cast(
            MATCHED_SCHEMA
        )

    def close(self) -> None:
        """Take the folder away."""
        self._folder.cleanup()

    def __enter__(self) -> Self:
        """Use it in a ``with`` statement."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close it."""
        self.close()


def _allowed(dataset: Any, fragments: Sequence[Any], rows: RowFilter) -> np.ndarray[Any, Any] | None:
    if rows.allowed is not None:
        return rows.allowed.addresses()
    if rows.sql is None:
        return None
    found = dataset.scanner(
        columns=[], fragments=fragments, filter=rows.sql, with_row_address=True, use_scalar_index=False
    ).to_table()
    addresses: np.ndarray[Any, Any] = found["_rowaddr"].to_numpy()
    return addresses


def _batches(
    dataset: Any, column: str, fragments: Sequence[Any], allowed: np.ndarray[Any, Any] | None
) -> Iterator[pa.RecordBatch]:
    scanner = dataset.scanner(columns=[column], fragments=fragments, with_row_id=True, with_row_address=True)
    for batch in scanner.to_batches():
        addresses = batch["_rowaddr"].to_numpy()
        keep = np.ones(len(addresses), dtype=bool) if allowed is None else np.isin(addresses, allowed)
        columns = [batch.column(0), pa.array(keep), batch["_rowid"], batch["_rowaddr"]]
        fields = [
            pa.field(_TEXT, batch.schema.field(0).type, metadata=batch.schema.field(0).metadata),
            pa.field(_ALLOWED, pa.bool_()),
            pa.field(_ID, pa.uint64()),
            pa.field(_ADDRESS, pa.uint64()),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest
