"""Which statements are about indexes of Lance tables, what they say, and which are wrong."""

from __future__ import annotations

import pytest

from lancewright.errors import InvalidRequestError
from lancewright.model.sql.statements import (
    CreateIndex,
    DropIndex,
    ExplainIndex,
    ShowIndexes,
    Statement,
    read_statement,
)


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        (
            "CREATE INDEX by_id ON `/lake/t` USING btree (id)",
            CreateIndex(table="/lake/t", name="by_id", kind="btree", columns=("id",)),
        ),
        (
            (
                "create index if not exists `odd name` on table lance.`s3://b/t` using BTree (user.`first name`)\n"
                "with (zone_size = 1024, 'metric' = 'l2', train = false, ratio = -1.5, parts = array(1, 2)) ;"
            ),
            CreateIndex(
                table="s3://b/t",
                name="odd name",
                kind="btree",
                columns=("user.`first name`",),
                if_not_exists=True,
                parameters={
                    "zone_size": 1024,
                    "metric": "l2",
                    "train": False,
                    "ratio": -1.5,
                    "parts": [1, 2],
                },
            ),
        ),
        (
            "CREATE OR REPLACE INDEX i ON 'a.lance' USING fts (text) OPTIONS (k = NULL)",
            CreateIndex(
                table="a.lance", name="i", kind="fts", columns=("text",), replace=True, parameters={"k": None}
            ),
        ),
        ("DROP INDEX i ON lance.`/t`", DropIndex(table="/t", name="i")),
        ("drop index if exists `i` on `/t`;", DropIndex(table="/t", name="i", if_exists=True)),
        ("SHOW INDEXES ON `/t`", ShowIndexes(table="/t")),
        ("SHOW INDEXES FROM lancewright.`/t`", ShowIndexes(table="/t")),
        ("EXPLAIN INDEX ON `/t` WHERE id = 3", ExplainIndex(table="/t", where="id = 3")),
        (
            "EXPLAIN INDEX SELECT a, max(b) FROM lance.`/t` WHERE id = 3 AND s = 'GROUP BY' ;",
            ExplainIndex(table="/t", where="id = 3 AND s = 'GROUP BY'"),
        ),
        ("EXPLAIN INDEX SELECT * FROM `/t`", ExplainIndex(table="/t", where=None)),
        ("-- why\n/* and */ SHOW INDEXES ON `/t`", ShowIndexes(table="/t")),
    ],
)
def test_a_statement_about_an_index_is_read(text: str, statement: Statement) -> None:
    assert read_statement(text) == statement


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SELECT 1",
        "CREATE TABLE t (id int)",
        "CREATE OR REPLACE TEMP VIEW v AS SELECT 'CREATE INDEX'",
        "CREATE INDEX i ON catalog.db.t USING btree (id)",
        "CREATE INDEX i ON t (id)",
        "DROP INDEX i ON t",
        "DROP TABLE t",
        "SHOW TABLES",
        "EXPLAIN SELECT 1",
        "SELECT 'unended",
        "CREATE INDEX i ON `a`.`b` USING btree (id)",
    ],
)
def test_everything_else_is_sparks(text: str) -> None:
    assert read_statement(text) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE INDEX i ON `/t` (id)", "USING"),
        ("CREATE INDEX i ON `/t` USING btree", "ends where '\\('"),
        ("CREATE INDEX i ON `/t` USING btree (a b)", "'b'"),
        ("CREATE INDEX i ON `/t` USING btree (a,)", "a column"),
        ("CREATE INDEX i ON `/t` USING btree ()", "a column"),
        ("CREATE INDEX i ON `/t` USING btree (id) WITH (a = 1, a = 2)", "given twice"),
        ("CREATE INDEX i ON `/t` USING btree (id) WITH (a = b)", "'b' in line 1"),
        ("CREATE INDEX i ON `/t` USING btree (id) WITH (a = 1 + 1)", "'\\+'"),
        ("CREATE INDEX i ON `/t` USING btree (id); DROP INDEX i ON `/t`", "the end of the statement"),
        ("CREATE INDEX IF EXISTS i ON `/t` USING btree (id)", "NOT"),
        ("DROP INDEX i ON `/t` CASCADE", "'CASCADE'"),
        ("SHOW INDEXES ON t", "the place of a Lance table"),
        ("EXPLAIN INDEX SELECT a FROM t WHERE x", "the place of a Lance table"),
        ("EXPLAIN INDEX SELECT a FROM `/t` WHERE x = 1 ORDER BY a", "ORDER follows"),
        ("EXPLAIN INDEX ON `/t` WHERE", "a condition"),
        ("EXPLAIN INDEX ON `/t` WHERE a = 1; DROP TABLE x", "the end of the statement"),
    ],
)
def test_a_statement_that_is_wrong_says_where(text: str, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        read_statement(text)


def test_a_value_or_a_name_never_becomes_a_part_of_the_statement() -> None:
    evil = "i` ON `/other` USING btree (id) WITH (a = 'x'); DROP INDEX b ON `/t` --"
    quoted = evil.replace("`", "``")

    statement = read_statement(
        f"CREATE INDEX `{quoted}` ON `/t` USING btree (id) WITH (a = :value)", {"value": evil}
    )

    assert statement == CreateIndex(
        table="/t", name=evil, kind="btree", columns=("id",), parameters={"a": evil}
    )
    column = read_statement("CREATE INDEX i ON `/t` USING btree (`a``) OR (1`.b)")
    assert isinstance(column, CreateIndex)
    assert column.columns == ("`a``) OR (1`.b",)
    several = read_statement("CREATE INDEX i ON `/t` USING composite (a, b.c)")
    assert isinstance(several, CreateIndex)
    assert several.columns == ("a", "b.c")


def test_markers_take_their_values_from_those_that_were_passed() -> None:
    text = "CREATE INDEX i ON `/t` USING btree (id) WITH (a = ?, b = ?)"

    statement = read_statement(text, [1, "x"])

    assert isinstance(statement, CreateIndex)
    assert statement.parameters == {"a": 1, "b": "x"}
    with pytest.raises(InvalidRequestError, match=r"marker \? has no value"):
        read_statement(text, [1])
