"""Which Lance tables and table functions a query reads."""

from __future__ import annotations

import pytest

from lancewright.errors import InvalidRequestError
from lancewright.model.sql.table_uses import TableUse, find_uses, replace_uses

FUNCTIONS = ("lance_scan", "lance_vector_search")


def uses(text: str, bound: object = None) -> list[TableUse]:
    return list(find_uses(text, FUNCTIONS, bound).uses)  # type: ignore[arg-type] # a list or a dict


def test_a_call_with_constants_is_found_with_its_arguments() -> None:
    text = "SELECT * FROM Lance_Scan('/t', where => 'id > 3', columns => array('a', 'b'), limit => 5) AS s WHERE a"

    (use,) = uses(text)

    assert text[use.start : use.end].startswith("Lance_Scan(")
    assert text[use.end :] == " AS s WHERE a"
    assert (use.function, use.positional) == ("lance_scan", ("/t",))
    assert use.named == {"where": "id > 3", "columns": ["a", "b"], "limit": 5}


def test_values_of_markers_are_arguments() -> None:
    text = "SELECT * FROM lance_vector_search('/t', ?, k => ?) WHERE x = ?"

    found = find_uses(text, FUNCTIONS, [[1.0, 2.0], 3, "x"])

    assert found.uses[0].positional == ("/t", [1.0, 2.0])
    assert found.uses[0].named == {"k": 3}
    assert found.markers == {0, 1}
    (named,) = uses("SELECT * FROM lance_vector_search(:t, vector => :q)", {"t": "/t", "q": [1, 2]})
    assert (named.positional, named.named) == (("/t",), {"vector": [1, 2]})


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("SELECT * FROM lance.`/a`", ["/a"]),
        ("SELECT * FROM lance.`/a` x JOIN lancewright.`s3://b/c` y ON x.i = y.i", ["/a", "s3://b/c"]),
        ("SELECT * FROM lance.`/a`, lance.`/b`", ["/a", "/b"]),
        ("SELECT lance.`id` FROM t lance, u WHERE lance.`id` = 1", []),
        ("SELECT a, lance.`id` FROM t lance", []),
        ("SELECT 'FROM lance.`/a`' -- FROM lance.`/b`", []),
        ("SELECT * FROM lance.`/a`.b", []),
        ("SELECT * FROM lance.t", []),
    ],
)
def test_a_place_after_the_name_of_the_format_is_a_table(text: str, places: list[str]) -> None:
    assert [use.positional[0] for use in uses(text)] == places


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM lance_scan(concat('/t', 'x'))",
        "SELECT * FROM lance_scan('/t', limit => 1 + 1)",
        "SELECT * FROM lance_scan(array(1 + 1))",
        "SELECT * FROM t, LATERAL lance_scan('/t')",
        "SELECT * FROM db.lance_scan('/t')",
        "SELECT lance_scan FROM t",
        "SELECT 'lance_scan(''/t'')'",
        "SELECT * FROM lance_scan('/t'",
        "SELECT * FROM lance_scan('/t",
        "DESCRIBE FUNCTION lance_scan",
        "CREATE TEMPORARY VIEW v AS SELECT * FROM lance_scan('/t')",
        "ALTER VIEW v AS SELECT * FROM lance_scan('/t')",
    ],
)
def test_what_spark_has_to_evaluate_is_left_to_spark(text: str) -> None:
    assert uses(text) == []


def test_a_table_made_of_a_query_reads_it_now() -> None:
    assert len(uses("CREATE TABLE t USING parquet AS SELECT * FROM lance_scan('/t')")) == 1
    assert len(uses("INSERT INTO t SELECT * FROM lance.`/t`")) == 1


def test_uses_are_replaced_and_other_braces_kept() -> None:
    text = "SELECT '{x}', '{lw}' FROM lance.`/{a}` WHERE m = '}'"

    replaced = replace_uses(text, uses(text), ["lw"], has_braces=False)

    assert replaced == "SELECT '{{x}}', '{{lw}}' FROM {lw} WHERE m = '}}'"
    assert replaced.format(lw="view") == "SELECT '{x}', '{lw}' FROM view WHERE m = '}'"


def test_a_marker_without_a_value_and_an_argument_given_twice_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="marker :q"):
        uses("SELECT * FROM lance_scan(:q)")
    with pytest.raises(InvalidRequestError, match="limit twice"):
        uses("SELECT * FROM lance_scan('/t', limit => 1, limit => 2)")
