"""Reads how old something is from the command line: 7d, 12h, 30m, 0s."""

from __future__ import annotations

import re
from datetime import timedelta

from lancewright.errors import InvalidRequestError

_AGE = re.compile(r"(\d{1,6}(?:\.\d+)?)([wdhms])")
_UNITS = {"w": "weeks", "d": "days", "h": "hours", "m": "minutes", "s": "seconds"}


def read_age(text: str) -> timedelta:
    """The span of time a text says; raises when it says none."""
    match = _AGE.fullmatch(text)
    if match is None:
        raise InvalidRequestError(
            f"{text!r} is no age",
            "Write a number and a unit: 7d for days, 12h for hours, 30m for minutes, 0s.",
        )
    return timedelta(**{_UNITS[match[2]]: float(match[1])})
