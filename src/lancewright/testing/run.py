"""Runs the kit without pytest: every check on one kind, and a line that sums it up."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancewright.kinds.contract import API
from lancewright.testing.checks import CHECKS, OPTIONAL
from lancewright.testing.laboratory import Laboratory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lancewright.testing.harness import KindHarness


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """How one check ended; ``problem`` is empty when the promise is kept."""

    name: str
    problem: str = ""
    details: str = ""

    @property
    def passed(self) -> bool:
        """True when the promise is kept."""
        return not self.problem


@dataclass(frozen=True, slots=True, kw_only=True)
class KitReport:
    """How a kind did."""

    kind: str
    format: int
    api: tuple[int, int]
    results: tuple[CheckResult, ...]

    @property
    def conforms(self) -> bool:
        """True when every mandatory promise is kept."""
        return all(result.passed for result in self.results if result.name not in OPTIONAL)

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        """The promises that are not kept."""
        return tuple(result for result in self.results if not result.passed)

    def summary(self) -> str:
        """One line, to be shown where the kind is offered."""
        mandatory = [result for result in self.results if result.name not in OPTIONAL]
        optional = [result for result in self.results if result.name in OPTIONAL]
        api = ".".join(map(str, self.api))
        return (
            f"{self.kind}: {_passed(mandatory)}/{len(mandatory)} mandatory, "
            f"{_passed(optional)}/{len(optional)} optional, format {self.format}, api {api}"
        )

    def __str__(self) -> str:
        lines = [self.summary(), *(f"  {result.name}: {result.problem}" for result in self.failed)]
        return "\n".join(lines)


def run_kit(harness: KindHarness, *, seed: int = 0, only: Iterable[str] | None = None) -> KitReport:
    """Run every check, or those named, each with a laboratory of its own."""
    names = tuple(CHECKS) if only is None else tuple(only)
    kind = harness.kind()
    return KitReport(
        kind=kind.name,
        format=kind.writes,
        api=API,
        results=tuple(run_check(harness, name, seed=seed) for name in names),
    )


def run_check(harness: KindHarness, name: str, *, seed: int = 0) -> CheckResult:
    """Run one check."""
    try:
        CHECKS[name](Laboratory(harness, seed))
    except Exception as error:  # noqa: BLE001 - whatever a kind does is a result
        details = "".join(traceback.format_exception(error))
        return CheckResult(name=name, problem=f"{type(error).__name__}: {error}", details=details)
    return CheckResult(name=name)


def _passed(results: list[CheckResult]) -> int:
    return sum(result.passed for result in results)
