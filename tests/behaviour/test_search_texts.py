"""A text search returns the rows and the scores that Lance returns in one process, or refuses; hybrid fuses both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.query import BooleanQuery, FullTextOperator, FullTextQuery, MatchQuery, Occur, PhraseQuery

import lancewright as lw
from lancewright.model.row_set import row_set
from lancewright.query.search.request import RowsPrefilter, Scope, TextRequest
from lancewright.query.search.search import prepare_search
from lancewright.runtime.local_runner import LocalRunner
from lancewright.table.location import table_ref
from support.searching import WIDTH, add_text_index, add_vector_index, vector_rows, write_rows

if TYPE_CHECKING:
    from pathlib import Path

    from lancewright.model.text_query import TextQuery

QUERIES: dict[str, tuple[TextQuery, FullTextQuery]] = {
    "any word": (lw.Match("alpha beta"), MatchQuery("alpha beta", "text")),
    "all words": (
        lw.Match("alpha beta gamma", operator="and"),
        MatchQuery("alpha beta gamma", "text", operator=FullTextOperator.AND),
    ),
    "a word nobody wrote": (lw.Match("nowhere"), MatchQuery("nowhere", "text")),
    "a boosted word": (lw.Match("zeta", boost=2.5), MatchQuery("zeta", "text", boost=2.5)),
    "a phrase": (lw.Phrase("alpha beta"), PhraseQuery("alpha beta", "text")),
    "must, must not, should": (
        lw.Boolean(
            must=(lw.Match("alpha"),), must_not=(lw.Match("beta"),), should=(lw.Phrase("gamma delta"),)
        ),
        BooleanQuery(
            [
                (Occur.MUST, MatchQuery("alpha", "text")),
                (Occur.SHOULD, PhraseQuery("gamma delta", "text")),
                (Occur.MUST_NOT, MatchQuery("beta", "text")),
            ]
        ),
    ),
}
EVERYTHING = 1_000
VECTOR = np.arange(WIDTH) - 3.5


def theirs(uri: str, query: FullTextQuery, where: str | None = None) -> dict[int, float]:
    found = lance.dataset(uri).to_table(
        columns=["id", "_score"], full_text_query=query, filter=where, prefilter=True, limit=EVERYTHING
    )
    return dict(zip(found["id"].to_pylist(), found["_score"].to_pylist(), strict=True))


@pytest.fixture(scope="module", params=[False, True], ids=["address", "stable"])
def uri(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two segments, two fragments outside of them, deleted and updated rows."""
    uri = write_rows(tmp_path_factory.mktemp("texts"), 400, fragments=5, stable_row_ids=request.param)
    add_text_index(uri, [[0, 1], [2]])
    lance.dataset(uri).delete("id % 9 = 4")
    lance.dataset(uri).merge_insert("id").when_matched_update_all().execute(
        vector_rows(range(0, 300, 11), seed=2)
    )
    return uri


@pytest.mark.parametrize("where", [None, "group < 4"])
@pytest.mark.parametrize("name", QUERIES)
def test_rows_and_scores_are_those_of_lance_over_the_whole_table(
    uri: str, name: str, where: str | None
) -> None:
    query, native = QUERIES[name]

    found = (
        lw.open(uri, progress=False).search(text=query, k=EVERYTHING, where=where, columns=["id"]).to_arrow()
    )

    assert dict(zip(found["id"].to_pylist(), found["_score"].to_pylist(), strict=True)) == theirs(
        uri, native, where
    )


def test_of_rows_with_equal_scores_the_lower_row_ids_are_returned(uri: str) -> None:
    table = lw.open(uri, progress=False)
    every = table.search(text="alpha", k=EVERYTHING, columns=["id", "_rowid"]).to_pandas()
    ranked = every.sort_values(["_score", "_rowid"], ascending=[False, True])["id"].tolist()

    for k in (1, 2, 7, 30):
        assert table.search(text="alpha", k=k, columns=["id"]).to_arrow()["id"].to_pylist() == ranked[:k]


