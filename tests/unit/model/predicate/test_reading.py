"""Which filter texts are read, as what, and which are refused with what to do instead."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lancewright.errors import InvalidRequestError
from lancewright.model.predicate import parse_predicate, simplify, to_lance_sql, to_negation_normal_form
from properties.predicates import columns_of_schema

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.int8()),
        ("unsigned", pa.uint64()),
        ("price", pa.decimal128(10, 2)),
        ("ratio", pa.float64()),
        ("weight", pa.float32()),
        ("name", pa.string()),
        ("flag", pa.bool_()),
        ("data", pa.binary()),
        ("code", pa.binary(2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("seconds", pa.timestamp("s")),
        ("zoned", pa.timestamp("us", tz="Europe/Berlin")),
        ("utc", pa.timestamp("us", tz="UTC")),
        ("clock", pa.time64("us")),
        ("tags", pa.list_(pa.string())),
        ("vector", pa.list_(pa.float32(), 2)),
        ("Mixed", pa.int64()),
        ("odd name", pa.int64()),
        ("user", pa.struct([("age", pa.int32()), ("full name", pa.string())])),
        ("document", pa.large_binary()),
        ("twin", pa.int64()),
        ("TWIN", pa.int64()),
    ]
)
COLUMNS = columns_of_schema(SCHEMA)
NEVER = "{0} IS NULL AND CAST(NULL AS BOOLEAN)"
ALWAYS = "{0} IS NOT NULL OR CAST(NULL AS BOOLEAN)"


def read(sql: str) -> str:
    return to_lance_sql(parse_predicate(sql, COLUMNS))


@pytest.mark.parametrize(
    "name", ["group", "order", "from", "where", "limit", "having", "union", "with", "on", "join"]
)
def test_words_of_other_clauses_are_names_where_an_operand_is_expected(name: str) -> None:
    columns = columns_of_schema(pa.schema([(name, pa.int64())]))

    assert parse_predicate(f"{name} = 2 AND {name} IN (1, 2)", columns)


@pytest.mark.parametrize(
    ("sql", "meaning"),
    [
        ("id < 2.5", "id <= 2"),
        ("id >= 2.5", "id > 2"),
        ("2.5 > id", "id <= 2"),
        ("id = 2.0", "id = 2"),
        ("id < 1e3", "id < 1000"),
        ("id = 2.5", NEVER.format("id")),
        ("id != 2.5", ALWAYS.format("id")),
        ("small < 1000", ALWAYS.format("small")),
        ("small > 127.5", NEVER.format("small")),
        ("small IN (1, 1000)", "small IN (1)"),
        ("unsigned > -1", ALWAYS.format("unsigned")),
        ("unsigned = 18446744073709551615", "unsigned = 18446744073709551615"),
        ("id > -9223372036854775808", "id > CAST('-9223372036854775808' AS BIGINT)"),
        ("id < CAST(2.5 AS DOUBLE)", "id <= 2"),
        ("id < CAST('NaN' AS DOUBLE)", ALWAYS.format("id")),
        ("price = 1.5", "price = arrow_cast('1.50', 'Decimal128(10, 2)')"),
        ("price < 1.505", "price <= arrow_cast('1.50', 'Decimal128(10, 2)')"),
        ("price = 99999999999", NEVER.format("price")),
        ("ratio = -0.0", "ratio = 0.0"),
        ("weight = 0.1", "weight = 0.10000000149011612"),
        ("NOT (weight < 0.1)", "NOT (weight <= 0.09999999403953552)"),
        ("weight < CAST(0.1 AS DOUBLE)", "weight <= 0.09999999403953552"),
        ("weight = CAST(0.1 AS DOUBLE)", NEVER.format("weight")),
        ("at >= '2026-11-01'", "at >= timestamp '2026-11-01 00:00:00'"),
        ("at >= date '2026-11-01'", "at >= timestamp '2026-11-01 00:00:00'"),
        ("at = '2026-11-01T01:02:03.000004+01:00'", None),
        ("seconds < '2026-11-01 00:00:00.5'", "seconds <= timestamp '2026-11-01 00:00:00'"),
        ("seconds = timestamp '2026-11-01 00:00:00.5'", "seconds = timestamp '2026-11-01 00:00:00'"),
        ("day < timestamp '2026-11-01 12:00:00'", "day <= date '2026-11-01'"),
        ("utc = '2026-11-01 01:00:00+01:00'", "utc = timestamp '2026-11-01 00:00:00'"),
        (
            "zoned = '2026-11-01 01:00:00'",
            "zoned = arrow_cast(arrow_cast('1793491200000000', 'Int64'), 'Timestamp(Microsecond, Some(\"Europe/Berlin\"))')",
        ),
        ("clock > '12:00'", "clock > arrow_cast(arrow_cast('43200000000', 'Int64'), 'Time64(Microsecond)')"),
        ("data = X'00ff'", "data = X'00ff'"),
        ('name = "it\'s"', "name = 'it''s'"),
        ("name LIKE 'a!%' ESCAPE '!'", "name LIKE 'a\\%'"),
        ("name NOT LIKE 'a%'", "NOT (name LIKE 'a%')"),
        ("flag", "flag = TRUE"),
        ("NOT flag", "NOT (flag = TRUE)"),
        ("flag IS TRUE", "flag IS NOT NULL AND flag = TRUE"),
        ("(id > 1) = FALSE", "NOT (id > 1)"),
        ("id = NULL", "CAST(NULL AS BOOLEAN)"),
        ("id IN (1, NULL)", "id IN (1) OR CAST(NULL AS BOOLEAN)"),
        ("id BETWEEN 1 AND 3", "id >= 1 AND id <= 3"),
        ("id IS NOT DISTINCT FROM NULL", "id IS NULL"),
        ("id IS NOT DISTINCT FROM 3", "id IS NOT NULL AND id = 3"),
        ("is_valid(id)", "id IS NOT NULL"),
        ("MIXED = 1", "Mixed = 1"),
        ("`odd name` = 1", "`odd name` = 1"),
        ("User.Age = 1", "user.age = 1"),
        ("user.`full name` = 'x'", "user.`full name` = 'x'"),
        ("TWIN = 1", "TWIN = 1"),
        ("_rowid = 5", "_rowid = 5"),
        ("1 < 2", "TRUE"),
        ("id + 1 = 3", "((id + 1) = 3)"),
        ("starts_with(name, 'a')", "starts_with(name, 'a')"),
        ("list_has(tags, 'a')", "list_has(tags, 'a')"),
    ],
)
def test_a_filter_is_read_with_literals_of_the_columns_types(sql: str, meaning: str | None) -> None:
    if meaning is None:
        with pytest.raises(InvalidRequestError, match="cannot be compared"):
            read(sql)
    else:
        assert read(sql) == meaning


@pytest.mark.parametrize(
    ("sql", "problem", "remedy"),
    [
        ("nmae = 'x'", "nmae is not in the table", "Use name"),
        ("twiN = 1", "may mean twin or TWIN", "exactly"),
        ("tags.item = 'a'", "many values in a row", "array_has"),
        ("sarts_with(name, 'a')", "sarts_with is not one", "starts_with"),
        ("count(id) > 1", "count sees more than one row", "after the scan"),
        ("row_number() OVER (ORDER BY id) = 1", "ORDER", ""),
        ("rank() OVER () = 1", "window", "after the scan"),
        ("random() < 0.5", "random gives each task", "write it down"),
        ("current_timestamp > at", "current_timestamp", "another clock"),
        ("id IN (SELECT 1)", "SELECT", "Subqueries"),
        ("EXISTS (SELECT 1)", "EXISTS", "Subqueries"),
        ("CASE WHEN flag THEN 1 END = 1", "CASE", "AND and OR"),
        ("id = 1 --", "comment", "Leave comments out"),
        ("id /* */ = 1", "comment", "Leave comments out"),
        ("id = 1; DROP TABLE t", ";", "one condition"),
        ("id = 1)", "')'", "parentheses"),
        ("(id = 1", "needs ')' here", ""),
        ("id =", "ends too early", ""),
        ("id = 1 id", "'id'", ""),
        ("name = 'a", "not closed", "Close it"),
        ("name = 'a' 'b'", "'b'", ""),
        ("name = E'a'", "prefix", ""),
        ("id = 1_000", "followed by letters", ""),
        ("id = ?", "placeholder", "lw.col"),
        ("id & 1 = 1", "'&'", ""),
        ("", "is empty", ""),
        ("  ", "is empty", ""),
        ("id", "no condition by itself", "IS NOT NULL"),
        ("'a'", "no condition", ""),
        ("id = 'x'", "id is int64 and cannot be compared with 'x' (string)", ""),
        ("id = '2'", "cannot be compared", ""),
        ("name = 5", "name is string and cannot be compared with 5", ""),
        ("NOT (name = 5)", "cannot be compared", ""),
        ("name > id", "compares string with int64", "CAST"),
        ("flag = 1", "flag is bool", ""),
        ("at > 5", "at is timestamp", "'2026-11-30'"),
        ("at > 'soon'", "at is timestamp", "'2026-11-30'"),
        ("code = X'61'", "code is fixed_size_binary", "X'6162'"),
        ("vector = 1", "vector is fixed_size_list", "IS NULL"),
        ("user = 1", "user is struct", "fields"),
        ("id LIKE 'a'", "LIKE compares strings", "CAST"),
        ("name LIKE 'a' ESCAPE 'ab'", "not one character", ""),
        ("\"name\" = 'x'", '"name" is a string here', "`name`"),
        ('user."full name" = 1', "backticks do", ""),
        ("id = CAST('1' AS VARCHAR)", "needs a type", ""),
        ("(" * 60 + "flag" + ")" * 60, "nested too deeply", ""),
    ],
)
def test_what_cannot_be_asked_is_refused_with_what_to_do(sql: str, problem: str, remedy: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read(sql)

    assert problem in caught.value.problem
    assert remedy in caught.value.remedy


@pytest.mark.parametrize("function", ["json_get_int", "json_get_string", "json_get_bool", "json_get_float"])
def test_a_compared_json_value_is_a_call_an_index_may_answer(function: str) -> None:
    literal = {
        "json_get_int": "5",
        "json_get_string": "'x'",
        "json_get_bool": "TRUE",
        "json_get_float": "0.5",
    }

    found = parse_predicate(f"{literal[function]} = {function}(document, 'a')", COLUMNS)

    assert (found.function, found.column, found.operator.value) == (function, "document", "=")
    assert [one.value for one in found.arguments] == ["a"]


def test_the_items_of_a_list_are_literals_of_its_type() -> None:
    found = parse_predicate("array_has_any(tags, ['a', 'b'])", COLUMNS)

    assert [one.value for one in found.arguments[0]] == ["a", "b"]
    assert found.sql == "array_has_any(tags, ['a', 'b'])"


def test_a_chain_of_thousands_is_read_and_printed_flat() -> None:
    sql = " OR ".join(f"id = {number}" for number in range(5_000))

    found = to_negation_normal_form(parse_predicate(f"NOT ({sql})", COLUMNS))

    assert len(found.children) == 5_000
    assert to_lance_sql(found).startswith("id != 0 AND id != 1")


@pytest.mark.parametrize(
    ("sql", "simple"),
    [
        ("id = 2.5", "FALSE"),
        ("NOT (id = 2.5)", "id IS NOT NULL"),
        ("id < 5 AND id < 5.0", "id < 5"),
        ("id < 5 OR TRUE", "TRUE"),
        ("id < 5 AND NULL", "FALSE"),
        ("NOT (id < 5 AND NULL)", "id >= 5"),
        ("id < 5 AND (name = 'a' AND (flag AND id < 5))", "id < 5 AND name = 'a' AND flag = TRUE"),
        ("NOT (id < 5 OR NOT (flag AND name = 'a'))", "id >= 5 AND flag = TRUE AND name = 'a'"),
    ],
)
def test_a_simplified_filter_keeps_only_what_decides(sql: str, simple: str) -> None:
    found = simplify(to_negation_normal_form(parse_predicate(sql, COLUMNS)))

    assert to_lance_sql(found) == simple
