"""Random predicates over the columns of the tables of ``support.query_worlds``."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st

from lancewright.model.predicate import (
    And,
    Call,
    Comparison,
    InList,
    IsNull,
    Like,
    Literal,
    Not,
    Operator,
    Or,
    Predicate,
)
from support.query_worlds import FLOATS, INTS, TEXTS


def _comparisons(column: str, values: list[object], type_: pa.DataType) -> st.SearchStrategy[Predicate]:
    literals = st.sampled_from(values).map(lambda value: Literal(value=value, type=type_))
    return st.one_of(
        st.builds(Comparison, column=st.just(column), operator=st.sampled_from(Operator), literal=literals),
        st.builds(
            InList, column=st.just(column), literals=st.lists(literals, min_size=1, max_size=4).map(tuple)
        ),
        st.builds(IsNull, column=st.just(column)),
    )


def _call(function: str, column: str, text: str) -> Call:
    argument = Literal(value=text, type=pa.string())
    quoted = text.replace("'", "''")
    return Call(
        function=function, column=column, arguments=(argument,), sql=f"{function}({column}, '{quoted}')"
    )


PATTERNS = ["a%", "ab%", "%b%", "b_c", "z%g", "%"]
ATOMS = st.one_of(
    _comparisons("i", [*INTS], pa.int64()),
    _comparisons("f", [*FLOATS], pa.float64()),
    _comparisons("g", [*FLOATS], pa.float32()),
    _comparisons("s", [*TEXTS], pa.string()),
    _comparisons("t", [*range(-1, 10**7, 10**6)], pa.timestamp("us")),
    _comparisons("b", [True, False], pa.bool_()),
    _comparisons("n.x", [*range(7)], pa.int32()),
    _comparisons("other", [*range(10)], pa.int64()),
    st.builds(Like, column=st.just("s"), pattern=st.sampled_from(PATTERNS)),
    st.builds(_call, st.just("starts_with"), st.just("s"), st.sampled_from(["a", "ab", "z"])),
    st.builds(_call, st.just("contains"), st.just("s"), st.sampled_from(["", "b", "zeb", "crossing"])),
    st.builds(_call, st.just("array_has"), st.just("l"), st.sampled_from(TEXTS[:6])),
)
PREDICATES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds(lambda *parts: And(children=parts), inner, inner),
        st.builds(lambda *parts: And(children=parts), inner, inner, inner),
        st.builds(lambda *parts: Or(children=parts), inner, inner),
        st.builds(lambda part: Not(child=part), inner),
    ),
    max_leaves=6,
)
