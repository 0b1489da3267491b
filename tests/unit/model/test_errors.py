"""The hierarchy of errors: what a caller may rely on when catching, printing, pickling or exiting."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING

import pytest

from lancewright import errors
from lancewright.errors import (
    ConflictError,
    CorruptIndexError,
    InvalidRequestError,
    LancewrightError,
    NotFoundError,
    TasksFailedError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SPECIFIC = [
    InvalidRequestError,
    NotFoundError,
    ConflictError,
    UnsupportedError,
    TasksFailedError,
    CorruptIndexError,
]
ALL = [LancewrightError, *SPECIFIC]


def _through_pickle(error: LancewrightError, protocol: int = pickle.HIGHEST_PROTOCOL) -> LancewrightError:
    return pickle.loads(pickle.dumps(error, protocol))  # noqa: S301 - our own bytes


def test_the_list_above_names_every_error_of_the_package() -> None:
    defined = {
        thing
        for thing in vars(errors).values()
        if isinstance(thing, type) and thing.__module__ == errors.__name__
    }

    assert defined == set(ALL)


@pytest.mark.parametrize("class_", ALL)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_survives_pickling_with_all_it_says(class_: type[LancewrightError], protocol: int) -> None:
    error = class_("Nothing there", "Look elsewhere.")
    error.add_note("the trace of a worker")

    back = _through_pickle(error, protocol)

    assert type(back) is class_
    assert (back.problem, back.remedy, str(back)) == ("Nothing there", "Look elsewhere.", str(error))
    assert back.__notes__ == ["the trace of a worker"]


@pytest.mark.parametrize("again", [_through_pickle, copy.copy, copy.deepcopy])
def test_the_fragments_of_failed_tasks_survive_pickling_and_copying(
    again: Callable[[LancewrightError], LancewrightError],
) -> None:
    error = TasksFailedError("Two tasks failed", "Run again.", (3, 5))

    back = again(error)

    assert isinstance(back, TasksFailedError)
    assert back.fragments == (3, 5)
    assert str(back) == str(error)


@pytest.mark.parametrize("class_", ALL)
@pytest.mark.parametrize("problem", ["Nothing there", "Nothing there."])
def test_the_message_says_the_problem_then_the_remedy(class_: type[LancewrightError], problem: str) -> None:
    assert str(class_(problem, "Look elsewhere.")) == "Nothing there. Look elsewhere."


@pytest.mark.parametrize("class_", ALL)
def test_every_error_is_caught_by_the_one_base(class_: type[LancewrightError]) -> None:
    with pytest.raises(LancewrightError):
        raise class_("Nothing there", "Look elsewhere.")


@pytest.mark.parametrize(
    ("class_", "builtin"), [(InvalidRequestError, ValueError), (NotFoundError, LookupError)]
)
def test_who_knows_only_builtin_errors_catches_ours_too(
    class_: type[LancewrightError], builtin: type[Exception]
) -> None:
    with pytest.raises(builtin, match="Nothing there"):
        raise class_("Nothing there", "Look elsewhere.")


def test_exit_codes_tell_the_errors_apart_and_none_means_success() -> None:
    codes = [class_.exit_code for class_ in ALL]

    assert len(set(codes)) == len(codes)
    assert all(0 < code < 126 for code in codes)  # the shell takes 126 and above for itself
