"""Reads dates and times written as text, to the nanosecond, and places wall-clock times in a time zone."""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from dataclasses import dataclass
from fractions import Fraction

NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY_S = 86_400
_EPOCH = dt.date(1970, 1, 1).toordinal()
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?)?"
_MOMENT = re.compile(
    rf"(?P<year>\d{{4}})-(?P<month>\d\d)-(?P<day>\d\d)(?:[ T]{_TIME})?(?P<zone>Z|[+-]\d\d:\d\d)?\Z", re.ASCII
)
_CLOCK = re.compile(rf"{_TIME}\Z", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Nanoseconds since 1970 on the clock that was written, or in UTC when an offset was."""

    nanoseconds: int
    has_offset: bool
    is_day: bool


def read_moment(text: str) -> Moment | None:
    """An ISO 8601 date, or date and time; None for anything else."""
    match = _MOMENT.match(text)
    if match is None:
        return None
    try:
        day = dt.date(int(match["year"]), int(match["month"]), int(match["day"])).toordinal() - _EPOCH
    except ValueError:
        return None
    clock = _clock(match) if match["hour"] else 0
    if clock is None or (match["zone"] and not match["hour"]):
        return None
    nanoseconds = day * _DAY_S * 10**9 + clock - _offset_s(match["zone"] or "Z") * 10**9
    return Moment(nanoseconds=nanoseconds, has_offset=bool(match["zone"]), is_day=not match["hour"])


def read_clock(text: str) -> int | None:
    """Nanoseconds since midnight of a time such as ``12:30:00.5``; None for anything else."""
    match = _CLOCK.match(text)
    return None if match is None else _clock(match)


def place_in_zone(nanoseconds: int, zone: str) -> int | None:
    """The instant at which a clock in this zone shows this time; None when there is none, or two."""
    if zone in {"UTC", "Z", "+00:00", "Etc/UTC"}:
        return nanoseconds
    seconds, rest = divmod(nanoseconds, 10**9)
    try:
        wall = dt.datetime(1970, 1, 1, tzinfo=zoneinfo.ZoneInfo(zone)) + dt.timedelta(seconds=seconds)
        early, late = (wall.replace(fold=fold).timestamp() for fold in (0, 1))
    except (OverflowError, ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return None
    return None if early != late else int(early) * 10**9 + rest


def count(nanoseconds: int, unit: str) -> Fraction:
    """How many units this is, exactly."""
    return Fraction(nanoseconds, NANOSECONDS[unit])


def truncate(number: Fraction) -> int:
    """Towards zero, as Arrow casts a finer unit to a coarser one."""
    return int(number)


def _clock(match: re.Match[str]) -> int | None:
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"] or 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    return ((hour * 60 + minute) * 60 + second) * 10**9 + int((match["fraction"] or "0").ljust(9, "0"))


def _offset_s(zone: str) -> int:
    if zone == "Z":
        return 0
    seconds = (int(zone[1:3]) * 60 + int(zone[4:6])) * 60
    return -seconds if zone[0] == "-" else seconds
