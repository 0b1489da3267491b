"""Turns what Lance refuses into this package's errors, once, with the original as the cause.

What may not be the request's fault passes: storage errors, in whatever class they come, and failures inside Lance. The
caller knows the table and its credentials, may try again, and must not throw finished work away.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lancewright.errors import InvalidRequestError, LancewrightError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Lance appends the Rust source line to its messages, and a stack trace to panics.
_SOURCE_LINE = re.compile(r",? ?/[\w./-]+\.rs:\d+:\d+")
_UNSUPPORTED = ("not supported", "unsupported", "not yet supported", "not implemented")
# Exceptions of native code that may refuse the request; the rest is left to the caller.
_REFUSALS = (ValueError, TypeError, KeyError, NotImplementedError, RuntimeError)
# A file that is not there, or is not what it was, comes as a ValueError too.
_STORAGE = re.compile(r"not found: \S+/|does not appear to be a Lance file|LanceError\(IO\)", re.IGNORECASE)


@contextmanager
def lance_errors(action: str) -> Iterator[None]:
    """Translate what Lance raises inside; ``action`` says what was tried, as in "build btree on id"."""
    try:
        yield
    except LancewrightError:
        raise
    except _REFUSALS as error:
        refusal = _find_refusal(action, error)
        if refusal is None:
            raise
        raise refusal from error
    except BaseException as error:
        # A panic of Lance's Rust code derives from BaseException only; storage errors and real exits pass.
        if type(error).__name__ != "PanicException":
            raise
        problem = f"Lance failed inside itself when asked to {action}: {_message(error)}"
        raise UnsupportedError(
            problem, "Report it to Lance with the table's schema, and use another kind."
        ) from error


def _find_refusal(action: str, error: Exception) -> LancewrightError | None:
    message = _message(error)
    problem = f"Lance could not {action}: {message}"
    if isinstance(error, NotImplementedError) or any(words in message.lower() for words in _UNSUPPORTED):
        return UnsupportedError(problem, "Use another kind, other parameters or another column.")
    if isinstance(error, RuntimeError) or _STORAGE.search(str(error)):
        return None
    return InvalidRequestError(problem, "Change the request; `lancewright kinds` lists what each kind takes.")


def _message(error: BaseException) -> str:
    text = _SOURCE_LINE.sub("", str(error)).strip() or type(error).__name__
    return text.splitlines()[0].removeprefix("Invalid user input: ")
