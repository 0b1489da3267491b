"""A search that cannot mean anything is refused when it is written, before any task, with what to write instead."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import lancewright as lw
from support.runners import UnusedRunner
from support.searching import WIDTH, add_text_index, add_vector_index, write_rows
from support.values import snapshot

if TYPE_CHECKING:
    from pathlib import Path

VECTOR = [0.5] * WIDTH


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> lw.Table:
    """A runner that fails when it is asked anything."""
    path: Path = tmp_path_factory.mktemp("bad")
    uri = write_rows(path)
    add_vector_index(uri, [[0, 1]])
    add_text_index(uri, [[0, 1, 2, 3]])
    return lw.open(uri, runner=UnusedRunner(), progress=False)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({}, "Neither vector= nor text="),
        ({"vector": VECTOR, "text": "alpha"}, "Both vector= and text="),
        ({"vector": VECTOR, "k": 0}, "k=0"),
        ({"vector": VECTOR, "k": -3}, "k=-3"),
        ({"vector": VECTOR, "k": 2.5}, "k=2.5"),
        ({"vector": VECTOR, "k": True}, "k=True"),
        ({"text": "alpha", "k": 0}, "k=0"),
        ({"vector": VECTOR[1:]}, f"{WIDTH - 1} dimensions"),
        ({"vector": VECTOR * 2}, f"{2 * WIDTH} dimensions"),
        ({"vector": []}, "no vector"),
        ({"vector": "text"}, "no vector"),
        ({"vector": [[1.0] * WIDTH, [1.0]]}, "no vector"),
        ({"vector": [math.nan, *VECTOR[1:]]}, "NaN or infinity"),
        ({"vector": [math.inf, *VECTOR[1:]]}, "NaN or infinity"),
        ({"vector": [1e300, *VECTOR[1:]]}, "does not fit"),
        ({"vector": VECTOR, "column": "id"}, "holds no vectors"),
        ({"vector": VECTOR, "column": "missing"}, "'missing' is not in the table"),
        ({"text": "alpha", "column": "id"}, "holds no texts"),
        ({"text": "alpha", "column": "vector"}, "holds no texts"),
        ({"text": "  "}, "empty"),
        ({"text": 7}, "no text"),
        ({"text": "alpha", "operator": "xor"}, "operator='xor'"),
        ({"text": "alpha", "fuzziness": 3}, "fuzziness=3"),
        ({"text": "alpha", "phrase": True, "fuzziness": 1}, "A phrase takes neither"),
        ({"text": lw.Match("alpha"), "fuzziness": 1}, "belong to a text that is a str"),
        ({"text": "alpha", "nprobes": 3}, "belong to vector="),
        ({"vector": VECTOR, "phrase": True}, "belong to text="),
        ({"vector": VECTOR, "nprobes": 0}, "nprobes=0"),
        ({"vector": VECTOR, "refine_factor": 0}, "refine_factor=0"),
        ({"vector": VECTOR, "ef": 5, "k": 10}, "ef=5 is less than k=10"),
        ({"vector": VECTOR, "lower_bound": 2, "upper_bound": 1}, "at least 2 and below 1"),
        ({"vector": VECTOR, "lower_bound": math.nan}, "no distance"),
        ({"vector": VECTOR, "metric": "manhattan"}, "metric='manhattan'"),
        ({"vector": VECTOR, "metric": "hamming"}, "not defined for vector"),
        ({"vector": VECTOR, "index": "nobody"}, "no such index 'nobody'"),
        ({"vector": VECTOR, "index": "texts"}, "no such index 'texts'"),
        ({"vector": VECTOR, "fast": True, "use_index": False}, "indexed rows only"),
        ({"vector": VECTOR, "fast": True, "metric": "dot"}, "no usable index"),
        ({"vector": VECTOR, "where": "vector > 3"}, "cannot be compared"),
        ({"vector": VECTOR, "where": "nobody = 3"}, "nobody is not in the table"),
        ({"vector": VECTOR, "where": "id > (3"}, "needs"),
        ({"vector": VECTOR, "where": "id > 3; DROP TABLE t"}, ";"),
        ({"vector": VECTOR, "where": "  "}, "empty"),
        ({"text": "alpha", "where": "id = 'one"}, "not closed"),
        ({"vector": VECTOR, "columns": ["nobody"]}, "'nobody' is not in the table"),
        ({"vector": VECTOR, "columns": "id"}, "no list of names"),
        ({"vector": VECTOR, "columns": ["id", "id"]}, "twice"),
        ({"vector": VECTOR, "fast": "no"}, "fast='no'"),
        ({"vector": VECTOR, "strict": "no"}, "strict='no'"),
        ({"vector": VECTOR, "use_index": 0}, "use_index=0"),
        ({"vector": VECTOR, "query_column": "id"}, "belongs to a frame"),
        ({"vector": pd.DataFrame({"v": [VECTOR], "w": [VECTOR]})}, "Name it with query_column="),
        ({"vector": pd.DataFrame({"v": [VECTOR]}), "query_column": "w"}, "no column 'w'"),
        ({"vector": pd.DataFrame({"id": [1], "v": [VECTOR]})}, "both have the columns id"),
        ({"vector": pd.DataFrame({"v": [VECTOR[1:]]}), "columns": ["id"]}, "dimensions"),
        ({"vector": pd.DataFrame({"v": [VECTOR, VECTOR[1:]]}), "columns": ["id"]}, "different lengths"),
        (
            {"vector": pd.DataFrame({"v": [VECTOR]}), "columns": ["id"], "where": "nobody = 1"},
            "nobody is not in the table",
        ),
    ],
    ids=str,
)
def test_a_search_that_means_nothing_is_refused_before_any_task(
    table: lw.Table, request_: dict[str, Any], words: str
) -> None:
    with pytest.raises(lw.InvalidRequestError, match=words.replace("(", r"\(")) as told:
        table.search(**request_)

    assert told.value.remedy


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((np.ones((2, WIDTH)), "alpha"), {}, "takes one vector"),
        ((VECTOR, "alpha"), {"k": 0}, "k=0"),
        ((VECTOR, "alpha"), {"candidates": 0}, "candidates=0"),
        ((VECTOR, "alpha"), {"fast": "no"}, "fast='no'"),
        ((VECTOR, "alpha"), {"rank_constant": -1}, "rank_constant=-1"),
        ((VECTOR, ""), {}, "empty"),
        ((VECTOR, "alpha"), {"where": "nobody = 1"}, "nobody is not in the table"),
    ],
)
def test_a_hybrid_search_that_means_nothing_is_refused(
    table: lw.Table, arguments: tuple[Any, str], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(lw.InvalidRequestError, match=words):
        table.hybrid_search(*arguments, **options)


def test_a_boolean_query_that_only_excludes_is_refused() -> None:
    with pytest.raises(lw.InvalidRequestError, match="ranks nothing"):
        lw.Boolean(must_not=(lw.Match("alpha"),))


def test_to_spark_without_a_session_says_how_to_get_one(tmp_path: Path) -> None:
    search = lw.open(write_rows(tmp_path), progress=False).search(VECTOR)

    with pytest.raises(lw.InvalidRequestError, match="without a Spark session"):
        search.to_spark()


def test_a_table_without_vectors_or_texts_asks_for_a_column(tmp_path: Path) -> None:
    assert snapshot()  # the column is looked for in the snapshot, not in the data
    uri = write_rows(tmp_path)
    table = lw.open(uri, progress=False)

    with pytest.raises(lw.InvalidRequestError, match="has an index of texts"):
        table.search(text="alpha")


def test_words_in_a_row_are_refused_before_any_task_when_the_index_does_not_keep_where_they_stand(
    tmp_path: Path,
) -> None:
    uri = write_rows(tmp_path)
    add_text_index(uri, [[0, 1, 2, 3]], with_position=False)
    table = lw.open(uri, runner=UnusedRunner(), progress=False)

    for text in (lw.Phrase("alpha beta"), lw.Boolean(must=(lw.Match("gamma"), lw.Phrase("alpha beta")))):
        with pytest.raises(lw.InvalidRequestError, match="'texts' does not keep where words stand") as told:
            table.search(text=text)
        assert "with_position" in told.value.remedy
        with pytest.raises(lw.InvalidRequestError, match="where words stand"):
            table.hybrid_search(VECTOR, text)
