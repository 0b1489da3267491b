"""Answers where a constant of time lies among the whole numbers that a column of times is made of. Pure."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewright.model.predicate.moments import NANOSECONDS, Moment, place_in_zone, read_clock, read_moment

if TYPE_CHECKING:
    from lancewright.model.predicate.constants import Known

_DAY_NS = 86_400 * 10**9


def exact_count(type_: pa.DataType, known: Known) -> Fraction | None:
    """The place of the constant, which may lie between two of them; None when it has none."""
    if known.type is None or isinstance(known.value, bool):
        return None
    if known.type == type_:
        return Fraction(known.value)
    if pa.types.is_time(type_):
        return _clock_count(type_, known)
    if pa.types.is_duration(type_):
        same = pa.types.is_duration(known.type)
        return _scaled(known.value, known.type.unit, type_.unit) if same else None
    moment = _moment(known)
    if moment is None:
        return None
    # In SQL a date beside a time with a zone is midnight in UTC to Lance, unlike a time without an offset.
    is_utc = pa.types.is_date(known.type) and not known.is_python
    return _moment_count(type_, moment, is_utc=is_utc)


def _clock_count(type_: pa.DataType, known: Known) -> Fraction | None:
    if isinstance(known.value, str):
        clock = read_clock(known.value)
        return None if clock is None else Fraction(clock, NANOSECONDS[type_.unit])
    if known.type is not None and pa.types.is_time(known.type):
        return _scaled(known.value, known.type.unit, type_.unit)
    return None


def _scaled(value: int, unit: str, wanted: str) -> Fraction:
    return Fraction(value * NANOSECONDS[unit], NANOSECONDS[wanted])


def _moment(known: Known) -> Moment | None:
    if isinstance(known.value, str):
        return read_moment(known.value)
    if known.type is None or not pa.types.is_temporal(known.type):
        return None
    if pa.types.is_date(known.type):
        nanoseconds = known.value * (_DAY_NS if pa.types.is_date32(known.type) else NANOSECONDS["ms"])
        return Moment(nanoseconds=nanoseconds, has_offset=False, is_day=True)
    if not pa.types.is_timestamp(known.type):
        return None
    nanoseconds = known.value * NANOSECONDS[known.type.unit]
    return Moment(nanoseconds=nanoseconds, has_offset=known.type.tz is not None, is_day=False)


def _moment_count(type_: pa.DataType, moment: Moment, *, is_utc: bool) -> Fraction | None:
    nanoseconds: int | None = moment.nanoseconds
    if pa.types.is_date32(type_):
        return None if moment.has_offset else Fraction(moment.nanoseconds, _DAY_NS)
    if pa.types.is_date64(type_):
        return Fraction(moment.nanoseconds, NANOSECONDS["ms"]) if moment.is_day else None
    if not pa.types.is_timestamp(type_):
        return None
    if type_.tz is None:
        if moment.has_offset:
            return None
    elif not moment.has_offset and not is_utc:
        nanoseconds = place_in_zone(moment.nanoseconds, type_.tz)
    return None if nanoseconds is None else Fraction(nanoseconds, NANOSECONDS[type_.unit])
