"""Answers how one event reads: as one plain sentence, and as a flat record for JSON. Pure.

It does not decide who reads it (see ``sinks``), and it does not add the time: events carry none.
"""

from __future__ import annotations

from dataclasses import fields

from lancewright.observe.events import (
    BuildPlanned,
    CommitConflicted,
    Event,
    FilesRemoved,
    FragmentsCompacted,
    IndexCommitted,
    IndexDropped,
    JournalCleaned,
    ModelTrained,
    ReuseTrimmed,
    SegmentFoundWrong,
    SegmentReused,
    SettingChanged,
    StageFinished,
    StageStarted,
    StepFinished,
    StepStarted,
    TaskFailed,
    TaskFinished,
)

_RUNS_SHOWN_MAX = 5
"""A sentence stays one line on a table of a hundred thousand fragments."""


def describe_event(event: Event) -> str:  # noqa: C901, PLR0911, PLR0912 - one case per event, none nested
    """Say in one sentence what happened.

    >>> describe_event(JournalCleaned(job_id="j1", files=3))
    'Removed 3 files of the build journal.'
    """
    match event:
        case BuildPlanned():
            return _describe_plan(event)
        case StageStarted(stage=stage):
            return f"Stage {stage} started: {_count(event.tasks, 'task')}, {_count(event.rows, 'row')}."
        case StageFinished(stage=stage):
            return f"Stage {stage} finished: {_count(event.tasks, 'task')}."
        case TaskFinished():
            return (
                f"Task {event.task_id} of stage {event.stage} wrote {_count(event.rows, 'row')} of index "
                f"{event.index!r} in {event.seconds:.1f} s ({_fragments(event.fragments)})."
            )
        case TaskFailed():
            return (
                f"Task {event.task_id} of stage {event.stage} for index {event.index!r} failed, attempt "
                f"{event.attempt} of {event.attempts_max} ({_fragments(event.fragments)}): "
                f"{_sentence(event.problem)}"
            )
        case SegmentReused():
            return (
                f"Segment {event.segment} of index {event.index!r}, built by an earlier attempt, "
                f"is used again ({_fragments(event.fragments)})."
            )
        case ModelTrained():
            origin = "Took the given" if event.given else "Trained the"
            return (
                f"{origin} {event.kind} model of index {event.index!r}: {_count(event.size_bytes, 'byte')}."
            )
        case CommitConflicted():
            return _describe_conflict(event)
        case IndexCommitted():
            return (
                f"Committed index {event.index!r} as version {event.version}: "
                f"{_count(event.segments_added, 'segment')} added, {event.segments_removed:,} removed "
                f"({_fragments(event.fragments)})."
            )
        case IndexDropped():
            return f"Dropped index {event.index!r}; the table is now at version {event.version}."
        case JournalCleaned():
            return f"Removed {_count(event.files, 'file')} of the build journal."
        case FragmentsCompacted():
            later = "; index files keep the old addresses for now" if event.deferred else ""
            return f"Compacted {_fragments(event.fragments)} as version {event.version}{later}."
        case ReuseTrimmed():
            return f"No segment waits for a deferred compaction any more; the table is now at version {event.version}."
        case SegmentFoundWrong():
            seen = f", {_count(event.rows, 'row')}" if event.rows else ""
            more = f" {_sentence(event.problem)}" if event.problem else ""
            return f"Segment {event.segment} of index {event.index!r} is wrong: {event.fault}{seen}.{more}"
        case SettingChanged():
            done = (
                f"Set the table's {event.setting} to {event.value!r}"
                if event.value
                else f"Removed the table's {event.setting}"
            )
            return f"{done}."
        case FilesRemoved():
            return f"Removed {event.what}: {event.count:,}."
        case StepStarted():
            return f"Step {event.verb} of maintaining {event.table} started."
        case StepFinished():
            told = f": {_sentence(event.problem)}" if event.problem else "."
            return f"Step {event.verb} ended, {event.outcome}{told}"
        case _:
            return describe_fields(event)


def describe_fields(event: Event) -> str:
    """Name the event and its fields: what is left to say about an event that has no sentence of its own."""
    told = ", ".join(f"{name}={value!r}" for name, value in event_fields(event).items())
    return f"{type(event).__name__}: {told}."


def event_fields(event: Event) -> dict[str, object]:
    """List the fields of an event by name, with lists for tuples, in the order of their declaration."""
    return {field.name: _plain(getattr(event, field.name)) for field in fields(event)}


def _describe_plan(event: BuildPlanned) -> str:
    reused = f", {event.tasks_reused:,} of them finished earlier" if event.tasks_reused else ""
    return (
        f"Planned {_names(event.indexes)} on {event.table} at version {event.version}: "
        f"{_count(event.tasks, 'task')}{reused}, {_count(event.rows, 'row')}."
    )


def _describe_conflict(event: CommitConflicted) -> str:
    return (
        f"Another writer changed the table before {_names(event.indexes)} could be committed on version "
        f"{event.version}, attempt {event.attempt}; "
        f"to build again: {_fragments(event.fragments_lost)}. {_sentence(event.problem)}"
    )


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _names(indexes: tuple[str, ...]) -> str:
    noun = "index" if len(indexes) == 1 else "indexes"
    return f"{noun} {', '.join(repr(index) for index in indexes)}"


def _sentence(problem: str) -> str:
    """One line with one full stop: a foreign problem may be a stack trace of many lines."""
    return f"{' '.join(problem.split()).rstrip('.')}."


def _fragments(fragments: tuple[int, ...]) -> str:
    if not fragments:
        return "no fragments"
    if len(fragments) == 1:
        return f"fragment {fragments[0]}"
    runs = _runs(fragments)
    shown = ", ".join(
        str(first) if first == last else f"{first}-{last}" for first, last in runs[:_RUNS_SHOWN_MAX]
    )
    if len(runs) <= _RUNS_SHOWN_MAX:
        return f"fragments {shown}"
    return f"{len(fragments):,} fragments: {shown}, ..."


def _runs(fragments: tuple[int, ...]) -> list[tuple[int, int]]:
    """First and last id of each run of consecutive fragments."""
    runs: list[tuple[int, int]] = []
    for fragment in sorted(fragments):
        if runs and fragment <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], fragment)
        else:
            runs.append((fragment, fragment))
    return runs
