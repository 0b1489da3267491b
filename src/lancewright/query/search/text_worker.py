"""What a task of a text search does: search the index, or the fragments outside of it, and keep the best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lancewright.errors import CorruptIndexError, NotFoundError
from lancewright.query.search.notes import SearchNote, SearchReason
from lancewright.query.search.top_k import keep_best
from lancewright.query.search.vector_worker import Found
from lancewright.table.gone_rows import count_gone_rows
from lancewright.table.lance_compat import translate_error
from lancewright.table.metering import MeteredDataset
from lancewright.table.opening import open_dataset
from lancewright.table.text_search import MATCHED_SCHEMA, SCORE, search_texts
from lancewright.table.whole_texts import WholeTexts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from lancewright.errors import LancewrightError
    from lancewright.model.text_query import TextQuery
    from lancewright.table.location import TableRef
    from lancewright.table.vector_search import RowFilter

# Past so many rows of equal score, which of them are returned is left to Lance.
_TIES_MAX = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TextWork:
    """The part of the table in which texts are searched for; ``fragments`` of None means all the index covers.

    With ``parameters`` the fragments' texts are read and indexed anew instead of asking the table's index.
    """

    table: TableRef
    column: str
    query: TextQuery
    k: int
    fragments: tuple[int, ...] | None
    rows: RowFilter
    parameters: Mapping[str, Any] | None = None  # Any: an option's value


def search_text_part(work: TextWork) -> Found:
    """Do one task. A damaged index is no accident that another attempt mends: it is a note, for the driver to refuse."""
    try:
        return _search(work)
    except (KeyboardInterrupt, SystemExit):
        raise
    # Damaged files may end in a panic of Lance's Rust code, which is no Exception.
    except BaseException as error:
        translated = translate_error(error, work.table, "search the texts of")
        if not _is_damage(error, translated):
            raise translated from error
        note = SearchNote(reason=SearchReason.BROKEN_SEGMENT, subject="", explanation=translated.problem)
        return Found(rows=MATCHED_SCHEMA.empty_table(), notes=(note,))


def _search(work: TextWork) -> Found:
    """Ask for more rows until none of the last score is missing, so that ties go to the lower row id."""
    dataset = MeteredDataset(open_dataset(work.table))
    if work.parameters is None:
        rows = _rank(
            work,
            lambda limit: search_texts(dataset, work.column, work.query, limit, work.fragments, work.rows),
            count_gone_rows(dataset) if work.fragments is None else 0,
        )
        return Found(rows=rows, effort=dataset.effort())
    texts = WholeTexts(dataset, work.column, work.fragments or (), work.rows, work.parameters)
    try:
        return Found(rows=_rank(work, lambda limit: texts.search(work.query, limit)), effort=dataset.effort())
    finally:
        texts.close()


def _rank(work: TextWork, search: Callable[[int], pa.Table], gone: int = 0) -> pa.Table:
    limit = work.k + 1
    while True:
        rows = search(limit)
        if len(rows) + gone < limit:
            return keep_best(rows, SCORE, work.k, descending=True)  # these are all that match
        if len(rows) < work.k:
            # Rows that are gone took places among the best, and Lance left them out afterwards. They are no more than ``gone``.
            limit = min(limit * 4, work.k + 1 + gone)
        elif _cuts_through_ties(rows, work.k, limit):
            limit = min(limit * 4, max(_TIES_MAX, work.k + 1))
        else:
            return keep_best(rows, SCORE, work.k, descending=True)


def _is_damage(error: BaseException, translated: LancewrightError) -> bool:
    return (
        not isinstance(error, Exception)
        or isinstance(translated, NotFoundError | CorruptIndexError)
        # A file shorter than the manifest says.
        or "Invalid range" in str(error)
    )


def _cuts_through_ties(rows: pa.Table, k: int, limit: int) -> bool:
    """True when rows that Lance left out may have the score of the last one that counts."""
    if limit >= _TIES_MAX:
        return False
    scores = np.sort(rows[SCORE].to_numpy())[::-1]
    return bool(scores[k - 1] == scores[-1])
