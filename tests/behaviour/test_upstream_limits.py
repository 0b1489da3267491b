"""What Lance 14 does not answer from an index, whoever built it. A test here fails when Lance mends it.

Then move its filters to ``support.kind_cases`` and drop the warning from the documentation. What it answers wrongly is in
``test_trusted_kinds``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import lancewright as lw
from support.tables import ids, plan_uses_index, rows

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def dataset(tmp_path: Path) -> lance.LanceDataset:
    """Eight fragments, the columns also as fields of a struct and under a name that needs quoting."""
    plain = rows(800)
    names = ("number", "text", "tags", "document", "vector")
    struct = pa.StructArray.from_arrays(
        [plain[name].combine_chunks() for name in names], fields=[plain.schema.field(name) for name in names]
    )
    table = plain.append_column("nested_all", struct).append_column("odd document", plain["document"])
    return lance.write_dataset(table, str(tmp_path / "table.lance"), max_rows_per_file=100)


@pytest.mark.xfail(
    reason="Lance cannot open an empty inverted index for a filter", raises=ValueError, strict=True
)
def test_contains_tokens_is_answered_over_an_untrained_index_of_whole_words(
    dataset: lance.LanceDataset,
) -> None:
    """Full text search on the same index works."""
    whole_words = {
        "stem": False,
        "remove_stop_words": False,
        "ascii_folding": False,
        "max_token_length": None,
    }
    indexed = _index(dataset, "text", "inverted", train=False, **whole_words)
    filter_ = "contains_tokens(text, 'alpha')"

    assert ids(indexed, filter_, use_index=True) == ids(indexed, filter_, use_index=False)


def test_deleted_documents_of_compacted_fragments_take_places_in_lance_and_not_in_our_search(
    tmp_path: Path,
) -> None:
    """With stable row ids nothing in the index is rewritten, and the deletion files are gone."""
    uri = str(tmp_path / "table.lance")
    texts = pa.table({"id": range(400), "text": ["word"] * 400})
    lance.write_dataset(texts, uri, max_rows_per_file=100, enable_stable_row_ids=True)
    table = lw.open(uri, progress=False)
    table.create_index("text", kind="inverted")
    lance.dataset(uri).delete("id % 4 = 0")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=1_000)

    alone = lance.dataset(uri).to_table(columns=["id"], full_text_query="word", limit=300)
    ours = table.search(text="word", column="text", k=300, columns=["id"]).to_arrow()

    assert len(alone) < 300, "Lance has mended it: say so in docs/guides/search.md"
    assert sorted(ours["id"].to_pylist()) == [number for number in range(400) if number % 4]


@pytest.mark.parametrize(
    ("column", "kind", "filter_"),
    [
        ("nested_all.number", "bloomfilter", "nested_all.number = 7"),
        ("nested_all.text", "ngram", "contains(nested_all.text, 'alpha')"),
        ("nested_all.text", "fm", "contains(nested_all.text, 'alpha')"),
        ("nested_all.tags", "label_list", "array_has(nested_all.tags, 'alpha')"),
        ("nested_all.document", "json", "json_get_int(nested_all.document, 'a') = 5"),
        ("odd document", "json", "json_get_int(`odd document`, 'a') = 5"),
    ],
)
def test_some_kinds_are_not_asked_on_nested_or_quoted_columns_and_answers_stay_right(
    dataset: lance.LanceDataset, column: str, kind: str, filter_: str
) -> None:
    """Lance plans a scan, also over an index that it built itself."""
    parameters = {"path": "a"} if kind == "json" else {}
    indexed = _index(dataset, column, kind, **parameters)

    assert not plan_uses_index(indexed, filter_)
    assert ids(indexed, filter_, use_index=True) == ids(indexed, filter_, use_index=False) != []


def _index(dataset: lance.LanceDataset, column: str, kind: str, **parameters: Any) -> lance.LanceDataset:
    lw.open(dataset.uri, progress=False).create_index(column, kind=kind, **parameters)
    return lance.dataset(dataset.uri)
