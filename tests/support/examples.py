"""Which examples Hypothesis makes under ``CI``, where it fixes them by the name of the test: other ones for each table of one test."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from hypothesis import seed, settings

if TYPE_CHECKING:
    from collections.abc import Callable

Judge = TypeVar("Judge")


def examples_of(table: object) -> Callable[[Judge], Judge]:
    """For a property inside of a test, which ``conftest`` does not see: examples of its own for each table."""

    def choose(judge: Judge) -> Judge:
        return seed(repr(table))(judge) if settings.default.derandomize else judge  # type: ignore[type-var] # a property

    return choose
