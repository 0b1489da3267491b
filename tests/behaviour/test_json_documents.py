"""Words inside JSON documents are found, however many fragments hold them: Lance cannot merge such segments."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import lancewright as lw
from lancewright.runtime.local_runner import LocalRunner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS, ROWS_PER_FRAGMENT, THREADS = 600, 100, 2
DOCUMENTS = [
    None if row % 19 == 0 else {"number": row % 20, "text": f"alpha {'beta' if row % 3 else 'gamma'}"}
    for row in range(ROWS)
]


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("segments", [None, 1, 4, 6])
def test_words_of_documents_in_many_fragments_are_found(
    tmp_path: Path, segments: int | None, stable: bool
) -> None:
    uri = _write(str(tmp_path / "table"), stable=stable)
    table = lw.open(uri, runner=LocalRunner(THREADS), progress=False)

    receipt = table.create_index("document", kind="inverted", segments=segments)

    (info,) = table.indexes()
    assert receipt.indexes[0].segments == (segments or THREADS)
    assert info.coverage.is_complete
    assert _found(uri, "number,number,5") == _expected(lambda document: document["number"] == 5)
    assert _found(uri, "text,str,gamma") == _expected(lambda document: "gamma" in document["text"])


def test_a_plan_says_how_many_segments_an_index_over_documents_ends_with(tmp_path: Path) -> None:
    uri = _write(str(tmp_path / "table"))
    table = lw.open(uri, runner=LocalRunner(THREADS), progress=False)

    plan = table.create_index("document", kind="inverted", dry_run=True)

    assert [index.segments_expected for index in plan.indexes] == [THREADS]


def _write(uri: str, *, stable: bool = False) -> str:
    texts = [None if document is None else json.dumps(document) for document in DOCUMENTS]
    rows = pa.table({"id": pa.array(range(ROWS)), "document": pa.array(texts, pa.json_())})
    lance.write_dataset(rows, uri, max_rows_per_file=ROWS_PER_FRAGMENT, enable_stable_row_ids=stable).delete(
        "id % 11 = 3"
    )
    return uri


def _found(uri: str, query: str) -> list[int]:
    search = {"query": query, "columns": ["document"]}
    return sorted(
        lance.dataset(uri).to_table(columns=["id"], full_text_query=search, limit=ROWS)["id"].to_pylist()
    )


def _expected(fits: Callable[[dict[str, Any]], bool]) -> list[int]:
    return [
        row
        for row, document in enumerate(DOCUMENTS)
        if row % 11 != 3 and document is not None and fits(document)
    ]