def test_a_set_of_rows_restricts_a_text_search_to_exactly_these(uri: str) -> None:
    where = "id % 3 = 1"
    wanted = lance.dataset(uri).scanner(columns=[], filter=where, with_row_address=True).to_table()
    scope = Scope(prefilter=RowsPrefilter(rows=row_set(wanted["_rowaddr"].to_numpy())))
    request = TextRequest(query=lw.Match("gamma"), k=EVERYTHING, scope=scope)

    search = prepare_search(table_ref(uri), lw.open(uri).snapshot(), request, ("id",), LocalRunner())

    assert set(search.to_arrow()["id"].to_pylist()) == set(theirs(uri, MatchQuery("gamma", "text"), where))


def test_a_plain_text_takes_its_options_beside_it(uri: str) -> None:
    table = lw.open(uri, progress=False)

    both = table.search(text="alpha beta", operator="and", k=EVERYTHING, columns=["id", "text"]).to_arrow()
    phrase = table.search(text="alpha beta", phrase=True, k=EVERYTHING, columns=["text"]).to_arrow()
    similar = table.search(text="alphq", fuzziness=1, fast=True, k=EVERYTHING, columns=["text"]).to_arrow()

    assert all({"alpha", "beta"} <= set(text.split()) for text in both["text"].to_pylist())
    assert all("alpha beta" in text for text in phrase["text"].to_pylist())
    assert all("alpha" in text for text in similar["text"].to_pylist())
    assert min(len(both), len(phrase), len(similar)) > 0


def test_similar_words_in_rows_outside_the_index_are_refused_because_lance_would_miss_them(uri: str) -> None:
    with pytest.raises(lw.UnsupportedError, match="finds no similar words"):
        lw.open(uri, progress=False).search(text="alphq", fuzziness=1)


def test_a_column_without_a_text_index_is_read_whole(tmp_path: Path) -> None:
    uri = write_rows(tmp_path)

    search = lw.open(uri, progress=False).search(text="alpha", column="text", k=EVERYTHING, columns=["text"])

    every = lance.dataset(uri).to_table(columns=["text"])["text"].to_pylist()
    assert sorted(search.to_arrow()["text"].to_pylist()) == sorted(
        text for text in every if "alpha" in text.split()
    )
    assert "NO_INDEX" in str(search.explain())


def test_fast_leaves_texts_outside_the_index_out(uri: str) -> None:
    table = lw.open(uri, progress=False)
    covered = table.snapshot().index("texts")
    assert covered is not None
    fragments = {fragment for segment in covered.segments for fragment in segment.covered}

    found = table.search(text="alpha", fast=True, k=EVERYTHING, columns=["_rowaddr"]).to_arrow()

    assert {address >> 32 for address in found["_rowaddr"].to_pylist()} == fragments


def test_a_row_that_a_segment_knows_from_before_its_update_is_never_returned_for_its_old_text(
    tmp_path: Path,
) -> None:
    """On a table with stable row ids, Lance 14 finds the old text of a row beside the new one."""
    uri = write_rows(tmp_path, stable_row_ids=True)
    add_text_index(uri, [[0, 1], [2, 3]])
    lance.dataset(uri).merge_insert("id").when_matched_update_all().execute(
        vector_rows(range(0, 240, 5), seed=6)
    )
    add_text_index(uri, [[4]])
    table = lw.open(uri, progress=False)
    right = {
        row["id"]
        for row in lance.dataset(uri).to_table(columns=["id", "text"]).to_pylist()
        if "alpha" in row["text"].split()
    }
    assert set(theirs(uri, MatchQuery("alpha", "text"))) != right, "Lance has mended it"

    search = table.search(text="alpha", k=EVERYTHING, columns=["id"])
    assert set(search.to_arrow()["id"].to_pylist()) == right
    assert "before their last update" in str(search.explain())
    untouched = table.search(text="alpha", k=EVERYTHING, where="id % 5 != 0", columns=["id"]).to_arrow()

    assert set(untouched["id"].to_pylist()) == {id_ for id_ in right if id_ % 5}


