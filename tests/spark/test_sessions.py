"""The two kinds of Spark session do the same work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lancewright as lw
from support.tables import ids, write_table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("session", ["spark", "connect"])
def test_an_index_built_through_this_session_answers_like_a_scan(
    session: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Build on Spark, ask pylance."""
    dataset = write_table(str(tmp_path / "table"), delete="id % 11 = 3")
    spark: SparkSession = request.getfixturevalue(session)

    receipt = lw.open(dataset.uri, spark=spark).create_index("number", kind="btree")

    dataset = dataset.checkout_version(receipt.version)
    assert ids(dataset, "number = 7", use_index=True) == ids(dataset, "number = 7", use_index=False)
