"""The segments a caller asked for share the rows about equally, however many slots built them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancewright as lw
from lancewright.runtime.local_runner import LocalRunner

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("segments", [1, 2, 3, 5, 7, 8])
def test_segments_differ_by_one_fragment_at_most(tmp_path: Path, segments: int, threads: int) -> None:
    """Tasks are cut so that equally many of them merge into each segment."""
    uri = str(tmp_path / "table.lance")
    lance.write_dataset(pa.table({"number": np.arange(80_000)}), uri, max_rows_per_file=10_000)
    table = lw.open(uri, runner=LocalRunner(threads), progress=False)

    table.create_index("number", kind="btree", segments=segments)

    (info,) = table.indexes()
    sizes = sorted(len(segment.covered) for segment in info.segments)
    assert len(sizes) == segments
    assert sizes[-1] - sizes[0] <= 1
