"""Random tables with columns of every type, and random predicates and filter texts about them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import strategies as st

from lancewright.model import predicate as tree
from lancewright.model.columns import Column
from properties.scalar_columns import COLUMN_TYPES, ColumnType

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEXTS = (
    "",
    "a",
    "A",
    "ab",
    "é",
    "É",
    "a%b",
    "a_b",
    "a\\b",
    "\\",
    "it's",
    "🦜",
    "ab\nc",
    '"',
    "`",
    "%",
    "x" * 40,
)
_PIECES = ("a", "b", "%", "_", "\\%", "\\_", "\\\\", "é", "A", "'", "🦜", "\n")
NAMES = ("c0", "c 1", "nest.field", "null", "it's")


@dataclass(frozen=True, kw_only=True, repr=False)
class World:
    """A table, the types of its columns and the values they were made of."""

    table: pa.Table
    types: dict[str, ColumnType]
    pools: dict[str, list[Any]]

    def __repr__(self) -> str:
        return f"{self.table.schema} {self.table.to_pylist()}"

    @property
    def columns(self) -> Mapping[tuple[str, ...], Column]:
        return columns_of_schema(self.table.schema)


def columns_of_schema(schema: pa.Schema) -> dict[tuple[str, ...], Column]:
    found: dict[tuple[str, ...], Column] = {}

    def add(names: tuple[str, ...], type_: pa.DataType) -> None:
        found[names] = Column(names=names, field_id=len(found), leaf_ids=(len(found),), type=type_)
        if pa.types.is_struct(type_):
            for field in type_:
                add((*names, field.name), field.type)
        if pa.types.is_list(type_):
            add((*names, type_.value_field.name), type_.value_type)

    for field in schema:
        add((field.name,), field.type)
    return found


@st.composite
def worlds(draw: st.DrawFn) -> World:
    size = draw(st.integers(1, 12))
    arrays: dict[str, pa.Array] = {"row": pa.array(range(size), pa.int64())}
    types, pools = {}, {}
    for name in ("c0", "c 1", "null", "it's"):
        kind = draw(st.sampled_from(COLUMN_TYPES))
        pool = draw(st.lists(kind.values, min_size=1, max_size=5))
        picked = draw(st.lists(st.one_of(st.none(), st.sampled_from(pool)), min_size=size, max_size=size))
        path = name if name == "c0" else f"`{name}`"
        types[path], pools[path], arrays[name] = kind, pool, kind.to_array(picked)
    kind = draw(st.sampled_from([one for one in COLUMN_TYPES if not pa.types.is_dictionary(one.type)]))
    pool = draw(st.lists(kind.values, min_size=1, max_size=5))
    inner = kind.to_array(
        draw(st.lists(st.one_of(st.none(), st.sampled_from(pool)), min_size=size, max_size=size))
    )
    holes = pa.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), pa.bool_())
    arrays["nest"] = pa.StructArray.from_arrays([inner], ["field"], mask=holes)
    types["nest.field"], pools["nest.field"] = kind, pool
    text = st.one_of(st.none(), st.sampled_from(_TEXTS), st.text(max_size=4))
    arrays["text"] = pa.array(draw(st.lists(text, min_size=size, max_size=size)), pa.string())
    flags = st.lists(st.sampled_from([None, True, False]), min_size=size, max_size=size)
    arrays["flag"] = pa.array(draw(flags), pa.bool_())
    return World(table=pa.table(arrays), types=types, pools=pools)


def literal(kind: ColumnType, value: Any) -> tree.Literal:
    """The value as it is in a column of this type."""
    type_ = kind.type.value_type if pa.types.is_dictionary(kind.type) else kind.type
    if pa.types.is_floating(type_):
        number = math.copysign(math.nan, -1 if value[0] == "-" else 1) if isinstance(value, str) else value
        return tree.Literal(value=number, type=type_)
    return tree.Literal(value=value, type=type_)


@st.composite
def atoms(draw: st.DrawFn, world: World) -> tree.Predicate:
    path = draw(st.sampled_from(sorted(world.types)))
    kind = world.types[path]
    value = st.one_of(st.sampled_from(world.pools[path]), kind.values).map(lambda one: literal(kind, one))
    pattern = st.lists(st.sampled_from(_PIECES), max_size=5).map("".join)
    some_text = st.one_of(st.sampled_from(_TEXTS), st.text(max_size=3))
    return draw(
        st.one_of(
            st.builds(
                tree.Comparison, column=st.just(path), operator=st.sampled_from(tree.Operator), literal=value
            ),
            st.builds(
                tree.InList, column=st.just(path), literals=st.lists(value, min_size=1, max_size=4).map(tuple)
            ),
            st.builds(tree.IsNull, column=st.sampled_from([path, "text", "flag", "nest"])),
            st.builds(
                tree.Like, column=st.just("text"), pattern=pattern, escape=st.sampled_from([None, "\\"])
            ),
            st.sampled_from([tree.TRUE, tree.FALSE, tree.NULL]),
            st.builds(
                tree.Comparison,
                column=st.just("flag"),
                operator=st.sampled_from([tree.Operator.EQUAL, tree.Operator.NOT_EQUAL]),
                literal=st.booleans().map(lambda flag: tree.Literal(value=flag, type=pa.bool_())),
            ),
            st.builds(
                tree.Comparison,
                column=st.just("text"),
                operator=st.sampled_from(tree.Operator),
                literal=some_text.map(lambda text: tree.Literal(value=text, type=pa.string())),
            ),
        )
    )


def predicates(world: World) -> st.SearchStrategy[tree.Predicate]:
    """Trees of up to a dozen atoms."""
    return st.recursive(
        atoms(world),
        lambda inner: st.one_of(
            st.builds(tree.Not, child=inner),
            st.builds(tree.And, children=st.lists(inner, min_size=2, max_size=3).map(tuple)),
            st.builds(tree.Or, children=st.lists(inner, min_size=2, max_size=3).map(tuple)),
        ),
        max_leaves=10,
    )


_LOOSE = (
    "0", "2", "-3", "2.5", "-0.25", "1e3", "0.1", "127.5", "300", "9223372036854775807", "9223372036854775808",
    "18446744073709551615", "1e300", "CAST(2.5 AS DOUBLE)", "CAST(3 AS BIGINT)", "CAST('NaN' AS DOUBLE)",
    "CAST('-inf' AS DOUBLE)", "CAST(0.5 AS FLOAT)", "CAST(0.1 AS DOUBLE)", "CAST(-1 AS TINYINT)",
    "CAST('1.505' AS DECIMAL(10, 3))", "CAST(2 AS DECIMAL(10, 2))", "arrow_cast('7', 'UInt64')",
    "'a'", '"a"', "''", "'2'", "TRUE", "NULL", "X'61'", "X'6162636465'", "date '2020-01-01'", "date '1969-12-31'",
    "timestamp '2020-01-01 00:00:00'", "timestamp '1969-12-31 23:59:59.5'", "timestamp '2020-01-01T00:00:00Z'",
    "CAST('2020-01-01 00:00:00.000000001' AS TIMESTAMP(9))", "CAST('1970-01-01 00:00:01' AS TIMESTAMP(0))",
    "CAST('1969-12-31 23:59:59.999' AS TIMESTAMP(3))", "'2020-01-01'", "'1970-01-01 00:00:00'",
)  # fmt: skip


@st.composite
def _text_atoms(draw: st.DrawFn, world: World) -> str:
    paths = [*sorted(world.types), "text", "flag", "nest", "row"]
    path = draw(st.sampled_from(paths))
    own = (
        [world.types[path].literal(value) for value in world.pools[path]] if path in world.types else ["'ab'"]
    )
    constant = st.one_of(st.sampled_from(own), st.sampled_from(own), st.sampled_from(_LOOSE))
    other = st.one_of(constant, constant, constant, constant, st.sampled_from(paths))
    sign = draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "<>", "=="]))
    maybe = draw(st.sampled_from(["", "", "NOT "]))
    listed = ", ".join(draw(st.lists(other, min_size=1, max_size=3)))
    return draw(
        st.sampled_from(
            [
                f"{path} {sign} {draw(other)}",
                f"{path} {sign} {draw(other)}",
                f"{draw(constant)} {sign} {path}",
                f"{path} {maybe}IN ({listed})",
                f"{path} {maybe}BETWEEN {draw(other)} AND {draw(other)}",
                f"{path} IS {maybe}NULL",
                f"{path} IS {maybe}DISTINCT FROM {draw(constant)}",
                f"flag IS {maybe}{draw(st.sampled_from(['TRUE', 'FALSE']))}",
                "flag",
                "text LIKE 'a%'",
                f"text {maybe}ILIKE '_'",
                "starts_with(text, 'a')",
                "length(text) = 1",
                "row + 1 < 3",
                "coalesce(flag, TRUE)",
            ]
        )
    )


def filter_texts(world: World) -> st.SearchStrategy[str]:
    """Filters as people write them, some of them wrong."""
    return st.recursive(
        _text_atoms(world),
        lambda inner: st.one_of(
            inner.map(lambda one: f"NOT {one}"),
            inner.map(lambda one: f"NOT ({one})"),
            inner.map(lambda one: f"({one}) IS TRUE"),
            inner.map(lambda one: f"({one}) IS NOT NULL"),
            inner.map(lambda one: f"({one}) = FALSE"),
            st.tuples(inner, inner).map(" AND ".join),
            st.tuples(inner, inner).map(" OR ".join),
            st.tuples(inner, inner).map(lambda pair: f"({pair[0]} OR {pair[1]})"),
        ),
        max_leaves=4,
    )
