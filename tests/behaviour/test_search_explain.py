"""A search explains itself as a scan does: a line for each index, the tasks, what they took; as text, as rows, as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancewright as lw
from support.searching import WIDTH, add_text_index, add_vector_index, vector_rows, write_rows

if TYPE_CHECKING:
    from lancewright.query.search.explanation import SearchExplanation

QUERY = np.arange(WIDTH) - 3.5
ROWS = 240
# In a table of some megabytes a scan is cheaper than any index, which then helps no filter.
MANY = 60_000


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    uri = write_rows(tmp_path, ROWS)
    add_vector_index(uri, [[0, 1], [2]])
    add_text_index(uri, [[0, 1, 2, 3]])
    table = lw.open(uri, progress=False)
    table.create_index("id", kind="btree", name="by_id")
    return table


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> lw.Table:
    uri = write_rows(tmp_path_factory.mktemp("large"), MANY)
    table = lw.open(uri, progress=False)
    table.create_index("vector", kind="ivf_flat", name="vectors", num_partitions=8, max_iters=2)
    table.create_index("id", kind="btree", name="by_id")
    table.create_index("group", kind="bitmap", name="by_group")
    return table


def reasons(told: SearchExplanation) -> dict[str, str]:
    return {line.index: line.reason for line in told.indexes}


def test_every_index_of_the_table_has_a_line_that_says_whether_it_is_used_and_why(table: lw.Table) -> None:
    near = table.search(QUERY).explain()
    words = table.search(text="alpha", column="text").explain()
    both = table.hybrid_search(QUERY, "alpha", text_column="text").explain()
    exact = table.search(QUERY, use_index=False).explain()

    unasked = "COLUMN_NOT_ASKED"
    assert reasons(near) == {"vectors": "USED", "texts": unasked, "by_id": unasked}
    assert reasons(words) == {"vectors": unasked, "texts": "USED", "by_id": unasked}
    assert reasons(both) == {"vectors": "USED", "texts": "USED", "by_id": unasked}
    assert reasons(exact) == {"vectors": "DISABLED", "texts": unasked, "by_id": unasked}
    assert [line.used for line in both.indexes] == [True, True, False]
    assert not any(line.used for line in exact.indexes)


def test_an_index_of_another_sort_on_the_column_searched_does_not_rank(table: lw.Table) -> None:
    table.create_index("text", kind="btree", name="sorted_texts")

    assert (
        reasons(table.search(text="alpha", column="text").explain())["sorted_texts"] == "OPERATOR_UNSUPPORTED"
    )


def test_of_several_indexes_on_the_column_each_says_why_it_was_passed_over(table: lw.Table) -> None:
    uri = table.name
    dataset = lance.dataset(uri)
    dataset.create_index("vector", "IVF_FLAT", name="cosines", metric="cosine", num_partitions=1)

    assert reasons(table.search(QUERY, metric="cosine").explain())["vectors"] == "METRIC_DIFFERS"
    assert reasons(table.search(QUERY, index="cosines").explain())["vectors"] == "OTHER_INDEX_CHOSEN"
    assert reasons(table.search(QUERY).explain()) | {"texts": "", "by_id": ""} == {
        "vectors": "OTHER_INDEX_CHOSEN",
        "cosines": "USED",
        "texts": "",
        "by_id": "",
    }


def test_estimates_say_at_least_how_much_is_looked_at_and_a_run_how_much_it_was(large: lw.Table) -> None:
    search = large.search(QUERY, k=5, columns=["id"], nprobes=2)

    planned, ran = search.explain(), search.explain(analyze=True)

    line = next(line for line in planned.indexes if line.index == "vectors")
    assert (line.segments_asked, line.rows_estimated, line.pages_estimated) == (1, MANY // 4, 2)
    assert line.bytes_estimated is not None
    assert line.bytes_estimated > MANY // 4 * WIDTH * 4
    assert planned.measured is None
    measured = ran.measured
    assert measured is not None
    assert measured.rows == 5
    assert measured.pages >= 2
    assert measured.rows_looked_at > 0
    assert measured.search_bytes > 0
    assert measured.read_requests > 0
    (task,) = ran.tasks
    assert task.measured is not None
    assert task.measured.read_bytes == measured.search_bytes


def test_an_exact_search_is_estimated_and_measured_at_every_row(table: lw.Table) -> None:
    told = table.search(np.stack([QUERY, QUERY + 1]), use_index=False, columns=["id"]).explain(analyze=True)

    (task,) = told.tasks
    assert (task.way, task.rows, task.rows_estimated) == ("exactly", ROWS, 2 * ROWS)
    assert task.bytes_estimated == ROWS * WIDTH * 4
    assert task.measured is not None
    assert task.measured.rows >= ROWS
    assert told.measured is not None
    assert told.measured.rows == 20


@pytest.mark.parametrize(
    ("where", "used", "note"),
    [
        ("id < 40", {"by_id": "USED", "by_group": "COLUMN_NOT_ASKED"}, "FILTER_ANSWERED"),
        ("id = 40 AND text = 'alpha'", {"by_id": "FILTER_CHECKED"}, "FILTER_CHECKED"),
        ("text = 'alpha'", {"by_id": "COLUMN_NOT_ASKED"}, "FILTER_CHECKED"),
    ],
)
def test_the_filter_has_lines_of_its_own_and_what_the_indexes_named_is_measured(
    large: lw.Table, where: str, used: dict[str, str], note: str
) -> None:
    told = large.search(QUERY, k=3, where=where, columns=["id"]).explain(analyze=True)

    found = reasons(told)
    assert {name: found[name] for name in used} == used
    assert found["vectors"] == "USED"
    assert note in {one.reason.value for one in told.notes}
    assert told.where == where
    assert told.measured is not None
    assert told.measured.named == (40 if note == "FILTER_ANSWERED" else 0)
    assert bool(told.measured.index_bytes) == (note == "FILTER_ANSWERED")


def test_an_index_whose_every_row_the_filter_refuses_is_not_said_to_be_used(large: lw.Table) -> None:
    told = large.search(QUERY, where="id < 0").explain()

    line = next(line for line in told.indexes if line.index == "vectors")
    assert (line.used, line.explanation) == (False, "no row of it meets the filter")
    assert told.tasks == ()


def test_a_damaged_segment_is_told_in_the_line_of_its_index(tmp_path: Path) -> None:
    uri = write_rows(tmp_path)
    segments = add_vector_index(uri, [[0, 1], [2, 3]])
    Path(uri, "_indices", segments[0], "index.idx").unlink()
    search = lw.open(uri, progress=False).search(QUERY, k=5)

    before, after = search.explain(), search.explain(analyze=True)

    assert reasons(before) == {"vectors": "USED"}
    (line,) = after.indexes
    assert (line.reason, line.used) == ("BROKEN_SEGMENT", True)
    assert line.explanation.startswith("1 of its segments cannot be read: ")
    assert [note.subject for note in after.happened] == [segments[0]]
    assert search.explain().happened == after.happened


def test_a_damaged_text_index_is_told_not_to_have_been_used(tmp_path: Path) -> None:
    uri = write_rows(tmp_path)
    (segment,) = add_text_index(uri, [[0, 1, 2, 3]])
    next(Path(uri, "_indices", segment).glob("*_invert.lance")).unlink()

    told = lw.open(uri, progress=False).search(text="alpha", column="text").explain(analyze=True)

    (line,) = told.indexes
    assert (line.reason, line.used) == ("READ_WHOLE", False)
    assert told.measured is not None
    assert told.measured.search_bytes > 0


def test_a_join_explains_itself_and_is_measured(table: lw.Table) -> None:
    queries = pa.table({"near": vector_rows(range(30), nulls=False)["vector"]})
    search = table.search(queries, query_column="near", k=3, columns=["id"])

    told = search.explain(analyze=True)

    assert reasons(told)["vectors"] == "USED"
    assert told.measured is not None
    assert told.measured.rows == 90
    assert told.measured.tasks == len(told.tasks)
    assert told.measured.rows_looked_at >= 30 * 60


def test_text_rows_and_json_tell_the_same(table: lw.Table) -> None:
    lance.write_dataset(vector_rows(range(900, 930)), table.name, mode="append")
    told = table.hybrid_search(QUERY, "alpha", text_column="text", k=4, where="id >= 0").explain(analyze=True)

    text, document = told.to_text(), json.loads(told.to_json())

    assert str(told) == repr(told) == text
    assert [line["index"] for line in document["indexes"]] == told.to_arrow()["index"].to_pylist()
    assert told.to_pandas()["reason"].tolist() == [line["reason"] for line in document["indexes"]]
    assert set(told.to_arrow().schema.names) == set(document["indexes"][0])
    for part in (
        "nearest 50 in vector",
        "best 50 texts in text",
        "fuse the 4 best",
        "where id >= 0",
        "NOT_COVERED",
    ):
        assert part in text
    assert document["measured"]["rows"] == 4
    assert {"rows", "pages", "read_requests", "read_bytes", "seconds"} == set(
        document["tasks"][0]["measured"]
    )
