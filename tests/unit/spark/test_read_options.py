"""What the options of the data source mean, and which are refused."""

from __future__ import annotations

import pytest

from lancewright.errors import InvalidRequestError
from lancewright.spark.read_options import parse_columns, parse_options


def test_options_say_what_is_read() -> None:
    asked = parse_options(
        {
            "path": "/lake/t",
            "Version": "3",
            "branch": "dev",
            "columns": "id, user.age",
            "where": "id > 3",
            "LIMIT": "5",
            "use_indexes": "False",
            "strict": "TRUE",
        },
        {},
    )

    assert (asked.table.uri, asked.table.version, asked.table.branch) == ("/lake/t", 3, "dev")
    assert asked.columns == ("id", "user.age")
    assert (asked.where, asked.limit, asked.use_indexes, asked.strict) == ("id > 3", 5, False, True)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", ("a",)),
        (" a , b.c ", ("a", "b.c")),
        ("`odd, name`,b", ("`odd, name`", "b")),
        ("a.`x``y, z`", ("a.`x``y, z`",)),
        ('["a, b", "c"]', ("a, b", "c")),
    ],
)
def test_columns_are_a_list_with_commas_or_a_json_array(text: str, names: tuple[str, ...]) -> None:
    assert parse_columns(text) == names


@pytest.mark.parametrize("text", ["", " ", "a,", ",a", "a,,b", "[]", "[1]", "[a", "`a", '["a"'])
def test_what_is_no_list_of_columns_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="no list of columns"):
        parse_columns(text)


def test_a_column_named_twice_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="a twice"):
        parse_columns("a,b,a")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "No table was named"),
        ({"path": "t", "paths": "[]"}, "Several tables"),
        ({"path": "t", "wher": "x"}, "Did you mean 'where'"),
        ({"path": "t", "version": "x"}, "version='x'"),
        ({"path": "t", "version": "0"}, "1 or more"),
        ({"path": "t", "limit": "-1"}, "0 or more"),
        ({"path": "t", "strict": "yes"}, "neither true nor false"),
        ({"path": "t", "tag": "a", "version": "1"}, "Pass the tag alone"),
        ({"path": "t", "tag": "a", "branch": "b"}, "Pass the tag alone"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        parse_options(options, {})


def test_storage_options_of_a_query_replace_those_of_the_session() -> None:
    asked = parse_options(
        {"path": "s3://b/t", "storage.aws_region": "eu", "storage.aws_secret_access_key": "own-secret"},
        {"AWS_Secret_Access_Key": "session-secret", "allow_http": "true"},
    )

    assert dict(asked.table.storage_options) == {
        "allow_http": "true",
        "aws_region": "eu",
        "aws_secret_access_key": "own-secret",
    }


def test_no_text_of_what_is_asked_tells_a_credential() -> None:
    asked = parse_options(
        {"path": "s3://user:pass-word@b/t?sig=signature", "storage.aws_secret_access_key": "hidden-secret"},
        {},
    )

    told = f"{asked!r} {asked}"

    assert not any(secret in told for secret in ("hidden-secret", "pass-word", "signature"))


def test_the_value_of_an_unknown_option_is_not_told() -> None:
    with pytest.raises(InvalidRequestError) as raised:
        parse_options({"path": "t", "aws_secret_access_key": "hidden-secret"}, {})

    assert "hidden-secret" not in str(raised.value)
    assert "'storage.'" in str(raised.value)
