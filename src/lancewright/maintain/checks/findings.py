"""What a check of an index finds, and when a failure is a finding."""

from __future__ import annotations

import enum
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancewright.errors import InvalidRequestError, LancewrightError
from lancewright.table.lance_compat import translating

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from lancewright.table.location import TableRef

EXAMPLES_MAX = 5


class Fault(enum.StrEnum):
    """What is wrong with a segment.

    MISSING: rows are not found by the values they have. STALE: rows are named for values they do not have. DUPLICATED: rows are
    in the index twice. DAMAGED: it cannot be read. LOW_RECALL: it finds too few of the nearest vectors.
    """

    MISSING = "missing"
    STALE = "stale"
    DUPLICATED = "duplicated"
    DAMAGED = "damaged"
    LOW_RECALL = "low_recall"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault of one segment: how many rows were seen to have it, a few of their addresses, and what was asked for them."""

    segment: str
    fault: Fault
    rows: int = 0
    addresses: tuple[int, ...] = ()
    asked: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """How many of the ``k`` nearest rows a segment finds, of those it covers: searched as usual, and in all its partitions.

    The queries are stored vectors.
    """

    k: int
    queries: int
    usual: float
    whole: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What one task found out about some fragments of a segment.

    ``questions`` were asked of index and rows alike, ``postings`` compared with the rows. ``failure``: the index as a whole did
    not answer. ``notes`` say what was not looked at, and why.
    """

    questions: int = 0
    postings: int = 0
    findings: tuple[Finding, ...] = ()
    failure: str = ""
    recall: Recall | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


class SegmentFailedError(LancewrightError):
    """A segment, or the index as a whole, could not be read or asked."""


@contextmanager
def blaming_segment(table: TableRef, doing: str) -> Iterator[None]:
    """What fails inside is the index's fault, unless the storage, the machine or the caller is to blame."""
    try:
        with translating(table, doing):
            yield
    except SegmentFailedError:
        raise
    except LancewrightError as error:
        blameless = isinstance(error, InvalidRequestError) or isinstance(error.__cause__, MemoryError)
        if blameless or "store did not answer" in error.problem:
            raise
        raise SegmentFailedError(error.problem, error.remedy) from error


def damaged(segment: str, problem: str) -> Finding:
    """A segment that cannot be read."""
    return Finding(segment=segment, fault=Fault.DAMAGED, problem=problem)


def of_rows(segment: str, fault: Fault, rows: NDArray[np.uint64], asked: Sequence[str] = ()) -> list[Finding]:
    """The finding of a fault that these rows have; none when there are no rows."""
    if not len(rows):
        return []
    return [
        Finding(
            segment=segment,
            fault=fault,
            rows=len(rows),
            addresses=tuple(rows[:EXAMPLES_MAX].tolist()),
            asked=tuple(asked[:EXAMPLES_MAX]),
        )
    ]


def gather(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """One finding for each segment and fault. Rows that two tasks or questions saw count twice."""
    found: dict[tuple[str, Fault], Finding] = {}
    for one in findings:
        known = found.get((one.segment, one.fault))
        if known is None:
            found[one.segment, one.fault] = one
            continue
        found[one.segment, one.fault] = Finding(
            segment=one.segment,
            fault=one.fault,
            rows=known.rows + one.rows,
            addresses=tuple(dict.fromkeys((*known.addresses, *one.addresses)))[:EXAMPLES_MAX],
            asked=tuple(dict.fromkeys((*known.asked, *one.asked)))[:EXAMPLES_MAX],
            problem=known.problem or one.problem,
        )
    return tuple(found.values())
