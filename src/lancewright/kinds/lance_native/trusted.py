"""What Lance's indexes are trusted for: data, one list for each kind that answers filters.

Only what is listed as an answer is ever asked of an index. ``faults`` says where Lance 14 was seen to answer wrongly, or to fail, from an
index that is fine; ``tests/behaviour/test_trusted_kinds.py`` shows each on Lance itself, and fails when Lance mends one. The page
``docs/kinds/native.md`` has the same lists.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping


class Precision(enum.StrEnum):
    """How an index answers a condition.

    EXACT: just the rows for which it is TRUE. AT_MOST: those and perhaps others, so the rows are checked again.
    IN_TASKS: at most, and only Lance itself can read the index, while it scans; it checks the rows again.
    """

    EXACT = "exact"
    AT_MOST = "at_most"
    IN_TASKS = "in_tasks"


class Condition(enum.StrEnum):
    """The forms of conditions on one column; the value is how a page shows it. ``OTHER`` is asked of no index."""

    EQUAL = "="
    NOT_EQUAL = "!="
    ORDER = "<, <=, >, >=, BETWEEN"
    IN = "IN"
    NOT_IN = "NOT IN"
    IS_NULL = "IS NULL"
    IS_NOT_NULL = "IS NOT NULL"
    PREFIX = "LIKE 'text%', starts_with"
    NOT_PREFIX = "NOT LIKE 'text%'"
    PATTERN = "LIKE with other wildcards"
    NOT_PATTERN = "NOT LIKE with other wildcards"
    CONTAINS = "contains"
    CONTAINS_SHORT = "contains, one or two characters"
    CONTAINS_EMPTY = "contains, an empty text"
    NOT_CONTAINS = "NOT contains"
    REGEXP = "regexp_like"
    HAS_LABEL = "array_has, array_contains, array_has_any, array_has_all"
    NOT_HAS_LABEL = "NOT array_has"
    TOUCHES = "st_intersects, st_within"
    NOT_TOUCHES = "NOT st_intersects"
    JSON_VALUE = "json_get_int, json_get_float, json_get_string compared"
    OTHER = "anything else"


class Columns(enum.StrEnum):
    """On which columns a fault shows."""

    ALL = "all columns"
    DICTIONARIES = "dictionaries of strings"

    def has(self, type_: pa.DataType) -> bool:
        """True when a column of this type is one of them."""
        return self is Columns.ALL or bool(pa.types.is_dictionary(type_))


class Harm(enum.StrEnum):
    """What comes of asking all the same."""

    WRONG_ROWS = "wrong rows"
    FAILS = "the query fails"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that Lance answers wrongly from an index that is fine; ``cause`` is what a user is told."""

    conditions: frozenset[Condition]
    harm: Harm
    cause: str
    columns: Columns = Columns.ALL

    def shows(self, condition: Condition, type_: pa.DataType) -> bool:
        """True when this condition on a column of this type is answered wrongly."""
        return condition in self.conditions and self.columns.has(type_)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted:
    """The conditions that a kind is asked, and how well it answers them; less those in which Lance has a fault."""

    answers: Mapping[Condition, Precision] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()

    def precision(self, condition: Condition, type_: pa.DataType) -> Precision | None:
        """How the kind answers this condition on a column of this type; None when it is not asked."""
        return None if self.fault(condition, type_) else self.answers.get(condition)

    def fault(self, condition: Condition, type_: pa.DataType) -> Fault | None:
        """What is wrong with the answer, if Lance is known to go wrong."""
        return next((fault for fault in self.faults if fault.shows(condition, type_)), None)

    @property
    def is_faulty_everywhere(self) -> bool:
        """True when Lance goes wrong on every column that the kind can index."""
        return any(fault.columns is Columns.ALL for fault in self.faults)


def _answers(precision: Precision, *conditions: Condition) -> Mapping[Condition, Precision]:
    return MappingProxyType(dict.fromkeys(conditions, precision))


_DISTINCT = (Condition.EQUAL, Condition.NOT_EQUAL, Condition.IN, Condition.NOT_IN)
_NULLS = (Condition.IS_NULL, Condition.IS_NOT_NULL)
_ORDERED = (*_DISTINCT, Condition.ORDER, *_NULLS)
_PATTERNS = frozenset({Condition.PREFIX, Condition.PATTERN})

UNTRUSTED = Trusted()
BTREE = Trusted(
    answers=_answers(Precision.EXACT, *_ORDERED, Condition.PREFIX),
    faults=(
        Fault(
            conditions=_PATTERNS,
            columns=Columns.DICTIONARIES,
            harm=Harm.FAILS,
            cause="Lance compares the text of LIKE with the numbers of a dictionary",
        ),
    ),
)
BITMAP = Trusted(answers=_answers(Precision.EXACT, *_ORDERED))
LABEL_LIST = Trusted(answers=_answers(Precision.EXACT, Condition.HAS_LABEL))
ZONEMAP = Trusted(
    answers=_answers(
        Precision.AT_MOST,
        Condition.EQUAL,
        Condition.IN,
        Condition.ORDER,
        Condition.IS_NULL,
        Condition.PREFIX,
    ),
    faults=(
        Fault(
            conditions=_PATTERNS,
            columns=Columns.DICTIONARIES,
            harm=Harm.WRONG_ROWS,
            cause="Lance finds no rows for LIKE on a dictionary",
        ),
    ),
)
BLOOMFILTER = Trusted(
    answers=_answers(Precision.IN_TASKS, Condition.EQUAL, Condition.IN, Condition.IS_NULL),
)
NGRAM = Trusted(
    answers=_answers(
        Precision.IN_TASKS, Condition.CONTAINS, Condition.PREFIX, Condition.PATTERN, Condition.REGEXP
    ),
)
FM = Trusted(
    answers=_answers(Precision.IN_TASKS, Condition.CONTAINS, Condition.CONTAINS_SHORT),
    faults=(
        Fault(
            conditions=frozenset({Condition.NOT_CONTAINS}),
            harm=Harm.WRONG_ROWS,
            cause="Lance takes a NULL for a text that does not contain it",
        ),
        Fault(
            conditions=frozenset({Condition.CONTAINS_EMPTY}),
            harm=Harm.WRONG_ROWS,
            cause="Lance finds no rows for the empty text, which every text contains",
        ),
    ),
)
RTREE = Trusted(answers=_answers(Precision.IN_TASKS, Condition.TOUCHES))
JSON = Trusted(
    faults=(
        Fault(
            conditions=frozenset({Condition.JSON_VALUE}),
            harm=Harm.WRONG_ROWS,
            cause="Lance asks it for values of other types than it holds, too, finding none or failing",
        ),
    ),
)
