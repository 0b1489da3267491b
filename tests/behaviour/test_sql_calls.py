"""What a call of a table function and a statement about indexes do, without Spark."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import lancewright as lw
from lancewright.model.sql.statements import read_statement
from lancewright.sql_verbs.functions import FunctionCall, answer_call, list_functions, pin_call
from lancewright.sql_verbs.run import run_statement
from support.searching import WIDTH, add_text_index, write_rows

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return write_rows(tmp_path, 60, fragments=3)


def call(function: str, *positional: Any, **named: Any) -> FunctionCall:
    return FunctionCall(function=function, positional=positional, named=named)


def test_every_function_says_the_schema_of_the_rows_it_gives(uri: str, tmp_path: Path) -> None:
    add_text_index(uri, [[0, 1], [2]])
    (tmp_path / "ranked").mkdir()
    ranked = write_rows(tmp_path / "ranked", 60)
    lw.open(ranked, progress=False).create_index("vector", kind="hnsw")
    query = f'{{"vector": {[0.5] * WIDTH}}}'
    vector = [Decimal("0.5")] * WIDTH
    calls = [
        call("lance_scan", uri, "id < 5", columns=["_rowaddr", "id", "vector"]),
        call("lance_vector_search", uri, vector, k=3, columns=["id", "_rowid"]),
        call("lance_vector_search", uri, [vector, vector], k=3),
        call("lance_text_search", uri, "alpha", k=3),
        call("lance_hybrid_search", uri, vector, "alpha", k=3, columns=["_rowaddr", "id"]),
        call("lance_index_search", ranked, query, k=3, columns=["id", "_rowid"]),
        call("lance_indexes", uri),
        call("lance_explain", uri, "id = 3"),
    ]

    assert {one.function for one in calls} == set(list_functions())
    for one in calls:
        answer = answer_call(one)
        assert answer.to_arrow().schema.equals(answer.schema()), one
        assert answer.to_arrow().num_rows > 0


def test_an_argument_that_is_null_was_not_given(uri: str) -> None:
    assert answer_call(call("lance_scan", uri, None, limit=None)).to_arrow().num_rows == 60


def test_a_pinned_call_keeps_to_the_version_it_was_pinned_at(uri: str) -> None:
    pinned = pin_call(call("lance_scan", uri, "id >= 0"))

    lance.dataset(uri).delete("id < 10")

    assert answer_call(pinned).to_arrow().num_rows == 60
    assert answer_call(call("lance_scan", uri, "id >= 0")).to_arrow().num_rows == 50


@pytest.mark.parametrize(
    ("positional", "named", "message"),
    [
        ((), {}, "not given 'table'"),
        (("t",), {"table": "t"}, "table twice"),
        (("t",), {"colums": ["id"]}, "takes no 'colums'"),
        (("t", *range(20)), {}, "21 arguments"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(
    positional: tuple[Any, ...], named: dict[str, Any], message: str
) -> None:
    with pytest.raises(lw.InvalidRequestError, match=message):
        answer_call(call("lance_scan", *positional, **named))


def test_no_text_of_a_call_tells_a_credential() -> None:
    secret = FunctionCall(function="lance_scan", storage_options={"aws_secret_access_key": "hidden-secret"})

    assert "hidden-secret" not in f"{secret!r}"


def run(uri: str, text: str) -> list[dict[str, Any]]:
    place = f"`{uri}`" if "(TABLE_HERE" not in text else f"'{uri}'"
    statement = read_statement(text.replace("TABLE_HERE", place))
    assert statement is not None
    found: list[dict[str, Any]] = run_statement(lw.open(uri, progress=False), statement).to_pylist()
    return found


def test_an_index_is_created_once_shown_explained_and_dropped(uri: str) -> None:
    create = (
        "CREATE INDEX IF NOT EXISTS by_id ON TABLE_HERE USING btree (id) WITH (segments = 1, zone_size = 16)"
    )

    assert [row["created"] for _ in range(2) for row in run(uri, create)] == [True, False]
    assert [row["name"] for row in run(uri, "SHOW INDEXES ON TABLE_HERE")] == ["by_id"]
    assert "by_id (btree)" in run(uri, "EXPLAIN INDEX ON TABLE_HERE WHERE id = 3")[0]["plan"]
    assert run(uri, "EXPLAIN INDEX ON TABLE_HERE")[0]["plan"].startswith("Scan ")
    assert [row["dropped"] for row in run(uri, "DROP INDEX by_id ON TABLE_HERE")] == [True]
    assert [row["dropped"] for row in run(uri, "DROP INDEX IF EXISTS by_id ON TABLE_HERE")] == [False]
    assert run(uri, "SHOW INDEXES ON TABLE_HERE") == []


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("CREATE INDEX i ON TABLE_HERE USING btri (id)", lw.InvalidRequestError, "btri"),
        ("CREATE INDEX i ON TABLE_HERE USING btree (nobody)", lw.InvalidRequestError, "nobody"),
        ("CREATE INDEX i ON TABLE_HERE USING btree (id) WITH (zone = 1)", lw.InvalidRequestError, "zone"),
        (
            "CREATE INDEX i ON TABLE_HERE USING btree (id) WITH (segments = 'x')",
            lw.InvalidRequestError,
            "segments",
        ),
        ("DROP INDEX nobody ON TABLE_HERE", lw.NotFoundError, "nobody"),
        ("EXPLAIN INDEX ON TABLE_HERE WHERE nobody = 1", lw.InvalidRequestError, "nobody"),
        ("EXPLAIN INDEX ON TABLE_HERE WHERE id = 1) OR (id = 2", lw.InvalidRequestError, "id = 1"),
    ],
)
def test_a_statement_that_cannot_be_carried_out_says_why(
    uri: str, text: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run(uri, text)


def test_hostile_names_are_names_and_nothing_else(tmp_path: Path) -> None:
    name = "x` = 1 OR `y'; DROP INDEX z"
    quoted = name.replace("`", "``")
    uri = str(tmp_path / "t'; DROP TABLE x --")
    lance.write_dataset(pa.table({"id": [1, 2]}), uri)

    (made,) = run(uri, f"CREATE INDEX `{quoted}` ON TABLE_HERE USING btree (id)")

    assert made["name"] == name
    assert [row["name"] for row in run(uri, "SHOW INDEXES ON TABLE_HERE")] == [name]


def test_lance_explain_and_explain_index_tell_of_searches_what_search_explains(uri: str) -> None:
    add_text_index(uri, [[0, 1], [2]])
    table = lw.open(uri, progress=False)
    vector = [0.5] * WIDTH
    explain = "EXPLAIN INDEX SELECT id FROM lance_vector_search(TABLE_HERE, VECTOR_HERE, k => 3, where => 'id > 4');"

    told = answer_call(call("lance_explain", uri, "id > 4", vector=vector, k=3)).to_arrow()
    words = answer_call(call("lance_explain", uri, text="alpha")).to_arrow()
    both = answer_call(call("lance_explain", uri, vector=vector, text="alpha", analyze=True)).to_arrow()
    plan = run(uri, explain.replace("VECTOR_HERE", f"array({', '.join(map(str, vector))})"))[0]["plan"]

    search = table.search(vector, k=3, where="id > 4")
    assert told.equals(search.explain().to_arrow())
    assert plan == search.explain().to_text()
    assert words["reason"].to_pylist() == both["reason"].to_pylist() == ["USED"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "nothing to explain"),
        ({"k": 3}, "nothing to explain"),
        ({"where": "id > 3", "k": 3}, "takes no 'k' for what lance_scan does"),
        ({"text": "alpha", "nprobes": 3}, "takes no 'nprobes' for what lance_text_search does"),
        ({"vector": [1.0]}, "dimensions"),
        ({"vector": [1.0] * WIDTH, "where": "nobody = 1"}, "nobody"),
    ],
)
def test_lance_explain_refuses_what_the_search_would(
    uri: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(lw.InvalidRequestError, match=message):
        answer_call(call("lance_explain", uri, **arguments))


@pytest.mark.parametrize(
    "statement",
    [
        "EXPLAIN INDEX SELECT * FROM lance_scan(TABLE_HERE) WHERE id = 3",
        "EXPLAIN INDEX SELECT * FROM lance_scan(concat('a', 'b'))",
        "EXPLAIN INDEX SELECT * FROM nobody(TABLE_HERE)",
        "EXPLAIN INDEX SELECT * FROM lance_indexes(TABLE_HERE)",
        "EXPLAIN INDEX SELECT * FROM lance_scan(TABLE_HERE), lance_scan(TABLE_HERE)",
    ],
)
def test_explain_index_refuses_what_is_not_one_function_that_finds_rows(uri: str, statement: str) -> None:
    with pytest.raises(lw.InvalidRequestError, match=r"one table function|finds no rows"):
        run(uri, statement)
