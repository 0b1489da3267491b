"""Asks Lance for the best matching texts. BM25 counts words over the whole index, whatever part of the table is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from lance.query import BooleanQuery, FullTextOperator, FullTextQuery, MatchQuery, Occur, PhraseQuery

from lancewright.model.text_query import Boolean, Match, Phrase, TextQuery
from lancewright.table.allow_list import encode_allow_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lancewright.table.vector_search import RowFilter

SCORE = "_score"
MATCHED_SCHEMA = pa.schema([(SCORE, pa.float32()), ("_rowid", pa.uint64()), ("_rowaddr", pa.uint64())])


def search_texts(
    dataset: Any,  # Any: pylance's dataset is untyped
    column: str,
    query: TextQuery,
    limit: int,
    fragments: Sequence[int] | None,
    rows: RowFilter,
) -> pa.Table:
    """The best rows of these fragments, or, when ``fragments`` is None, of all that the column's index covers.

    For fragments that the index does not cover, Lance counts their own words too: scores are those of a search of the whole table
    only when all such fragments are asked at once.
    """
    options: dict[str, Any] = {
        "columns": [SCORE],
        "disable_scoring_autoprojection": True,
        "with_row_id": True,
        "with_row_address": True,
        "prefilter": True,
        "limit": limit,
        "use_scalar_index": rows.use_scalar_index,
    }
    if fragments is None:
        options["fast_search"] = True
    else:
        options["fragments"] = [dataset.get_fragment(fragment) for fragment in fragments]
    if rows.sql is not None:
        options["filter"] = rows.sql
    if rows.allowed is not None:
        options["row_addr_allowlist"] = encode_allow_list(dataset, rows.allowed)
    found = dataset.scanner(full_text_query=to_lance_query(query, column), **options).to_table()
    return pa.table([found[name] for name in MATCHED_SCHEMA.names], names=MATCHED_SCHEMA.names).cast(
        MATCHED_SCHEMA
    )


def to_lance_query(query: TextQuery, column: str) -> FullTextQuery:
    """The query as pylance's own object; those do not pickle, so it is made where it is used."""
    match query:
        case Match(text=text, operator=operator, fuzziness=fuzziness, boost=boost):
            both = FullTextOperator.AND if operator == "and" else FullTextOperator.OR
            return MatchQuery(text, column, operator=both, fuzziness=fuzziness, boost=float(boost))
        case Phrase(text=text):
            return PhraseQuery(text, column)
        case Boolean(must=must, should=should, must_not=must_not):
            clauses = [(Occur.MUST, clause) for clause in must]
            clauses += [(Occur.SHOULD, clause) for clause in should]
            clauses += [(Occur.MUST_NOT, clause) for clause in must_not]
            return BooleanQuery([(occur, to_lance_query(clause, column)) for occur, clause in clauses])
