"""Executors look at segments as this process does: the reports are equal, finding by finding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pytest

import lancewright as lw
from support.busy_table import CASES, busy_table
from support.planted import claim, faulty_key_kind, rewrite_unnoticed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_spark_finds_and_mends_what_this_process_finds(spark: SparkSession, tmp_path: Path) -> None:
    uri = busy_table(str(tmp_path / "table"), fragments=6).uri
    lance.dataset(uri).drop_index("theirs")
    local = lw.open(uri, progress=False)
    for kind in ("btree", "label_list", "inverted", "ivf_flat"):
        parameters: dict[str, Any] = CASES[kind].parameters
        local.create_index(CASES[kind].column, kind=kind, name=kind, segments=2, **parameters)
    with faulty_key_kind():
        local.create_index("id", kind="key", name="key", segments=2)
    first, second = local.snapshot().segments_named("label_list")
    claim(uri, first, [*first.covered, *second.covered], remove=[second])
    rewrite_unnoticed(uri, "number", 1)
    table = lw.open(uri, spark=spark, progress=False)

    here, there = local.verify(thorough=True), table.verify(thorough=True)

    assert here.indexes == there.indexes
    assert {index.name for index in there.indexes if index.findings} == {"btree", "label_list", "key"}
    assert table.verify(repair=True).is_sound
    assert local.verify(thorough=True).is_sound
