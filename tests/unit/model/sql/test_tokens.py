"""How Spark's SQL is cut into tokens."""

from __future__ import annotations

import pytest

from lancewright.errors import InvalidRequestError
from lancewright.model.sql.tokens import TokenKind, cut_tokens


def values(text: str) -> list[str]:
    return [token.value for token in cut_tokens(text)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a'", "a"),
        ('"a"', "a"),
        ("'it''s'", "it's"),
        (r"'it\'s'", "it's"),
        ('"say ""x"""', 'say "x"'),
        (r"'a\\b\n'", "a\\b\n"),
        (r"'\u00e9'", "é"),
        (r"'a\%'", r"a\%"),
        (r"r'a\nb'", r"a\nb"),
        ("'a -- b /* c'", "a -- b /* c"),
        ("'`'", "`"),
    ],
)
def test_a_string_says_what_spark_takes_it_for(text: str, value: str) -> None:
    (token,) = cut_tokens(text)

    assert (token.kind, token.value, token.end) == (TokenKind.STRING, value, len(text))


def test_names_comments_and_symbols() -> None:
    text = "SELECT /* a /* nested */ 'x */ `odd ``name` -- 'rest\n FROM t WHERE a=>1.5e3 AND :who = ?"

    assert values(text) == [
        *("SELECT", "odd `name", "FROM", "t", "WHERE", "a", "=>", "1.5e3", "AND", ":who", "=", "?")
    ]


@pytest.mark.parametrize("text", ["'a", '"a', "`a", "/* a", "/* /* a */", r"'a\'", "r'a"])
def test_what_does_not_end_is_an_error(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="does not end"):
        cut_tokens(text)
