"""Times with a zone beside dates and times without one: what Lance takes them for is what is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import lancewright as lw

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "where",
    [
        "at {} date '1970-01-01'",
        "NOT (at {} date '1970-01-01')",
        "date '1970-01-01' {} at",
        "at {} CAST('1970-01-01' AS DATE)",
        "at {} timestamp '1970-01-01 00:00:00'",
        "NOT (at {} timestamp '1970-01-01 00:00:00')",
    ],
)
@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", "America/New_York", "+05:30"])
def test_a_day_beside_a_time_with_a_zone_is_what_lance_takes_it_for(
    tmp_path: Path, where: str, zone: str
) -> None:
    uri = str(tmp_path / "times")
    hours = pa.array([*range(-8 * 3600, 9 * 3600, 1800)], pa.timestamp("s", tz=zone))
    lance.write_dataset(pa.table({"id": range(len(hours)), "at": hours}), uri)

    for sign in ("=", "<", ">=", "!="):
        asked = where.format(sign)
        expected = lance.dataset(uri).to_table(filter=asked, columns=["id"])["id"].to_pylist()
        assert lw.open(uri).scan(asked, columns=["id"]).to_arrow()["id"].to_pylist() == expected
