"""Asks the same of an index and of the rows: which rows some condition is TRUE for. Compares nothing.

Answers are addresses of live rows at the version the reference names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from lancewright.model.addresses import fragments_of, in_both
from lancewright.model.row_set import row_set
from lancewright.table.allow_list import encode_allow_list
from lancewright.table.lance_compat import translating
from lancewright.table.opening import open_dataset
from lancewright.table.text_search import search_texts
from lancewright.table.vector_search import RowFilter, search_fragments, search_segments
from lancewright.table.whole_texts import WholeTexts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from lancewright.model.text_query import TextQuery
    from lancewright.table.location import TableRef
    from lancewright.table.vector_search import NearestOptions

    Addresses = NDArray[np.uint64]

_ADDRESS = "_rowaddr"
# Lance's plan names an index as ``[condition]@name(Kind)``.
_ASKED_INDEX = re.compile(r"\]@(.+?)\([A-Za-z]+\)")
_FRAGMENT_BITS = np.uint64(32)
# Rows that are read one by one; of more, a scan of their fragments is quicker: 37,000 took three seconds, the scan of 2 million 50 ms.
_LISTED_MAX = 1_000


class IndexProbe:
    """One version of a table, opened once."""

    def __init__(self, table: TableRef) -> None:
        """Open it."""
        self._table = table
        self._dataset: Any = open_dataset(table)  # Any: pylance leaves it untyped

    def named(self, sql: str, index: str, fragments: Sequence[int]) -> Addresses | None:
        """The rows of these fragments that Lance names through this index; None when it would not ask it alone.

        The whole index is asked: told of fragments, Lance would pass over segments that know old values of their rows.
        """
        with translating(self._table, f"ask index {index!r} of"):
            scanner = self._scanner(sql, fast_search=True)
            if set(_ASKED_INDEX.findall(str(scanner.explain_plan()))) != {index}:
                return None
            found = _addresses(scanner.to_table())
        return found[np.isin(found >> _FRAGMENT_BITS, np.array(fragments, dtype=np.uint64))]

    def true(self, sql: str, fragments: Sequence[int], within: Addresses | None = None) -> Addresses:
        """The rows themselves say so; ``within`` looks only at some of them."""
        options: dict[str, Any] = {"use_scalar_index": False}  # Any: values of many types
        if within is not None:
            holding = fragments_of(within)
            fragments = [fragment for fragment in fragments if fragment in holding]
            if not fragments:
                return within[:0]
            if len(within) <= _LISTED_MAX:
                with translating(self._table, "find rows of"):
                    options["row_addr_allowlist"] = encode_allow_list(self._dataset, row_set(within))
        with translating(self._table, "read"):
            options["fragments"] = [self._dataset.get_fragment(fragment) for fragment in fragments]
            found = _addresses(self._scanner(sql, **options).to_table())
        return found if within is None else in_both(found, within)

    def texts(self, column: str, query: TextQuery, limit: int, fragments: Sequence[int]) -> Addresses:
        """The rows of these fragments that a search of texts names."""
        with translating(self._table, "search the texts of"):
            return _addresses(
                search_texts(
                    self._dataset, column, query, limit, fragments, RowFilter(use_scalar_index=False)
                )
            )

    def read_texts(self, column: str, fragments: Sequence[int], parameters: Mapping[str, Any]) -> WholeTexts:
        """The texts of these fragments, indexed anew; to be closed. Any: an option's value."""
        with translating(self._table, "read the texts of"):
            return WholeTexts(self._dataset, column, fragments, RowFilter(), parameters)

    def nearest_by_index(
        self, options: NearestOptions, vectors: NDArray[np.generic], segment: str
    ) -> pa.Table:
        """The nearest rows of a segment, by the segment."""
        with translating(self._table, f"search segment {segment} of"):
            return search_segments(self._dataset, options, vectors, [segment], RowFilter())

    def nearest(
        self,
        options: NearestOptions,
        vectors: NDArray[np.generic],
        fragments: Sequence[int],
        within: Addresses | None = None,
    ) -> pa.Table:
        """The nearest rows, by their vectors."""
        rows = RowFilter(allowed=None if within is None else row_set(within), use_scalar_index=False)
        with translating(self._table, "search the vectors of"):
            return search_fragments(self._dataset, options, vectors, fragments, rows)

    def _scanner(self, sql: str, **options: Any) -> Any:  # Any: as above
        return self._dataset.scanner(columns=[], filter=sql, with_row_address=True, **options)


def _addresses(found: pa.Table) -> Addresses:
    addresses: Addresses = found.column(_ADDRESS).to_numpy()
    return np.sort(addresses)
