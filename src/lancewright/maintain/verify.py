"""The verify verb: asks indexes and rows the same, compares postings with rows, measures recall, and names the segments that are wrong.

Each segment is looked at by tasks of its own. With ``repair`` the wrong ones, and no others, are built anew and swapped in one commit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lancewright.build.groups import cut_contiguous
from lancewright.kinds.registry import native_kind
from lancewright.maintain.checks.findings import Checked, Fault, Finding
from lancewright.maintain.checks.subject import VerifyRules
from lancewright.maintain.checks.verdict import IndexVerified, judge_checks
from lancewright.maintain.checks.worker import VerifySettings, VerifyWork, verify_segment
from lancewright.maintain.refresh import choose_indexes
from lancewright.maintain.repair import Mended, repair_indexes
from lancewright.model.request import require_type
from lancewright.model.segment_details import is_ours
from lancewright.observe.events import (
    SegmentFoundWrong,
    StageFinished,
    StageStarted,
    TaskFailed,
    TaskFinished,
)
from lancewright.runtime.runner import ATTEMPTS_MAX, run_tasks
from lancewright.runtime.task import Job, Task
from lancewright.table.snapshot_reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lancewright.build.rounds import BuildOptions
    from lancewright.model.index import IndexState, Segment
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.observe.sinks import Sink
    from lancewright.runtime.runner import Runner
    from lancewright.runtime.task import TaskOutcome
    from lancewright.table.location import TableRef

STAGE = "verify"
ROWS_PER_TASK = 4_000_000
_REPAIRS_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReceipt:
    """What a verification found at one version, the last one after a repair; ``mended`` says what the repair did."""

    table: str
    version: int
    seconds: float
    thorough: bool
    indexes: tuple[IndexVerified, ...]
    mended: tuple[Mended, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with any index."""
        return tuple(finding for index in self.indexes for finding in index.findings)

    @property
    def is_sound(self) -> bool:
        """True when nothing wrong was found, or nothing is left of it."""
        return not self.findings


@dataclass(frozen=True, slots=True, kw_only=True)
class Repairs:
    """Whether wrong segments are built anew, also those that only find too few of the nearest vectors."""

    wrong: bool = False
    low_recall: bool = False

    def __post_init__(self) -> None:
        """Refuse a flag that is none."""
        require_type("repair", self.wrong, bool)
        require_type("rebuild_low_recall", self.low_recall, bool)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest:
    """Which indexes (None: all), how closely, and what is done then."""

    names: tuple[str, ...] | None = None
    rules: VerifyRules = field(default_factory=VerifyRules)
    repairs: Repairs = field(default_factory=Repairs)


@dataclass(frozen=True, kw_only=True)
class _Verification:
    table: TableRef
    runner: Runner
    sink: Sink
    rules: VerifyRules

    def run(self, snapshot: TableSnapshot, indexes: Sequence[IndexState]) -> tuple[IndexVerified, ...]:
        """Look at every segment of these indexes."""
        job_id = f"verify-{snapshot.version}"
        tasks = [task for index in indexes for task in _plan_tasks(snapshot, index)]
        rows = sum(task.rows for task in tasks)
        self.sink.record(StageStarted(job_id=job_id, stage=STAGE, tasks=len(tasks), rows=rows))
        settings = VerifySettings(table=self.table.pinned(snapshot.version), rules=self.rules)
        found = run_tasks(
            self.runner,
            Job(worker=verify_segment, settings=settings),
            tasks,
            lambda task, outcome, attempt: self._tell(job_id, task, outcome, attempt),
        )
        self.sink.record(StageFinished(job_id=job_id, stage=STAGE, tasks=len(tasks)))
        checked: dict[tuple[str, str], list[Checked]] = {}
        for task in tasks:
            checked.setdefault((task.payload.index, task.payload.segment), []).append(found[task.id].result)
        verified = tuple(judge_checks(snapshot, index, checked) for index in indexes)
        for index in verified:
            for finding in index.findings:
                self._tell_finding(job_id, index.name, finding)
        return verified

    def _tell(self, job_id: str, task: Task, outcome: TaskOutcome, attempt: int) -> None:
        if not outcome.ok:
            self.sink.record(
                TaskFailed(
                    job_id=job_id,
                    stage=STAGE,
                    task_id=task.id,
                    index=task.payload.index,
                    fragments=task.fragments,
                    attempt=attempt,
                    attempts_max=ATTEMPTS_MAX,
                    problem=outcome.problem or "",
                )
            )
            return
        self.sink.record(
            TaskFinished(
                job_id=job_id,
                stage=STAGE,
                task_id=task.id,
                index=task.payload.index,
                fragments=task.fragments,
                rows=task.rows,
                seconds=outcome.result.seconds,
            )
        )

    def _tell_finding(self, job_id: str, index: str, finding: Finding) -> None:
        self.sink.record(
            SegmentFoundWrong(
                job_id=job_id,
                index=index,
                segment=finding.segment,
                fault=finding.fault.value,
                rows=finding.rows,
                problem=finding.problem,
            )
        )


