"""Text indexes built on Spark rank as Lance's own single index does: the same rows, the same scores."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lance
import pytest
from lance.indices import IndexConfig
from lance.query import (
    BooleanQuery,
    BoostQuery,
    FullTextOperator,
    FullTextQuery,
    MatchQuery,
    MinHashQuery,
    Occur,
    PhraseQuery,
)

import lancewright as lw
from support.kind_cases import CASES, change_after_build, make_sentence, write_kind_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

INVERTED, MINHASH = (
    next(case for case in CASES if case.name == name) for name in ("inverted", "minhash_lsh")
)
ALL_ROWS = 10_000


def _match(text: str, **options: Any) -> MatchQuery:
    return MatchQuery(text, "inverted", **options)


QUERIES: dict[str, str | FullTextQuery] = {
    "one word": "alpha",
    "several words": "alpha beta kappa",
    "a word of one row": "doc17",
    "a word of one fragment": "rare alpha",
    "another form of a word": "Alphas",
    "a word nobody wrote": "nowhere",
    "all words": _match("alpha beta gamma", operator=FullTextOperator.AND),
    "a typing error": _match("alpho", fuzziness=1),
    "a phrase": PhraseQuery("alpha beta", "inverted"),
    "a phrase with a gap": PhraseQuery("alpha delta", "inverted", slop=2),
    "a demoted word": BoostQuery(_match("alpha"), _match("beta"), negative_boost=0.3),
    "must, must not, should": BooleanQuery(
        [(Occur.MUST, _match("alpha")), (Occur.MUST_NOT, _match("beta")), (Occur.SHOULD, _match("gamma"))]
    ),
}


@dataclass(frozen=True)
class Pair:
    """The same table twice: indexed on Spark and by Lance alone, then changed in the same way."""

    ours: lance.LanceDataset
    native: lance.LanceDataset


@pytest.fixture(
    scope="module",
    params=[(stable, segments) for stable in (False, True) for segments in (1, 3, 8)],
    ids=lambda layout: f"{'stable' if layout[0] else 'address'}-{layout[1]}",
)
def pair(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Pair:
    stable_row_ids, segments = request.param
    folder = tmp_path_factory.mktemp("text")
    ours, native = str(folder / "ours.lance"), str(folder / "native.lance")
    write_kind_table(ours, stable_row_ids=stable_row_ids)
    shutil.copytree(ours, native)
    table = lw.open(ours, spark=spark, progress=False)
    table.create_indexes([INVERTED.request(segments), MINHASH.request(segments)])
    lance.dataset(native).create_scalar_index("inverted", "INVERTED", **INVERTED.parameters)
    lance.dataset(native).create_scalar_index("minhash_lsh", IndexConfig("minhashlsh", MINHASH.parameters))
    return Pair(change_after_build(ours), change_after_build(native))


@pytest.mark.parametrize("filter_", [None, "id < 900 OR id > 100100"], ids=["all", "filtered"])
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_full_text_search_finds_the_rows_and_scores_of_a_native_index(
    pair: Pair, query: str | FullTextQuery, filter_: str | None
) -> None:
    """BM25 counts words over all segments, so cutting the table into segments changes no score."""
    ours = _scores(pair.ours, query, filter_)
    native = _scores(pair.native, query, filter_)

    assert ours == native


@pytest.mark.parametrize("limit", [5, ALL_ROWS])
@pytest.mark.parametrize("number", [0, 17, 77, 1234, 100_007])
def test_near_duplicates_are_those_of_a_native_index(pair: Pair, number: int, limit: int) -> None:
    """Signatures depend on the parameters alone, so estimated distances are equal to the last bit."""
    sentence = make_sentence(number)

    ours = _distances(pair.ours, sentence, limit)
    native = _distances(pair.native, sentence, limit)

    assert ours == native
    assert len(ours) >= 5


def test_rows_outside_the_index_are_searched_too(pair: Pair) -> None:
    """The fragment appended after the build takes part in both kinds of search."""
    found = _scores(pair.ours, "alpha", None)
    similar = _distances(pair.ours, make_sentence(100_007), ALL_ROWS)

    assert any(number >= 100_000 for number in found)
    assert any(number >= 100_000 for number, _ in similar)


def _scores(dataset: lance.LanceDataset, query: str | FullTextQuery, filter_: str | None) -> dict[int, float]:
    text = query if not isinstance(query, str) else _match(query)
    found = dataset.to_table(
        columns=["id", "_score"], full_text_query=text, filter=filter_, prefilter=True, limit=ALL_ROWS
    )
    return dict(zip(found["id"].to_pylist(), found["_score"].to_pylist(), strict=True))


def _distances(dataset: lance.LanceDataset, sentence: str | None, limit: int) -> list[tuple[int, float]]:
    assert sentence is not None, "choose a number whose sentence is not NULL"
    found = dataset.to_table(
        columns=["id", "_distance"], nearest=MinHashQuery(sentence, "minhash_lsh"), limit=limit
    )
    return sorted(zip(found["id"].to_pylist(), found["_distance"].to_pylist(), strict=True))
