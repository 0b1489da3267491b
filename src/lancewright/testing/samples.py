"""Makes odd rows and conditions to try an index with. Everything follows from a seed."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lancewright.model.predicate import And, Comparison, InList, IsNull, Like, Literal, Not, Operator, Or

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator

    from lancewright.model.predicate import Predicate
    from lancewright.testing.harness import Case

    Columns = tuple[pa.Array, ...]

_LIST_MAX = 4
_NULLS = 0.15


class Samples:
    """Rows and conditions for the keys of a case."""

    def __init__(self, seed: int = 0) -> None:
        """Make a source of chance."""
        self.random: Generator = np.random.default_rng(seed)

    def rows(self, case: Case, count: int, nulls: float = _NULLS) -> Columns:
        """Rows of odd values, each of which comes often."""
        return tuple(self._column(type_, count, nulls) for type_ in case.types)

    def group(self, case: Case) -> tuple[Predicate, ...]:
        """Some conditions that must all be TRUE."""
        return tuple(self.condition(case) for _ in range(self.random.integers(1, 4)))

    def condition(self, case: Case) -> Predicate:
        """One condition on one key."""
        place = int(self.random.integers(0, len(case.types)))
        column, type_ = f"k{place}", case.types[place]
        if pa.types.is_fixed_size_list(type_):  # no condition compares vectors
            forms_of_vectors = (IsNull(column=column), Not(child=IsNull(column=column)))
            return forms_of_vectors[self.random.integers(0, 2)]
        literals = [Literal(value=value, type=type_) for value in _values(type_)]

        def pick() -> Literal:
            return literals[self.random.integers(0, len(literals))]

        forms: list[Callable[[], Predicate]] = [
            lambda: Comparison(column=column, operator=Operator.EQUAL, literal=pick()),
            lambda: Comparison(
                column=column, operator=list(Operator)[self.random.integers(0, len(Operator))], literal=pick()
            ),
            lambda: InList(
                column=column, literals=tuple(pick() for _ in range(self.random.integers(1, _LIST_MAX)))
            ),
            lambda: Not(child=InList(column=column, literals=(pick(), pick()))),
            lambda: IsNull(column=column),
            lambda: Not(child=IsNull(column=column)),
        ]
        if pa.types.is_string(type_):
            prefixes = [text for text in _values(type_) if text and "%" not in text and "_" not in text]
            forms.append(
                lambda: Like(column=column, pattern=f"{prefixes[self.random.integers(0, len(prefixes))]}%")
            )
        return forms[self.random.integers(0, len(forms))]()

    def tree(self, case: Case, depth: int = 2) -> Predicate:
        """AND, OR and NOT over conditions, at most so deep."""
        if depth == 0:
            return self.condition(case)
        children = tuple(self.tree(case, depth - 1) for _ in range(self.random.integers(1, 4)))
        forms: list[Callable[[], Predicate]] = [
            lambda: And(children=children) if len(children) > 1 else children[0],
            lambda: Or(children=children) if len(children) > 1 else children[0],
            lambda: Not(child=children[0]),
        ]
        return forms[self.random.integers(0, len(forms))]()

    def bounds(self, case: Case) -> list[Predicate]:
        """Every comparison of the first key with every odd value; vectors have none."""
        if pa.types.is_fixed_size_list(case.types[0]):
            return []
        literals = [Literal(value=value, type=case.types[0]) for value in _values(case.types[0])]
        return [
            Comparison(column="k0", operator=operator, literal=literal)
            for operator in Operator
            for literal in literals
        ]

    def equal(self, case: Case, columns: Columns, row: int) -> Predicate:
        """The keys of one row, none of which is NULL."""
        parts = tuple(
            Comparison(
                column=f"k{place}",
                operator=Operator.EQUAL,
                literal=_literal(columns[place][row], type_),
            )
            for place, type_ in enumerate(case.types)
        )
        return parts[0] if len(parts) == 1 else And(children=parts)

    def many_rows(self, case: Case, count: int) -> Columns:
        """Rows with many different values."""
        return tuple(_different(type_, self.random, count) for type_ in case.types)

    def _column(self, type_: pa.DataType, count: int, nulls: float) -> pa.Array:
        values = _values(type_)
        chosen = [values[place] for place in self.random.integers(0, len(values), count)]
        return pa.array(chosen, type_, mask=self.random.random(count) < nulls)


def _values(type_: pa.DataType) -> list[Any]:  # noqa: PLR0911 - one for each type; Any: of the type
    if pa.types.is_fixed_size_list(type_):
        return _vectors(type_)
    if pa.types.is_boolean(type_):
        return [True, False]
    if pa.types.is_integer(type_):
        low, high = (0, 2**type_.bit_width - 1)
        if pa.types.is_signed_integer(type_):
            low, high = -(2 ** (type_.bit_width - 1)), 2 ** (type_.bit_width - 1) - 1
        return [low, low + 1, *range(max(low, -3), 8), high - 1, high]
    if pa.types.is_floating(type_):
        return [-math.inf, -1.5, -0.0, 0.0, 0.25, 0.5, 1.5, 3.0, math.inf, math.nan]
    if pa.types.is_decimal(type_):
        return [
            Decimal(text) for text in ("-99999999.99", "-1.50", "-0.01", "0", "0.01", "2.25", "99999999.99")
        ]
    if pa.types.is_string(type_):
        return ["", "a", "ab", "abc", "abd", "b", "b%c", "É", "zz", "z" * 40, "\U0010ffff"]
    if pa.types.is_binary(type_):
        return [b"", b"\x00", b"\x00\x00", b"a", b"ab", b"\xff", b"\xff\xff"]
    if pa.types.is_date32(type_):
        return [-1, 0, 1, 20_000, 20_001]
    return [-(10**9), -1, 0, 1, 10**15, 10**15 + 1]


def _vectors(type_: pa.DataType) -> list[list[Any]]:
    """Vectors of small numbers, each of whose numbers may be odd."""
    random, numbers = np.random.default_rng(type_.list_size), _values(type_.value_type)
    small = [one for one in numbers if abs(one) <= 8]
    plain = [random.choice(small, type_.list_size).tolist() for _ in range(120)]
    return [*plain, *([one] * type_.list_size for one in numbers)]


def _different(  # noqa: PLR0911 - as above
    type_: pa.DataType, random: Generator, count: int
) -> pa.Array:
    numbers = random.permutation(count)
    if pa.types.is_fixed_size_list(type_):
        flat = random.integers(0, 200, count * type_.list_size)
        return pa.FixedSizeListArray.from_arrays(pa.array(flat).cast(type_.value_type), type=type_)
    if pa.types.is_string(type_):
        return pa.array([f"value-{number:09d}" for number in numbers.tolist()], type_)
    if pa.types.is_binary(type_):
        return pa.array([f"value-{number:09d}".encode() for number in numbers.tolist()], type_)
    if pa.types.is_boolean(type_):
        return pa.array(numbers % 2 == 0)
    if pa.types.is_decimal(type_):
        return pa.array([Decimal(number) / 100 for number in numbers.tolist()], type_)
    if pa.types.is_integer(type_):
        return pa.array(numbers % (2 ** min(31, type_.bit_width - 1)), pa.int64()).cast(type_)
    if pa.types.is_floating(type_):
        return pa.array(numbers * 0.5, type_)
    return pa.array(numbers, pa.int64() if type_.bit_width == 64 else pa.int32()).view(type_)


def _literal(scalar: pa.Scalar, type_: pa.DataType) -> Literal:
    value = scalar.value if pa.types.is_temporal(type_) else scalar.as_py()
    return Literal(value=value, type=type_)
