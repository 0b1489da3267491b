"""What the description of events promises."""

from __future__ import annotations

import dataclasses
import json

import pytest

from lancewright.observe import events
from lancewright.observe.describe import describe_event, describe_fields, event_fields

EVENT_TYPES = tuple(
    value
    for value in vars(events).values()
    if isinstance(value, type) and issubclass(value, events.Event) and value is not events.Event
)

SAMPLE_VALUES: dict[str, object] = {
    "str": "amber",
    "int": 7,
    "float": 1.5,
    "bool": True,
    "tuple[str, ...]": ("amber", "blue"),
    "tuple[int, ...]": (3, 4, 9),
}


def sample(event_type: type[events.Event]) -> events.Event:
    """An event of this class with a value for every field, so that a new class needs no change here."""
    values = {field.name: SAMPLE_VALUES[str(field.type)] for field in dataclasses.fields(event_type)}
    return event_type(**values)  # type: ignore[arg-type]  # the fields are only known at run time


def task_failed(
    *, problem: str = "disk full", fragments: tuple[int, ...] = (0, 1, 2, 5)
) -> events.TaskFailed:
    return events.TaskFailed(
        job_id="job",
        stage="build",
        task_id="t1",
        index="by_name",
        fragments=fragments,
        attempt=1,
        attempts_max=4,
        problem=problem,
    )


def test_the_list_of_event_classes_is_not_empty() -> None:
    assert events.TaskFinished in EVENT_TYPES


@pytest.mark.parametrize("event_type", EVENT_TYPES)
def test_every_event_has_a_sentence_of_its_own(event_type: type[events.Event]) -> None:
    event = sample(event_type)

    sentence = describe_event(event)

    assert sentence != describe_fields(event), f"{event_type.__name__} has no case in describe_event"
    assert sentence[0].isupper()
    assert sentence.endswith(".")
    assert "\n" not in sentence


@pytest.mark.parametrize("event_type", EVENT_TYPES)
def test_every_event_survives_the_way_to_json_and_back(event_type: type[events.Event]) -> None:
    event = sample(event_type)

    read = json.loads(json.dumps(event_fields(event)))

    assert read == event_fields(event)
    assert list(read) == [field.name for field in dataclasses.fields(event)]


@pytest.mark.parametrize("event_type", EVENT_TYPES)
def test_no_event_has_a_field_for_a_credential_or_for_storage_options(event_type: type[events.Event]) -> None:
    names = {field.name for field in dataclasses.fields(event_type)}

    suspicious = {
        name
        for name in names
        for part in ("option", "credential", "secret", "token", "password", "access", "key")
        if part in name
    }

    assert suspicious == set()


@pytest.mark.parametrize("event_type", EVENT_TYPES)
def test_no_event_field_hides_the_name_or_the_time_of_a_json_line(event_type: type[events.Event]) -> None:
    names = {field.name for field in dataclasses.fields(event_type)}

    assert names.isdisjoint({"event", "at"})


def test_tuples_become_lists_in_the_json_form() -> None:
    event = sample(events.IndexCommitted)

    assert event_fields(event)["fragments"] == [3, 4, 9]


def test_an_event_class_unknown_here_is_told_by_its_fields() -> None:
    @dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
    class CometSeen(events.Event):
        tail: int

    assert describe_event(CometSeen(job_id="j", tail=3)) == "CometSeen: job_id='j', tail=3."


def test_a_failed_task_says_which_attempt_which_fragments_and_why() -> None:
    assert describe_event(task_failed()) == (
        "Task t1 of stage build for index 'by_name' failed, attempt 1 of 4 (fragments 0-2, 5): disk full."
    )


def test_a_problem_of_many_lines_is_told_in_one() -> None:
    sentence = describe_event(task_failed(problem="Traceback:\n  File x\nOSError: gone."))

    assert sentence.endswith("Traceback: File x OSError: gone.")


def test_a_sentence_stays_short_on_a_table_of_many_fragments() -> None:
    every_second = tuple(range(0, 200_000, 2))

    sentence = describe_event(task_failed(fragments=every_second))

    assert "100,000 fragments: 0, 2, 4, 6, 8, ..." in sentence


@pytest.mark.parametrize(
    ("fragments", "told"),
    [
        ((), "(no fragments)"),
        ((4,), "(fragment 4)"),
        ((3, 1, 2), "(fragments 1-3)"),
        ((1, 1), "(fragments 1)"),
    ],
)
def test_fragments_are_told_as_runs(fragments: tuple[int, ...], told: str) -> None:
    assert told in describe_event(task_failed(fragments=fragments))


def test_a_count_of_one_is_told_in_the_singular() -> None:
    assert describe_event(events.StageStarted(job_id="j", stage="train", tasks=1, rows=2)) == (
        "Stage train started: 1 task, 2 rows."
    )
