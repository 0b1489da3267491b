"""Merges the page lookups of a very large index, made up: 10 billion rows in 1,000 ranges are 2.44 million pages.

    make bench-btree ARGUMENTS="--lookup"

Runs the build's own code, from the parts as executors send them to the lookup file on disk, in a process of its own.
"""

from __future__ import annotations

import io
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from lancewright.build.range_build import write_lookup
from lancewright.build.range_worker import read_part
from lancewright.build.sort_journal import WrittenRange
from lancewright.kinds.btree.pages import PAGE_ROWS, page_schema
from lancewright.table.location import table_ref
from lancewright.table.segment_files import SegmentFolder


def bench_lookup(rows: int, ranges: int, repeats: int) -> None:
    """Merge in fresh processes and print the medians."""
    runs = [_run_apart(rows, ranges) for _ in range(repeats)]
    seconds = sorted(run["seconds"] for run in runs)[len(runs) // 2]
    result = {
        "rows": rows,
        "ranges": ranges,
        "pages": runs[0]["pages"],
        "seconds": round(seconds, 3),
        "peak_mib": round(max(run["peak_mib"] for run in runs)),
        "file_mib": round(runs[0]["file_mib"], 1),
    }
    print(
        f"Merging the lookups of {rows:,} rows in {ranges:,} ranges, {result['pages']:,} pages: {seconds:.2f} s"
    )
    print(json.dumps(result))


def main(rows: int, ranges: int) -> None:
    """One run; says on standard output what it took."""
    written = make_ranges(rows, ranges)
    with tempfile.TemporaryDirectory(prefix="lancewright-bench-") as folder:
        started = time.perf_counter()
        parts = [read_part(entry) for entry in written]
        files = write_lookup(SegmentFolder(table_ref(folder), "merged"), parts, pa.int64(), PAGE_ROWS)
        seconds = time.perf_counter() - started
        size = files[-1].size_bytes
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    pages = sum(part.pages.num_rows for part in parts)
    print(json.dumps({"seconds": seconds, "peak_mib": peak, "pages": pages, "file_mib": size / (1 << 20)}))


def make_ranges(rows: int, ranges: int) -> list[WrittenRange]:
    """What the executors send of even ranges over ascending numbers."""
    each = rows // ranges
    pages = -(-each // PAGE_ROWS)
    written = []
    for number in range(ranges):
        firsts = number * each + np.arange(pages, dtype=np.int64) * PAGE_ROWS
        columns = [
            pa.array(firsts),
            pa.array(np.minimum(firsts + PAGE_ROWS, (number + 1) * each) - 1),
            pa.array(np.zeros(pages, dtype=np.uint32)),
        ]
        entries = pa.RecordBatch.from_arrays(columns, schema=page_schema(pa.int64()))
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, entries.schema) as writer:
            writer.write_batch(entries)
        written.append(
            WrittenRange(
                segment_uuid="made-up",
                number=number,
                part_id=number << 32,
                size_bytes=1,
                rows=each,
                pages=sink.getvalue(),
            )
        )
    return written


def _run_apart(rows: int, ranges: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.lookup", str(rows), str(ranges)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