def verify_indexes(
    table: TableRef,
    runner: Runner,
    sink: Sink,
    options: BuildOptions,
    request: VerifyRequest,
) -> VerifyReceipt:
    """Look at indexes at the latest version, and mend them if asked."""
    started = time.monotonic()
    verification = _Verification(table=table, runner=runner, sink=sink, rules=request.rules)
    snapshot = read_snapshot(table.latest())
    found = {one.name: one for one in verification.run(snapshot, choose_indexes(snapshot, request.names))}
    mended: list[Mended] = []
    for _ in range(_REPAIRS_MAX if request.repairs.wrong else 0):
        wrong = _condemn(found, request.repairs)
        if not wrong:
            break
        done = repair_indexes(table, runner, sink, options, wrong)
        mended += [replace(one, findings=found[one.name].findings) for one in done]
        snapshot = read_snapshot(table.latest())
        again = verification.run(snapshot, [index for index in snapshot.indexes if index.name in wrong])
        # One that was dropped meanwhile has nothing left to be wrong.
        found = {name: one for name, one in found.items() if name not in wrong}
        found |= {one.name: one for one in again}
        if all(one.problem is not None for one in done):
            break
    return VerifyReceipt(
        table=table.name,
        version=snapshot.version,
        seconds=time.monotonic() - started,
        thorough=request.rules.thorough,
        indexes=tuple(found.values()),
        mended=tuple(mended),
    )


def _plan_tasks(snapshot: TableSnapshot, index: IndexState) -> Iterator[Task]:
    for segment in index.segments:
        fragments = [
            snapshot.fragments_by_id[fragment]
            for fragment in segment.covered
            if fragment in snapshot.fragments_by_id
        ]
        rows = [fragment.rows for fragment in fragments]
        groups = -(-sum(rows) // ROWS_PER_TASK) if _is_cut(index, segment) else 1
        for number, run in enumerate(cut_contiguous(rows, max(1, groups))):
            chosen = tuple(fragments[place].id for place in run)
            yield Task(
                id=f"{segment.uuid}-{number}",
                payload=VerifyWork(
                    index=index.name, segment=segment.uuid, fragments=chosen, is_first=not number
                ),
                label=f"verify {index.name}",
                fragments=chosen,
                rows=sum(rows[place] for place in run),
            )


def _is_cut(index: IndexState, segment: Segment) -> bool:
    """A segment of a plugin's kind is asked as a whole, and neighbours are those of a whole segment."""
    kind = native_kind(index.kind)
    return not is_ours(segment.type_url) and kind is not None and kind.family != "vector"


def _condemn(found: Mapping[str, IndexVerified], repairs: Repairs) -> dict[str, frozenset[str]]:
    """By index, the segments to be built anew."""
    wrong = {
        name: frozenset(
            finding.segment
            for finding in index.findings
            if finding.fault is not Fault.LOW_RECALL or repairs.low_recall
        )
        for name, index in found.items()
    }
    return {name: uuids for name, uuids in wrong.items() if uuids}
