"""Answers whether Lance can evaluate a filter on a table, without reading a row."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lancewright.errors import InvalidRequestError
from lancewright.table.lance_compat import redact_text
from lancewright.table.opening import open_dataset

if TYPE_CHECKING:
    from lancewright.table.location import TableRef


# Strings in either sort of quotes, and names in backticks; a quote inside is doubled.
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`")


def check_filter(table: TableRef, sql: object) -> None:
    """Raise InvalidRequestError when the filter does not parse, names no column or compares what does not compare."""
    if not isinstance(sql, str) or not sql.strip():
        raise InvalidRequestError(
            f"where={sql!r} is no filter", "Pass a condition as SQL text, or leave it out."
        )
    if ";" in _QUOTED.sub("", sql):
        # Lance reads up to the semicolon and passes over the rest in silence.
        raise InvalidRequestError(
            f"where={sql!r} cannot be evaluated: it is more than one condition",
            "Join conditions with AND or OR.",
        )
    dataset = open_dataset(table)
    try:
        # Planning resolves names and types; it makes no request for data.
        dataset.scanner(columns=[], with_row_address=True, filter=sql).explain_plan()
    except Exception as error:
        words = redact_text(str(error), table).strip().splitlines()
        raise InvalidRequestError(
            f"where={sql!r} cannot be evaluated: {words[0] if words else type(error).__name__}",
            "Write a condition over the table's columns; names with special characters go in backticks.",
        ) from error
