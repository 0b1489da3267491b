"""Small files are kept up to a limit, and those asked for longest ago are forgotten first."""

from __future__ import annotations

import pyarrow as pa

from lancewright.table.index_reader import _Kept

FILE = (pa.table({"a": [1]}), {"b": "c"})


def test_a_file_is_kept_until_others_need_its_place() -> None:
    kept = _Kept(100)
    kept.keep("a", FILE, 40)
    kept.keep("b", FILE, 40)
    kept.get("a")

    kept.keep("c", FILE, 40)

    assert kept.get("b") is None
    assert kept.get("a") == kept.get("c") == FILE


def test_a_file_that_comes_twice_counts_once_and_one_too_large_not_at_all() -> None:
    kept = _Kept(100)

    for _ in range(5):
        kept.keep("a", FILE, 60)
    kept.keep("b", FILE, 101)

    assert kept.get("a") == FILE
    assert kept.get("b") is None
