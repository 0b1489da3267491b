"""The one hierarchy of errors, grouped by what the caller should do next.

Every error carries a problem (what happened) and a remedy (what to do), as two positional
arguments, so that it survives pickling. Foreign errors are translated once, in ``table`` or ``spark``.
"""

from __future__ import annotations

from typing import ClassVar


class LancewrightError(Exception):
    """Base of every error this package raises on purpose."""

    exit_code: ClassVar[int] = 1

    def __init__(self, problem: str, remedy: str) -> None:
        """Keep the problem and the remedy apart, so that a program can show either."""
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        """Say what happened, then what to do."""
        return f"{self.problem.rstrip('.')}. {self.remedy}"


class InvalidRequestError(LancewrightError, ValueError):
    """The call cannot be carried out as written: fix the call."""

    exit_code = 2


class NotFoundError(LancewrightError, LookupError):
    """The table, version or index named does not exist: name another or create it."""

    exit_code = 3


class ConflictError(LancewrightError):
    """Another writer changed the table: read it again and retry."""

    exit_code = 4


class UnsupportedError(LancewrightError):
    """This kind, version or environment cannot do it: use another."""

    exit_code = 5


class TasksFailedError(LancewrightError):
    """Some tasks of a job failed for good: fix the cause and resume the job."""

    exit_code = 6

    def __init__(self, problem: str, remedy: str, fragments: tuple[int, ...] = ()) -> None:
        """Name the fragments whose tasks failed."""
        super().__init__(problem, remedy)
        self.fragments = fragments
        self.args = (problem, remedy, fragments)


class CorruptIndexError(LancewrightError):
    """A stored index or manifest cannot be read: rebuild it."""

    exit_code = 7
