"""A scan that cannot mean anything is refused before any task; no value and no name reaches beyond its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancewright as lw
from support.runners import UnusedRunner

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 60_000


class IdleRunner(UnusedRunner):
    """A plan may ask how many tasks run at once; none may run."""

    @property
    def parallelism(self) -> int:
        return 2


NASTY = "x' OR 1=1; DROP TABLE t --"
ODD_NAME = "k = 1 OR TRUE --"


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("bad") / "t")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(ROWS * 2, "f4")), 2)
    rows = pa.table(
        {
            "id": np.arange(ROWS),
            "name": [NASTY if number == 7 else f"n{number}" for number in range(ROWS)],
            ODD_NAME: np.arange(ROWS),
            "vector": vectors,
            "many": pa.array([[{"x": 1}]] * ROWS, pa.list_(pa.struct([("x", pa.int64())]))),
        }
    )
    lance.write_dataset(rows, path, max_rows_per_file=ROWS // 4)
    return path


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("nobody = 1", "nobody is not in the table"),
        ("nonsense(id) = 1", "nonsense"),
        ("id = 'seven'", "cannot be compared"),
        ("name > 3", "cannot be compared"),
        ("length(id) > 'a'", "."),
        ("vector = 1", "vector is fixed_size_list"),
        ("vector > '[1, 2]'", "vector is fixed_size_list"),
        ("vector IN (1, 2)", "vector is fixed_size_list"),
        ("id = (3", "needs"),
        ("id = 3)", "not understood"),
        ("name = 'open", "not closed"),
        ("id = 3; DROP TABLE t", ";"),
        ("id = 3 -- and no more", "comment"),
        ("id = (SELECT 1)", "Subqueries"),
        ("id", "no condition"),
        ("id + 1", "no condition"),
        ("", "empty"),
        ("   ", "empty"),
        ("sum(id) > 3", "sum"),
        ("random() < 0.5", "random"),
        (3, "no filter"),
        (["id = 3"], "no filter"),
        (lw.col("nobody") == 1, "nobody is not in the table"),
        (lw.col("name") == 3, "cannot be compared"),
        (lw.col("vector") == [0.0, 0.0], "."),
    ],
    ids=str,
)
def test_a_filter_that_means_nothing_is_refused_before_any_task(uri: str, where: Any, words: str) -> None:
    table = lw.open(uri, runner=IdleRunner(), progress=False)
    scan = table.scan(where)

    for ask in (scan.to_arrow, scan.count, scan.explain, lambda: table.explain(where, analyze=True)):
        with pytest.raises(lw.InvalidRequestError, match=words) as told:
            ask()
        assert told.value.remedy


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"columns": ["nobody"]}, lw.InvalidRequestError),
        ({"columns": "id"}, lw.InvalidRequestError),
        ({"columns": [3]}, lw.InvalidRequestError),
        ({"columns": []}, lw.InvalidRequestError),
        ({"columns": ["id", "name", "id"]}, lw.InvalidRequestError),
        ({"columns": ["many.item.x"]}, lw.InvalidRequestError),
        ({"use_indexes": "no"}, lw.InvalidRequestError),
        ({"strict": "no"}, lw.InvalidRequestError),
        ({"limit": -1}, lw.InvalidRequestError),
        ({"limit": 2.5}, lw.InvalidRequestError),
        ({"limit": True}, lw.InvalidRequestError),
        ({"version": 99}, lw.NotFoundError),
        ({"version": -1}, lw.InvalidRequestError),
        ({"version": 1.0}, lw.InvalidRequestError),
        ({"version": True}, lw.InvalidRequestError),
        ({"version": "1"}, lw.InvalidRequestError),
    ],
    ids=str,
)
def test_other_arguments_that_mean_nothing_are_refused_before_any_task(
    uri: str, options: dict[str, Any], error: type[lw.LancewrightError]
) -> None:
    table = lw.open(uri, runner=IdleRunner(), progress=False)

    with pytest.raises(error) as told:
        table.scan("id = 3", **options).to_arrow()
    assert told.value.remedy


def test_a_value_with_sql_in_it_finds_its_row_through_an_index_and_changes_nothing(uri: str) -> None:
    table = lw.open(uri, progress=False)
    table.create_index("name", kind="btree", name="names", if_not_exists=True)
    quoted = NASTY.replace("'", "''")

    for where in (f"name = '{quoted}'", lw.col("name") == NASTY, lw.col("name").isin([NASTY, "nobody"])):
        scan = table.scan(where, columns=["id"], strict=True)
        assert scan.to_arrow()["id"].to_pylist() == [7]
        assert scan.explain(analyze=True).indexes[0].used
    assert table.scan().count() == ROWS


def test_a_name_with_sql_in_it_names_only_its_column_also_through_an_index(uri: str) -> None:
    table = lw.open(uri, progress=False)
    table.create_index(f"`{ODD_NAME}`", kind="btree", name="odd", if_not_exists=True)

    found = table.scan(lw.col(f"`{ODD_NAME}`") == 11, columns=["id", f"`{ODD_NAME}`"], strict=True)

    assert found.to_arrow()["id"].to_pylist() == [11]
    assert table.explain(f"`{ODD_NAME}` = 11").indexes


@pytest.mark.parametrize("name", ["[k = 1]@other(BTree)", "x(Bitmap)", "a]@b", "new\nline", "--", "'; DROP"])
def test_an_index_whose_name_looks_like_a_plan_is_asked_or_passed_over_and_never_misread(
    tmp_path: Path, name: str
) -> None:
    path = str(tmp_path / "t")
    lance.write_dataset(pa.table({"k": np.arange(ROWS)}), path)
    lance.dataset(path).create_scalar_index("k", "BTREE", name=name)

    scan = lw.open(path, progress=False).scan("k IN (5, 59999)", strict=True)

    assert scan.to_arrow()["k"].to_pylist() == [5, 59_999]
    (line,) = scan.explain(analyze=True).indexes
    assert (line.index, line.reason != "BROKEN_SEGMENT") == (name, True)
