"""Describes what a verification found, and what it mended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewright.report.tables import Grid

if TYPE_CHECKING:
    from lancewright.maintain.checks.findings import Finding
    from lancewright.maintain.checks.verdict import IndexVerified
    from lancewright.maintain.verify import VerifyReceipt


def describe_verify(receipt: VerifyReceipt) -> tuple[Grid, ...]:
    """Every index, then every finding, then what was mended."""
    word = "sound" if receipt.is_sound else f"{len(receipt.findings)} findings"
    how = "thoroughly " if receipt.thorough else ""
    title = f"Verified {receipt.table} {how} version {receipt.version}  in {receipt.seconds:.1f} s: {word}"
    grids = [
        Grid(
            title=title,
            headings=("index", "kind", "segments", "wrong", "questions", "postings", "recall", "notes"),
            rows=tuple(map(_index_row, receipt.indexes)),
        )
    ]
    if receipt.findings:
        grids.append(
            Grid(
                title="Found wrong",
                headings=("index", "segment", "fault", "rows", "addresses", "asked", "problem"),
                rows=tuple(
                    _finding_row(index.name, one) for index in receipt.indexes for one in index.findings
                ),
            )
        )
    if receipt.mended:
        grids.append(
            Grid(
                title="Mended",
                headings=("index", "kind", "was", "segments", "fragments", "rows", "rewritten", "notes"),
                rows=tuple(
                    (
                        one.name,
                        one.kind,
                        ", ".join(dict.fromkeys(finding.fault.value for finding in one.findings)),
                        str(one.segments),
                        str(one.fragments),
                        f"{one.rows:,}",
                        str(one.rewritten),
                        one.problem or "; ".join(one.reasons),
                    )
                    for one in receipt.mended
                ),
            )
        )
    return tuple(grids)


def _index_row(index: IndexVerified) -> tuple[str, ...]:
    return (
        index.name,
        index.kind,
        str(len(index.segments)),
        str(sum(bool(segment.findings) for segment in index.segments)),
        f"{sum(segment.questions for segment in index.segments):,}",
        f"{sum(segment.postings for segment in index.segments):,}",
        "" if index.recall is None else f"{index.recall:.3f}",
        "; ".join(index.notes),
    )


def _finding_row(index: str, finding: Finding) -> tuple[str, ...]:
    return (
        index,
        finding.segment,
        finding.fault.value.replace("_", " "),
        f"{finding.rows:,}" if finding.rows else "",
        ", ".join(map(_place, finding.addresses)),
        "; ".join(finding.asked),
        finding.problem,
    )


def _place(address: int) -> str:
    """A row address as a fragment and a row in it."""
    return f"{address >> 32}:{address & 0xFFFFFFFF}"
