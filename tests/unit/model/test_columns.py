"""Which column a path means, and how a name is written so that Lance reads it as that name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lancewright.errors import InvalidRequestError
from lancewright.model.columns import find_column, quote_name, split_path
from support.values import column

if TYPE_CHECKING:
    from pathlib import Path

    from lancewright.model.columns import Column

ODD_NAMES = (
    "user id", "odd name-1", "ünï", "日本", "1st", '"quoted"', "it's", "UPPER", " lead", "two\nlines", "_rowid2",
    "null", "true", "false", "not", "select", "with", "exists", "interval", "trim",
    "current_date", "current_time", "current_timestamp", "order", "case", "between",
)  # fmt: skip


def _table(*paths: tuple[str, ...]) -> dict[tuple[str, ...], Column]:
    return {names: column(*names, field_id=number) for number, names in enumerate(paths)}


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
@example(["a.b", "`", "``", "a`.`b"])
@example(["null", "SELECT"])
def test_a_path_of_quoted_names_is_cut_into_the_same_names(names: list[str]) -> None:
    assert split_path(".".join(quote_name(name) for name in names)) == tuple(names)


@given(st.text())
def test_any_text_is_cut_into_names_or_refused_as_a_path(path: str) -> None:
    try:
        names = split_path(path)
    except InvalidRequestError as error:
        assert repr(path) in error.problem  # noqa: PT017 - either end is right
    else:
        assert split_path(".".join(quote_name(name) for name in names)) == names


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b", "`a", "a`b`", "`a`b", "``", "a.``"])
def test_what_is_no_path_is_refused_with_how_to_write_one(path: str) -> None:
    with pytest.raises(InvalidRequestError, match="backticks"):
        split_path(path)


@pytest.mark.parametrize("name", ["id", "_x", "camelCase", "a1"])
def test_a_plain_name_is_written_as_it_is(name: str) -> None:
    assert quote_name(name) == name


def test_lance_reads_every_quoted_name_as_that_column(tmp_path: Path) -> None:
    table = pa.table({name: range(number, number + 10) for number, name in enumerate(ODD_NAMES)})
    dataset = lance.write_dataset(table, tmp_path / "odd")

    for number, name in enumerate(ODD_NAMES):
        predicate = f"NOT ({quote_name(name)} > {number + 2}) AND {quote_name(name)} IS NOT NULL"
        assert dataset.count_rows(predicate) == 3, name


@given(st.sets(st.text(min_size=1, max_size=3), min_size=1, max_size=8))
def test_a_column_is_found_under_the_path_it_shows(names: set[str]) -> None:
    columns = _table(*((name,) for name in sorted(names)))

    for wanted in columns.values():
        assert find_column(columns, wanted.path) is wanted


def test_a_nested_field_is_found_under_its_dotted_path() -> None:
    columns = _table(("meta",), ("meta", "user id"), ("meta", "a.b"))

    assert find_column(columns, "meta.`user id`").names == ("meta", "user id")
    assert find_column(columns, "meta.`a.b`").names == ("meta", "a.b")


def test_a_top_level_name_needs_no_quotes() -> None:
    columns = _table(("user id",), ("back`tick",), ("a.b",), ("a",), ("a", "b"))

    assert find_column(columns, "user id").names == ("user id",)
    assert find_column(columns, "back`tick").names == ("back`tick",)
    assert find_column(columns, "a.b").names == ("a.b",)


def test_an_exact_name_wins_over_one_in_another_case() -> None:
    columns = _table(("id",), ("ID",))

    assert find_column(columns, "ID").names == ("ID",)
    assert find_column(columns, "id").names == ("id",)


def test_a_name_in_another_case_is_found_when_only_one_matches() -> None:
    columns = _table(("UserId",), ("Meta",), ("Meta", "Key"))

    assert find_column(columns, "userid").names == ("UserId",)
    assert find_column(columns, "META.key").names == ("Meta", "Key")


def test_a_name_that_matches_two_columns_in_another_case_is_refused_with_both() -> None:
    columns = _table(("id",), ("ID",), ("other",))

    with pytest.raises(InvalidRequestError, match="may mean any of id, ID") as caught:
        find_column(columns, "Id")

    assert "other" not in str(caught.value)


def test_an_unknown_column_is_refused_with_the_columns_there_are() -> None:
    columns = _table(("id",), ("user id",), ("meta",), ("meta", "key"))

    with pytest.raises(InvalidRequestError) as caught:
        find_column(columns, "nope")

    assert "'nope'" in caught.value.problem
    assert "id, `user id`, meta, meta.key" in caught.value.remedy


def test_a_wide_table_does_not_flood_the_message() -> None:
    columns = _table(*((f"c{number}",) for number in range(500)))

    with pytest.raises(InvalidRequestError, match="and 488 more") as caught:
        find_column(columns, "nope")

    assert len(str(caught.value)) < 300
