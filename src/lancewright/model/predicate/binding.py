"""Gives a filter its meaning for one table: finds its columns and turns its syntax into a predicate.

What an index could answer becomes a node of its own; what is valid but only Lance evaluates becomes text with bound names;
what Lance would refuse, or read otherwise than it looks, is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa

from lancewright.errors import InvalidRequestError
from lancewright.model.predicate import syntax as syn
from lancewright.model.predicate.calls import bind_call, bind_compared_call
from lancewright.model.predicate.casting import compare, is_text, never, plain_type
from lancewright.model.predicate.constants import Known, find_constant
from lancewright.model.predicate.expression import Expression
from lancewright.model.predicate.functions import canonical_name
from lancewright.model.predicate.grammar import read_filter
from lancewright.model.predicate.names import find_filter_column
from lancewright.model.predicate.places import bind_near
from lancewright.model.predicate.printing import lance_pattern
from lancewright.model.predicate.rendering import render
from lancewright.model.predicate.tree import (
    NULL,
    And,
    Comparison,
    Constant,
    InList,
    IsNull,
    Like,
    Literal,
    Not,
    Opaque,
    Operator,
    Or,
)
from lancewright.model.predicate.truth import is_null, is_true

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lancewright.model.columns import Column
    from lancewright.model.computed import ComputedColumn
    from lancewright.model.predicate.syntax import Syntax
    from lancewright.model.predicate.tree import Predicate

_COMPARISONS = frozenset(operator.value for operator in Operator)
# Lance reads about fifty levels; more of NOT, or of one word, are still one level to it.
_NESTING_MAX = 200
_CONDITIONS = (syn.Chain, syn.Negation, syn.Distinct, syn.Test, syn.In, syn.Between, syn.Matches)


def parse_predicate(sql: str, columns: Mapping[tuple[str, ...], Column]) -> Predicate:
    """Read a filter written in Lance's SQL dialect and bind it to the columns of a table."""
    return _Binder(columns).condition(read_filter(sql), resolved=True)


def bind_predicate(expression: Expression, columns: Mapping[tuple[str, ...], Column]) -> Predicate:
    """Bind a filter written in Python to the columns of a table."""
    return _bind_expression(expression, _Binder(columns, is_python=True))


def resolve_where(
    where: str | Expression | None,
    columns: Mapping[tuple[str, ...], Column],
    computed: Mapping[str, ComputedColumn] | None = None,
) -> Predicate | None:
    """The tree of a ``where=`` argument; None when there is none.

    ``computed`` are the expressions that indexes have as keys: a condition on one becomes a node of its own, with the expression
    where a column stands.
    """
    match where:
        case None:
            return None
        case str():
            return _Binder(columns, computed or {}).condition(read_filter(where), resolved=True)
        case Expression():
            return _bind_expression(where, _Binder(columns, computed or {}, is_python=True))
        case _:
            raise InvalidRequestError(
                f"{where!r:.60} is no filter", 'Give SQL such as "a > 3", or lw.col("a") > 3.'
            )


def _bind_expression(expression: Expression, binder: _Binder) -> Predicate:
    if _is_deeper(expression.syntax, _NESTING_MAX):
        raise InvalidRequestError(
            "The filter is nested too deeply", "Write it with fewer conditions inside of one another; isin takes many values."
        )  # fmt: skip
    return binder.condition(expression.syntax, resolved=True)


def _is_deeper(syntax: Syntax, levels: int) -> bool:
    """Whether conditions stand inside of one another on more levels than these; without recursion, which has a limit too."""
    level: list[Syntax] = [syntax]
    for _ in range(levels):
        below: list[Syntax] = []
        for node in level:
            match node:
                case syn.Chain(children=children):
                    below += children
                case syn.Negation(child=child):
                    below.append(child)
        if not below:
            return False
        level = below
    return True


