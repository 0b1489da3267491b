"""One frozen event per fact. An event never holds a credential: tables are named by their redacted URI."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened, in one build or verb named by ``job_id``."""

    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildPlanned(Event):
    """A build knows its tasks; ``tasks_reused`` of them were finished by an earlier attempt."""

    table: str
    version: int
    indexes: tuple[str, ...]
    tasks: int
    tasks_reused: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStarted(Event):
    """A group of tasks was handed to the runner. ``stage`` is train, build, sort or merge."""

    stage: str
    tasks: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFinished(Event):
    """Every task of a stage ended well."""

    stage: str
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFinished(Event):
    """One task wrote its result."""

    stage: str
    task_id: str
    index: str
    fragments: tuple[int, ...]
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailed(Event):
    """One attempt of a task failed; it is tried again while ``attempt`` is below ``attempts_max``."""

    stage: str
    task_id: str
    index: str
    fragments: tuple[int, ...]
    attempt: int
    attempts_max: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentReused(Event):
    """A segment finished by an earlier, broken-off build still fits the table and is used again."""

    index: str
    segment: str
    fragments: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTrained(Event):
    """The model of a vector index is ready and shared by all tasks."""

    index: str
    kind: str
    size_bytes: int
    given: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitConflicted(Event):
    """Another writer changed the table first; ``fragments_lost`` have to be built again."""

    indexes: tuple[str, ...]
    version: int
    attempt: int
    fragments_lost: tuple[int, ...]
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCommitted(Event):
    """One atomic commit made segments visible."""

    index: str
    version: int
    segments_added: int
    segments_removed: int
    fragments: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDropped(Event):
    """An index is no longer listed in the table."""

    index: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalCleaned(Event):
    """The journal and the scratch segments of a finished build were removed."""

    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentsCompacted(Event):
    """One commit replaced fragments by fewer ones; ``deferred``: index files keep the old addresses for now."""

    version: int
    fragments: tuple[int, ...]
    deferred: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseTrimmed(Event):
    """No segment waits for a deferred compaction any more; the table's notes of them were taken out."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFoundWrong(Event):
    """A verification found a segment wrong: ``rows`` were seen to be missing, stale or twice; ``problem`` says more, if there is more."""

    index: str
    segment: str
    fault: str
    rows: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChanged(Event):
    """One commit set an entry of the table's config, or removed it: then ``value`` is empty."""

    setting: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesRemoved(Event):
    """A cleanup removed ``what``: old versions, files that nobody uses, or journals of builds that are over."""

    what: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted(Event):
    """A step of ``maintain`` begins."""

    table: str
    verb: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinished(Event):
    """A step of ``maintain`` ended, well or not; ``problem`` is empty when nothing is wrong."""

    verb: str
    outcome: str
    problem: str
