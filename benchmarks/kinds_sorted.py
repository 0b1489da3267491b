"""What ``benchmarks.kinds`` asks of kinds ``composite`` and ``key``, and DuckDB with its own indexes beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import lancewright as lw
from benchmarks.kinds_duckdb import Asked, duckdb_beside
from benchmarks.kinds_spatial import BATCH_ROWS, Section, write_rows

if TYPE_CHECKING:
    from pathlib import Path

TENANTS = 20_000
PROBED = 100_000
_DAY = "timestamp '2020-03-01 {}:00:00'"
_BASE = np.datetime64("2020-01-01").astype("datetime64[s]").astype(np.int64)
_YEAR = 366 * 86_400


def composite_section(folder: Path, rows: int, fragments: int) -> Section:
    """Payments of 20,000 tenants in a year; the one asked for is there for certain.

    DuckDB 2 asks an index of several columns for no filter, so its index is over the first.
    """
    uri = write_rows(folder / f"payments-{rows}.lance", rows, fragments, _payments)
    queries = {
        "tenant and moment": f"tenant = 7 AND paid = {_DAY.format('12')}",
        "tenant and a day": f"tenant = 7 AND paid >= {_DAY.format('00')} AND paid < {_DAY.format('23')}",
        "3 tenants and 12 hours": f"tenant IN (7, 700, 7000) AND paid BETWEEN {_DAY.format('06')} AND {_DAY.format('18')}",
        "wide: one tenant": "tenant = 7",
    }
    asked = Asked(
        name=f"payments-{rows}",
        uri=uri,
        columns=("id", "tenant", "paid"),
        index="(tenant)",
        queries={name: f"WHERE {sql}" for name, sql in queries.items()},
    )
    return Section(
        uri=uri,
        indexes={"payment": ("composite", ["tenant", "paid"])},
        queries=queries,
        beside=duckdb_beside(folder, asked),
        rows_per_second_and_core=1_000_000,
    )


def key_section(folder: Path, rows: int, fragments: int) -> Section:
    """Orders known by a text of 16 letters: one of them, and 100,000 at once, half of which are not there."""
    uri = write_rows(folder / f"orders-{rows}.lance", rows, fragments, _orders)
    one = _codes(np.arange(1))[0].as_py()
    probed = _codes(np.arange(PROBED, dtype=np.int64) * (2 * rows // PROBED)).to_pylist()
    asked = Asked(
        name=f"orders-{rows}",
        uri=uri,
        columns=("id", "code"),
        index="(code)",
        queries={
            "one key": f"WHERE code = '{one}'",
            "100,000 keys": "JOIN probed USING (code)",
        },
        tables={"probed": pa.table({"code": probed})},
    )
    return Section(
        uri=uri,
        indexes={"order": ("key", ["code"])},
        queries={"one key": f"code = '{one}'", "100,000 keys": lw.col("code").isin(probed)},
        beside=duckdb_beside(folder, asked),
        rows_per_second_and_core=1_000_000,
        reads_much=frozenset({"100,000 keys"}),
    )


def _payments(number: int) -> pa.RecordBatch:
    random = np.random.default_rng(number)
    tenant = random.integers(0, TENANTS, BATCH_ROWS)
    at = _BASE + random.integers(0, _YEAR, BATCH_ROWS)
    if number == 0:
        tenant[:3], at[:3] = 7, _BASE + 60 * 86_400 + np.array([6, 12, 12]) * 3600
    return pa.record_batch(
        [
            pa.array(np.arange(BATCH_ROWS) + number * BATCH_ROWS),
            pa.array(tenant.astype(np.int32)),
            pa.array(at, pa.timestamp("s")),
            pa.array(random.normal(size=BATCH_ROWS)),
        ],
        names=["id", "tenant", "paid", "amount"],
    )


def _orders(number: int) -> pa.RecordBatch:
    ids = np.arange(BATCH_ROWS, dtype=np.int64) + number * BATCH_ROWS
    return pa.record_batch([pa.array(ids), _codes(ids), pa.array(ids % 1000)], names=["id", "code", "amount"])


def _codes(ids: np.ndarray) -> pa.Array:
    """A text for each number, in no order: the number times an odd one, in hexadecimal."""
    mixed = (ids.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    digits = np.frombuffer(mixed.byteswap().tobytes().hex().encode(), dtype="S16")
    return pa.array(digits.astype("U16"))
