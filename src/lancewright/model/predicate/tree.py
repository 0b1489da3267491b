"""What a predicate is: a tree of frozen values over the columns of one table, with SQL's three-valued logic.

Columns are named by ``Column.path``, spelled as the table has them, and every literal has the type its column is compared
in. Does not read text (``parsing``), bind names (``binding``) or write text (``printing``).
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable


class Operator(enum.StrEnum):
    """How a column is compared with a literal."""

    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="

    @property
    def negated(self) -> Operator:
        """The operator that is true where this one is false. Exact for floats too: Lance orders them totally."""
        return _NEGATED[self]

    @property
    def mirrored(self) -> Operator:
        """The operator with its sides exchanged: ``3 < x`` is ``x > 3``."""
        return _MIRRORED[self]


_NEGATED = {
    Operator.EQUAL: Operator.NOT_EQUAL,
    Operator.NOT_EQUAL: Operator.EQUAL,
    Operator.LESS: Operator.GREATER_EQUAL,
    Operator.LESS_EQUAL: Operator.GREATER,
    Operator.GREATER: Operator.LESS_EQUAL,
    Operator.GREATER_EQUAL: Operator.LESS,
}
_MIRRORED = {
    Operator.EQUAL: Operator.EQUAL,
    Operator.NOT_EQUAL: Operator.NOT_EQUAL,
    Operator.LESS: Operator.GREATER,
    Operator.LESS_EQUAL: Operator.GREATER_EQUAL,
    Operator.GREATER: Operator.LESS,
    Operator.GREATER_EQUAL: Operator.LESS_EQUAL,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Literal:
    """One value, never NULL, with the type it is compared in.

    ``pa.scalar(value, type)`` is the exact value. Values of temporal types are whole numbers in the type's unit, because
    Python's ``datetime`` has no nanoseconds; whatever else is given for them is converted. Two literals are equal when
    type and value are, where -0.0 is another value than 0.0 and NaN is equal to itself.
    """

    value: Any  # Any: an int, float, bool, str, bytes or Decimal, by the type
    type: pa.DataType

    def __post_init__(self) -> None:
        """Make a temporal value a whole number."""
        if pa.types.is_temporal(self.type) and not isinstance(self.value, int):
            number = pa.scalar(self.value, self.type).cast(self.type).value
            object.__setattr__(self, "value", number)

    @property
    def scalar(self) -> pa.Scalar:
        """The value as Arrow has it."""
        return pa.scalar(self.value, self.type)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> Hashable:
        value = struct.pack("<d", self.value) if isinstance(self.value, float) else self.value
        return (self.type, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """TRUE, FALSE or NULL (None) for every row."""

    value: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class And:
    """FALSE if a child is, else NULL if a child is, else TRUE. At least two children."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Or:
    """TRUE if a child is, else NULL if a child is, else FALSE. At least two children."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    """TRUE where the child is FALSE, FALSE where it is TRUE, NULL where it is NULL."""

    child: Predicate


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A column compared with a literal; NULL where the column is NULL."""

    column: str
    operator: Operator
    literal: Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class InList:
    """TRUE where the column equals one of the literals; NULL where it is NULL. At least one literal, no NULL."""

    column: str
    literals: tuple[Literal, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNull:
    """TRUE where the column is NULL, else FALSE."""

    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Like:
    r"""SQL's pattern: ``%`` any text, ``_`` any one character, the escape before a character that character.

    No escape means the backslash, the only one that Lance has.
    """

    column: str
    pattern: str
    escape: str | None = None
    ignore_case: bool = False


Argument: TypeAlias = "Literal | tuple[Literal, ...] | Opaque"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A function that an index may answer, over a column and constants, or over a point whose x and y are two columns.

    ``function`` is in lower case. ``arguments`` are the others in their order: an array as a tuple, what only Lance computes
    (``st_geomfromtext('POINT(1 2)')``) as text without columns. When ``operator`` is set, the call's result is compared:
    ``json_get_int(j, 'a') = 5``. ``sql`` is the whole atom for a filter.
    """

    function: str
    column: str
    arguments: tuple[Argument, ...]
    sql: str
    operator: Operator | None = None
    literal: Literal | None = None
    more_columns: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns in their order; one may be there twice."""
        return (self.column, *self.more_columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opaque:
    """Valid Lance SQL that only Lance evaluates; no index is matched with it. Its columns are bound.

    ``withheld``: it compares a column with a constant that has no exact counterpart in the column's type.
    """

    sql: str
    columns: tuple[str, ...]
    withheld: bool = False


Predicate: TypeAlias = And | Or | Not | Constant | Comparison | InList | IsNull | Like | Call | Opaque

TRUE = Constant(value=True)
FALSE = Constant(value=False)
NULL = Constant(value=None)


def leaves_to_lance(predicate: Predicate) -> bool:
    """True when a part of it was handed through: whether it can be evaluated, Lance alone knows."""
    match predicate:
        case And(children=children) | Or(children=children):
            return any(leaves_to_lance(child) for child in children)
        case Not(child=child):
            return leaves_to_lance(child)
        case Opaque() | Call():
            return True
        case _:
            return False


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """The parts that must all be TRUE; a predicate that is no AND is its only part, TRUE has none."""
    match predicate:
        case And(children=children):
            return tuple(part for child in children for part in conjuncts(child))
        case Constant(value=True):
            return ()
        case _:
            return (predicate,)


def conjoin(parts: Iterable[Predicate]) -> Predicate:
    """The predicate that is TRUE where all parts are; TRUE for none."""
    flat = tuple(conjunct for part in parts for conjunct in conjuncts(part))
    if not flat:
        return TRUE
    return flat[0] if len(flat) == 1 else And(children=flat)


def columns_of(predicate: Predicate) -> tuple[str, ...]:
    """The paths of all columns a predicate reads, each once, in order of appearance."""
    return tuple(dict.fromkeys(_columns(predicate)))


def _columns(predicate: Predicate) -> Iterable[str]:
    match predicate:
        case And(children=children) | Or(children=children):
            return [path for child in children for path in _columns(child)]
        case Not(child=child):
            return _columns(child)
        case Constant():
            return ()
        case Opaque(columns=columns):
            return columns
        case Call():
            return predicate.columns
        case _:
            return (predicate.column,)