@dataclass(frozen=True, slots=True)
class _Binder:
    columns: Mapping[tuple[str, ...], Column]
    computed: Mapping[str, ComputedColumn] = field(default_factory=dict)
    is_python: bool = False  # there is no text that Lance would read in its own way, under NOT for instance

    def condition(self, node: Syntax, *, resolved: bool) -> Predicate:
        """What must be true of a row. ``resolved``: see ``casting.compare``."""
        match node:
            case syn.Chain(word=word, children=children):
                parts = tuple(self.condition(child, resolved=resolved) for child in children)
                return And(children=parts) if word == "AND" else Or(children=parts)
            case syn.Negation(child=child, fused=fused):
                found = self.condition(child, resolved=resolved and (fused or self.is_python))
                is_text = fused and isinstance(found, Opaque)
                return self._opaque(node, resolved=resolved) if is_text else Not(child=found)
            case syn.Name(names=names):
                return self._flag(self.find(names))
            case syn.Value(value=None | True | False as value):
                return Constant(value=value)
            case syn.Binary(sign=sign) if sign in _COMPARISONS:
                return self._comparison(node, resolved=resolved)
            case syn.Distinct():
                return self._distinct(node, resolved=resolved)
            case syn.Test():
                return self._test(node)
            case syn.In():
                return self._membership(node, resolved=resolved)
            case syn.Between(child=child, low=low, high=high):
                return self._range(node, child, low, high, resolved=resolved)
            case syn.Matches():
                return self._pattern(node)
            case syn.Function(name=name, arguments=arguments):
                return self._function(node, canonical_name(name), arguments)
            case syn.Item():
                return self._opaque(node)
            case syn.Cast(type=type_) if pa.types.is_boolean(type_):
                known = find_constant(node)
                return NULL if known is not None and known.is_null else self._opaque(node)
            case _:
                return _refuse_value(self, node)

    def subject(self, node: Syntax) -> Column | ComputedColumn | None:
        """The column that a condition is on, or the expression, if an index has it as a key."""
        if isinstance(node, syn.Name):
            return self.find(node.names)
        if not self.computed or find_constant(node) is not None:
            return None
        return self.computed.get(self.text(node)[0])

    def find(self, names: tuple[str, ...]) -> Column:
        """The column with these names."""
        return find_filter_column(self.columns, names)

    def _flag(self, column: Column) -> Predicate:
        if not pa.types.is_boolean(column.type):
            raise InvalidRequestError(
                f"Column {column.path} is {column.type} and no condition by itself",
                f"Compare it with something, or ask {column.path} IS NOT NULL.",
            )
        return Comparison(
            column=column.path, operator=Operator.EQUAL, literal=Literal(value=True, type=column.type)
        )

    def _comparison(self, node: syn.Binary, *, resolved: bool) -> Predicate:
        operator = Operator(node.sign)
        left, right = find_constant(node.left), find_constant(node.right)
        if left is not None and right is not None:
            return self._constants(node, left, right, operator)
        if left is not None:
            return self._against(node, node.right, operator.mirrored, left, resolved=resolved)
        if right is not None:
            return self._against(node, node.left, operator, right, resolved=resolved)
        return self._opaque(node, resolved=resolved)

    def _against(
        self, node: Syntax, side: Syntax, operator: Operator, known: Known, *, resolved: bool
    ) -> Predicate:
        if isinstance(side, syn.Name):
            found = compare(self.find(side.names), operator, known, resolved=resolved)
            return self._opaque(node, resolved=resolved, withheld=True) if found is None else found
        found = self._compare_computed(side, operator, known)
        if found is not None:
            return found
        if isinstance(side, syn.Function):
            near = bind_near(self, node, side, operator, known) if isinstance(node, syn.Binary) else None
            if near is not None:
                return near
            call = bind_compared_call(self, node, side, operator, known)
            if call is not None:
                return call
        if _is_condition(side) and isinstance(known.value, bool) and operator in _TRUTHS:
            wanted = known.value == (operator is Operator.EQUAL)
            found = self.condition(side, resolved=False)
            return found if wanted else Not(child=found)
        if known.is_null:
            self._opaque(side)  # its names and functions must exist all the same
            return NULL
        return self._opaque(node, resolved=resolved)

    def _compare_computed(self, side: Syntax, operator: Operator, known: Known) -> Predicate | None:
        """A condition on an expression that an index knows. To its literals Lance gives no column's type, NOT or no NOT."""
        subject = self.subject(side)
        if subject is None or known.is_null:
            return None
        try:
            return compare(subject, operator, known, resolved=False)
        except InvalidRequestError:
            return None  # handed through, as if there were no index

    def _constants(self, node: syn.Binary, left: Known, right: Known, operator: Operator) -> Predicate:
        for side in (node.left, node.right):
            if isinstance(side, syn.Text) and side.double_quoted and (side.value,) in self.columns:
                raise InvalidRequestError(
                    f'"{side.value}" is a string here, not the column of that name',
                    f"Write the column in backticks: `{side.value}`.",
                )
        if left.is_null or right.is_null:
            return NULL
        if left.type is None and right.type is None:
            order = (left.value > right.value) - (left.value < right.value)
            return Constant(value=_holds(order, operator))
        return self._opaque(node)

    def _distinct(self, node: syn.Distinct, *, resolved: bool) -> Predicate:
        for side, other in ((node.left, node.right), (node.right, node.left)):
            known = find_constant(other)
            if not isinstance(side, syn.Name) or known is None:
                continue
            column = self.find(side.names)
            if known.is_null:
                return IsNull(column=column.path)
            if pa.types.is_floating(plain_type(column.type)):
                break  # Lance compares bits here: the zeros are distinct
            found = compare(column, Operator.EQUAL, known, resolved=resolved)
            same = None if found is None else is_true(found)
            if same is not None:
                return same
        return self._opaque(node, resolved=resolved)

    def _test(self, node: syn.Test) -> Predicate:
        subject = self.subject(node.child) if node.word == "NULL" else None
        if subject is not None:
            return IsNull(column=subject.path)
        known = find_constant(node.child)
        if known is not None and (known.is_null or node.word in {"NULL", "UNKNOWN"}):
            return Constant(value=known.is_null and node.word in {"NULL", "UNKNOWN"})
        if not _is_condition(node.child) and not isinstance(node.child, syn.Name):
            return self._opaque(node)
        inner = self.condition(node.child, resolved=False)
        if node.word in {"NULL", "UNKNOWN"}:
            found = is_null(inner)
        else:
            found = is_true(inner if node.word == "TRUE" else Not(child=inner))
        return self._opaque(node) if found is None else found

    def _membership(self, node: syn.In, *, resolved: bool) -> Predicate:
        known = [find_constant(item) for item in node.items]
        if None in known:
            return self._opaque(node, resolved=resolved)
        if not isinstance(node.child, syn.Name):
            if not _are_alike(known):
                return self._opaque(node, resolved=resolved)
            parts = [self._compare_computed(node.child, Operator.EQUAL, one) for one in known if one]
            if None in parts or any(not isinstance(part, Comparison) for part in parts):
                return self._opaque(node, resolved=resolved)
            members = [part for part in parts if isinstance(part, Comparison)]
            return InList(
                column=members[0].column, literals=tuple(dict.fromkeys(one.literal for one in members))
            )
        column = self.find(node.child.names)
        is_python = any(one.is_python for one in known if one is not None)
        resolved = resolved and (len(column.names) == 1 or is_python)
        found = [compare(column, Operator.EQUAL, one, resolved=resolved) for one in known if one is not None]
        if None in found:
            return self._opaque(node, resolved=resolved, withheld=True)
        literals = tuple(dict.fromkeys(one.literal for one in found if isinstance(one, Comparison)))
        member = InList(column=column.path, literals=literals) if literals else never(column.path)
        return Or(children=(member, NULL)) if NULL in found else member

    def _range(self, node: Syntax, child: Syntax, low: Syntax, high: Syntax, *, resolved: bool) -> Predicate:
        bounds = (find_constant(low), find_constant(high))
        operators = (Operator.GREATER_EQUAL, Operator.LESS_EQUAL)
        if None in bounds:
            return self._opaque(node, resolved=resolved)
        if not isinstance(child, syn.Name):
            if not _are_alike(bounds):
                return self._opaque(node, resolved=resolved)
            both = [
                self._compare_computed(child, operator, bound)
                for operator, bound in zip(operators, bounds, strict=True)
                if bound is not None
            ]
            known = tuple(part for part in both if part is not None)
            return And(children=known) if len(known) == 2 else self._opaque(node, resolved=resolved)
        column = self.find(child.names)
        parts = tuple(
            compare(column, operator, bound, resolved=resolved)
            for operator, bound in zip(operators, bounds, strict=True)
            if bound is not None
        )
        if None in parts:
            return self._opaque(node, resolved=resolved, withheld=True)
        return And(children=tuple(part for part in parts if part is not None))

    def _pattern(self, node: syn.Matches) -> Predicate:
        known = find_constant(node.pattern)
        column = self.subject(node.child)
        is_pattern = known is not None and isinstance(known.value, str)
        if column is None or (
            not isinstance(node.child, syn.Name) and not (is_pattern and is_text(column.type))
        ):
            return self._opaque(node)
        if not is_text(plain_type(column.type)):
            raise InvalidRequestError(
                f"Column {column.path} is {column.type}; LIKE compares strings",
                "Cast it: CAST(x AS STRING) LIKE …",
            )
        if known is not None and known.is_null:
            return NULL
        if known is None or not isinstance(known.value, str):
            raise InvalidRequestError("LIKE takes a pattern that is a string", "Write LIKE 'abc%'.")
        pattern = lance_pattern(known.value, node.escape)
        return Like(column=column.path, pattern=pattern, ignore_case=node.ignore_case)

    def _function(self, node: syn.Function, name: str, arguments: tuple[Syntax, ...]) -> Predicate:
        if name == "is_valid":
            if len(arguments) != 1:
                raise InvalidRequestError("is_valid takes one argument", "Write x IS NOT NULL.")
            return Not(child=self.condition(syn.Test(arguments[0], "NULL"), resolved=False))
        subject = self.subject(node)
        if subject is not None and pa.types.is_boolean(subject.type):
            literal = Literal(value=True, type=pa.bool_())
            return Comparison(column=subject.path, operator=Operator.EQUAL, literal=literal)
        call = bind_call(self, node, name, arguments)
        return self._opaque(node) if call is None else call

    def _opaque(self, node: Syntax, *, resolved: bool = True, withheld: bool = False) -> Opaque:
        self._check_texts(node)
        sql, columns = self.text(node)
        # Lance reads literals otherwise under NOT. Two of them keep that meaning wherever the text is put.
        return Opaque(sql=sql if resolved else f"(NOT (NOT {sql}))", columns=columns, withheld=withheld)

    def _check_texts(self, node: Syntax) -> None:
        """Refuse to compare strings with something else: Lance casts each row, and fails at the first that is no number.

        When that string has a NUL, the message of that error even ends the process (pylance 14).
        """
        match node:
            case syn.Negation(child=child):
                self._check_texts(child)
                return
            case syn.Binary(sign=sign, left=left, right=right) if sign in _COMPARISONS:
                sides: tuple[Syntax, ...] = (left, right)
            case syn.Distinct(left=left, right=right):
                sides = (left, right)
            case syn.In(child=child, items=items):
                sides = (child, *items)
            case syn.Between(child=child, low=low, high=high):
                sides = (child, low, high)
            case _:
                return
        types = [type_ for type_ in map(self._type, sides) if type_ is not None]
        texts = [type_ for type_ in types if is_text(type_)]
        others = [type_ for type_ in types if not is_text(type_)]
        if texts and others:
            raise InvalidRequestError(
                f"{self.text(node)[0]} compares {texts[0]} with {others[0]}",
                "Cast one side: CAST(x AS STRING), or TRY_CAST(s AS BIGINT), which is NULL where it fails.",
            )

    def _type(self, node: Syntax) -> pa.DataType | None:
        if isinstance(node, syn.Name):
            return plain_type(self.find(node.names).type)
        known = find_constant(node)
        return known.type if known is not None and not isinstance(node, syn.Text) else None

    def text(self, node: Syntax) -> tuple[str, tuple[str, ...]]:
        """The expression as SQL, and the columns in it."""
        seen: dict[str, None] = {}
        sql = render(node, self.find, seen)
        return sql, tuple(seen)


_TRUTHS = frozenset({Operator.EQUAL, Operator.NOT_EQUAL})


def _are_alike(known: Sequence[Known | None]) -> bool:
    """False for constants of several types: beside an expression Lance gives all of them one type first."""
    return len({(one.type, type(one.value)) for one in known if one is not None}) <= 1


def _is_condition(node: Syntax) -> bool:
    return isinstance(node, _CONDITIONS) or (isinstance(node, syn.Binary) and node.sign in _COMPARISONS)


def _holds(order: int, operator: Operator) -> bool:
    return {
        Operator.EQUAL: order == 0,
        Operator.NOT_EQUAL: order != 0,
        Operator.LESS: order < 0,
        Operator.LESS_EQUAL: order <= 0,
        Operator.GREATER: order > 0,
        Operator.GREATER_EQUAL: order >= 0,
    }[operator]


def _refuse_value(binder: _Binder, node: Syntax) -> NoReturn:
    sql, _ = binder.text(node)
    raise InvalidRequestError(f"{sql} is a value and no condition", "Compare it with something.")
