"""No value and no name becomes part of a filter's structure, whatever characters it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import lancewright as lw
from lancewright.model.predicate import Opaque, parse_predicate, resolve_where, to_lance_sql
from properties.predicates import columns_of_schema

if TYPE_CHECKING:
    from pathlib import Path

NASTY = (
    "' OR 1=1 --",
    "'; DELETE FROM t; --",
    "x') OR (TRUE",
    "\\' OR TRUE --",
    '" OR "" = "',
    "` OR TRUE --",
    "/* */",
    "-- comment",
    "#",
    "line\nbreak' OR TRUE",
    "carriage\rreturn",
    "nul\0' OR TRUE",
    "\u2019 OR TRUE",  # a typographic quote, which some databases take for one
    "\uff07 OR TRUE",
    "\u02bc",
    "''",
    "''''",
    "\\",
    "$$ OR TRUE $$",
    "{{1}}",
    "%s ? :x @y",
    "\u202e'",
)


@pytest.mark.parametrize("value", NASTY)
def test_a_value_finds_only_the_row_that_has_it(value: str, tmp_path: Path) -> None:
    table = pa.table({"name": [value, "other", None], "row": [0, 1, 2]})
    columns = columns_of_schema(table.schema)
    dataset = lance.write_dataset(table, tmp_path / "t")
    name = lw.col("name")
    asked = {
        "equal": (name == value, [0]),
        "in": (name.isin([value, "no"]), [0]),
        "starts": (name.startswith(value), [0]),
        "contains": (name.contains(value), [0]),
        "ends": (name.endswith(value), [0]),
        "like": (name.like("".join(f"!{c}" for c in value), escape="!"), [0]),
        "not": (~(name == value), [1]),
    }

    for way, (expression, rows) in asked.items():
        predicate = resolve_where(expression, columns)
        assert predicate is not None
        sql = to_lance_sql(predicate)

        assert dataset.scanner(filter=sql, columns=["row"]).to_table()["row"].to_pylist() == rows, (way, sql)
        assert to_lance_sql(parse_predicate(sql, columns)) == sql


@pytest.mark.parametrize("value", NASTY)
def test_bytes_find_only_the_row_that_has_them(value: str, tmp_path: Path) -> None:
    table = pa.table({"data": [value.encode(), b"other", None], "row": [0, 1, 2]})
    dataset = lance.write_dataset(table, tmp_path / "t")

    predicate = resolve_where(lw.col("data") == value.encode(), columns_of_schema(table.schema))

    assert predicate is not None
    found = dataset.scanner(filter=to_lance_sql(predicate), columns=["row"]).to_table()
    assert found["row"].to_pylist() == [0]


@pytest.mark.parametrize("name", [one for one in NASTY if not set("\0`") & set(one)])
def test_a_name_names_only_its_column(name: str, tmp_path: Path) -> None:
    table = pa.table({name: [1, 2, None], "row": [0, 1, 2]})
    dataset = lance.write_dataset(table, tmp_path / "t")
    columns = columns_of_schema(table.schema)
    column = columns[name,]

    for predicate in (
        resolve_where(lw.col(column.path) == 2, columns),
        parse_predicate(f"{column.path} = 2", columns),
    ):
        assert predicate is not None
        sql = to_lance_sql(predicate)

        assert dataset.scanner(filter=sql, columns=["row"]).to_table()["row"].to_pylist() == [1], sql


def test_a_name_with_a_backtick_is_refused_by_lance_and_never_misread(tmp_path: Path) -> None:
    table = pa.table({"` OR TRUE --": [1, 2, None], "row": [0, 1, 2]})
    dataset = lance.write_dataset(table, tmp_path / "t")
    columns = columns_of_schema(table.schema)

    predicate = resolve_where(lw.col("``` OR TRUE --`") == 2, columns)

    assert predicate is not None
    assert to_lance_sql(predicate) == "``` OR TRUE --` = 2"
    with pytest.raises(ValueError, match="does not exist"):
        dataset.scanner(filter=to_lance_sql(predicate), columns=["row"]).to_table()


@pytest.mark.parametrize("value", NASTY)
def test_text_in_a_part_only_lance_evaluates_stays_text(value: str) -> None:
    columns = columns_of_schema(pa.schema([("name", pa.string())]))
    quoted = value.replace("'", "''")

    found = parse_predicate(f"lower(name) = '{quoted}'", columns)

    assert found == Opaque(sql=f"(lower(name) = '{quoted}')", columns=("name",))
