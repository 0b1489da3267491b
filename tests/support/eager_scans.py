"""Scans that ask every index that can answer, whatever it costs, so that small tables test what large ones do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance

from lancewright.query.plan import indexes_of
from lancewright.query.resolve import ResolvedScan, ScanRequest, plan_scan, resolve_scan
from lancewright.query.run import count_scan, run_scan
from lancewright.query.settings import ScanSettings
from lancewright.runtime.local_runner import LocalRunner
from lancewright.table.location import table_ref

if TYPE_CHECKING:
    from lancewright.query.plan import Reason

EAGER = ScanSettings(random_read_bytes=0, run_bytes=0, index_byte_weight=0.0, probe_rows_max=10**9)


def resolve_eagerly(uri: str, where: str, *, strict: bool = False) -> ResolvedScan:
    """A scan for the column ``id`` whose indexes were asked."""
    request = ScanRequest(where=where, columns=("id",), settings=EAGER, strict=strict)
    return resolve_scan(plan_scan(table_ref(uri), request, 2))


def asked_indexes(scan: ResolvedScan) -> set[str]:
    """The indexes that some portion asks."""
    probes = [portion.probe for portion in scan.planned.plan.portions if portion.probe is not None]
    return set().union(*map(indexes_of, probes)) if probes else set()


def reasons(scan: ResolvedScan) -> set[Reason]:
    """How asking ended, for each portion."""
    return {answer.reason for answer in scan.answers}


def assert_equal_to_a_full_scan(uri: str, where: str) -> ResolvedScan:
    """Compare the rows, and their number, with those that pylance finds by reading everything."""
    scan = resolve_eagerly(uri, where, strict=True)
    found = sorted(run_scan(scan, LocalRunner())["id"].to_pylist())
    whole = lance.dataset(uri).to_table(filter=where, columns=["id"], use_scalar_index=False)
    assert found == sorted(whole["id"].to_pylist()), where
    assert count_scan(scan, LocalRunner()) == len(found), where
    return scan
