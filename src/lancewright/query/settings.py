"""The numbers that decide when an index is worth asking, each with what it was measured from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSettings:
    """Costs in bytes of a sequential scan, which reads about 1 GB a second and core.

    ``random_read_bytes``: what reading one value by its address costs. Measured: 5 to 8 microseconds a value up to
    10,000 values of 20 million, which is what scanning 8 KB takes.
    ``run_bytes``: what picking one run of neighbours out of what was read costs on top. Measured: a million single rows of 20
    million took 480 ms to pick, 110 ms to scan for.
    ``index_byte_weight``: an index byte against a scanned byte. 1,000 pages of 64 KB took 210 ms, 3 times as long a byte.
    ``probe_rows_max``: more rows than this are not collected on the driver, whatever the share; 2 bytes a row.
    ``rows_per_task``: addresses that one task reads.
    ``scan_rows_per_task``: rows that one scanning task goes through, unless there would be fewer tasks than slots.
    """

    random_read_bytes: int = 8 << 10
    run_bytes: int = 400
    index_byte_weight: float = 3.0
    probe_rows_max: int = 20_000_000
    rows_per_task: int = 250_000
    scan_rows_per_task: int = 20_000_000
    use_indexes: bool = True