@pytest.mark.parametrize("stable", [False, True])
def test_a_row_is_not_found_by_a_text_that_was_rewritten_in_place(tmp_path: Path, stable: bool) -> None:
    """The older segment keeps the old text, and Lance 14 finds it once a newer one covers the fragment."""
    uri = write_rows(tmp_path, stable_row_ids=stable)
    add_text_index(uri, [[0, 1, 2, 3]])
    dataset = lance.dataset(uri)
    fragment = dataset.get_fragment(2)
    ids = fragment.to_table(columns=["id"])["id"]
    new = pa.table({"id": ids, "text": ["nothing of that"] * len(ids)})
    updated, fields = fragment.update_columns(new, left_on="id", right_on="id")
    operation = lance.LanceOperation.Update(updated_fragments=[updated], fields_modified=fields)
    lance.LanceDataset.commit(dataset, operation, read_version=dataset.version)
    lance.dataset(uri).optimize.optimize_indices(index_names=["texts"], num_indices_to_merge=0)
    rows = lance.dataset(uri).to_table(columns=["id", "text"]).to_pylist()
    right = {row["id"] for row in rows if "alpha" in row["text"].split()}
    assert set(theirs(uri, MatchQuery("alpha", "text"))) != right, "Lance has mended it"

    search = lw.open(uri, progress=False).search(text="alpha", k=EVERYTHING, columns=["id"])

    assert set(search.to_arrow()["id"].to_pylist()) == right
    assert "rewritten in place" in str(search.explain())


def test_segments_of_different_versions_are_fine_while_no_row_was_updated_between_them(
    tmp_path: Path,
) -> None:
    uri = write_rows(tmp_path, stable_row_ids=True)
    add_text_index(uri, [[0, 1, 2, 3]])
    lance.write_dataset(vector_rows(range(500, 560)), uri, mode="append")
    add_text_index(uri, [[4]])

    found = lw.open(uri, progress=False).search(text="beta", k=EVERYTHING, columns=["id"]).to_arrow()

    assert set(found["id"].to_pylist()) == set(theirs(uri, MatchQuery("beta", "text")))


def test_hybrid_search_adds_the_reciprocals_of_both_ranks(uri: str) -> None:
    table = lw.open(uri, progress=False)
    near = table.search(VECTOR, k=50, columns=["id", "_rowid"]).to_pandas()
    matched = table.search(text="alpha gamma", k=50, columns=["id", "_rowid"]).to_pandas()
    scores: dict[tuple[int, int], float] = {}
    for ranking in (near, matched):
        for rank, (id_, row_id) in enumerate(zip(ranking["id"], ranking["_rowid"], strict=True), 1):
            scores[row_id, id_] = scores.get((row_id, id_), 0.0) + 1 / (7 + rank)
    expected = sorted(scores, key=lambda key: (-scores[key], key[0]))[:12]

    found = table.hybrid_search(VECTOR, "alpha gamma", k=12, rank_constant=7, columns=["id"]).to_arrow()

    assert found["id"].to_pylist() == [id_ for _, id_ in expected]
    assert found["_relevance_score"].to_pylist() == pytest.approx([scores[key] for key in expected])
    assert found.schema.names == ["id", "_relevance_score", "_distance", "_score"]


def test_hybrid_search_ranks_only_rows_that_meet_the_condition(uri: str) -> None:
    found = lw.open(uri, progress=False).hybrid_search(
        VECTOR, lw.Phrase("alpha beta"), k=20, where="group = 3", columns=["group"], candidates=30
    )

    assert set(found.to_arrow()["group"].to_pylist()) == {3}
    assert "fuse the 20 best" in str(found.explain())


def test_a_filter_is_not_answered_from_an_index_that_may_be_stale(tmp_path: Path) -> None:
    uri = write_rows(tmp_path, stable_row_ids=True)
    add_vector_index(uri, [[0, 1, 2, 3]])
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("group", "BITMAP")
    update = vector_rows(range(0, 240, 2), seed=6).set_column(1, "group", [[6] * 120])
    dataset.merge_insert("id").when_matched_update_all().execute(update)
    lance.dataset(uri).optimize.optimize_indices(index_names=["group_idx"], num_indices_to_merge=0)
    search = lw.open(uri, progress=False).search(VECTOR, k=EVERYTHING, where="group = 2", columns=["group"])

    found = search.to_arrow()["group"].to_pylist()

    assert set(found) == {2}
    assert "FILTER_CHECKED" in str(search.explain())
