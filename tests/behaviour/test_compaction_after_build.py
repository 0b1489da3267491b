"""Segments cover runs of neighbours, so that Lance still compacts what they cover."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pytest

import lancewright as lw
from support.busy_table import CASES, busy_table, fragment_ids, is_served, wrong_answers

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("kind", ["btree", "bitmap", "inverted", "ivf_pq"])
def test_compaction_still_compacts_what_several_segments_cover(
    tmp_path: Path, kind: str, stable: bool
) -> None:
    uri = busy_table(str(tmp_path / "table"), stable_row_ids=stable).uri
    case = CASES[kind]
    table = lw.open(uri, progress=False)
    receipt = table.create_index(case.column, kind=kind, name="ours", segments=3, **case.parameters)
    assert receipt.indexes[0].segments == 3

    metrics = lance.dataset(uri).optimize.compact_files()

    assert metrics.fragments_removed == 8
    assert len(fragment_ids(uri)) == 3
    (info,) = [info for info in table.indexes() if info.name == "ours"]
    assert set(info.coverage.covered) == fragment_ids(uri)
    assert is_served(uri, case)
    assert wrong_answers(uri, case) == []


@pytest.mark.parametrize("kind", ["btree", "zonemap", "label_list"])
def test_a_deferred_compaction_still_compacts_what_several_segments_cover(tmp_path: Path, kind: str) -> None:
    uri = busy_table(str(tmp_path / "table")).uri
    case = CASES[kind]
    table = lw.open(uri, progress=False)
    table.create_index(case.column, kind=kind, name="ours", segments=3, **case.parameters)

    metrics = lance.dataset(uri).optimize.compact_files(defer_index_remap=True)

    assert metrics.fragments_removed == 8
    (info,) = [info for info in table.indexes() if info.name == "ours"]
    assert set(info.coverage.covered) == fragment_ids(uri)
    assert wrong_answers(uri, case) == []
