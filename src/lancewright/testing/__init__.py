"""The kit for authors of index kinds: what every kind must keep to, tried on one.

>>> from lancewright.testing import run_kit, usual_harness
>>> report = run_kit(usual_harness("key"))      # doctest: +SKIP
>>> assert report.conforms, str(report)         # doctest: +SKIP

With pytest: ``pytest --pyargs lancewright.testing.suite --index-kind key``.
"""

from __future__ import annotations

from lancewright.testing.golden import write_golden
from lancewright.testing.harness import Case, KindHarness, Ranking, usual_harness
from lancewright.testing.run import CheckResult, KitReport, run_check, run_kit

__all__ = [
    "Case",
    "CheckResult",
    "KindHarness",
    "KitReport",
    "Ranking",
    "run_check",
    "run_kit",
    "usual_harness",
    "write_golden",
]
