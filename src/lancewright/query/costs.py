"""Answers whether asking an index is cheaper than scanning. Pure; every cost is in bytes of a sequential scan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lancewright.model.columns import Column
    from lancewright.query.plan import Estimate
    from lancewright.query.settings import ScanSettings

# Neither the manifest nor the schema says how long texts and lists are.
_TEXT_BYTES = 32
_LIST_ITEMS = 8
# An index has to promise this much before it is asked: estimates are rough.
_WORTHWHILE_SHARE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Widths:
    """Bytes per row of the columns a query only filters by, filters by and returns, and only returns."""

    filtered: tuple[int, ...]
    both: tuple[int, ...]
    returned: tuple[int, ...]


def measure_widths(columns: Mapping[str, Column], filtered: Iterable[str], returned: Iterable[str]) -> Widths:
    """Estimate the widths of columns given by their paths."""
    asked, wanted = dict.fromkeys(filtered), dict.fromkeys(returned)
    return Widths(
        filtered=_widths(columns, [path for path in asked if path not in wanted]),
        both=_widths(columns, [path for path in asked if path in wanted]),
        returned=_widths(columns, [path for path in wanted if path not in asked]),
    )


def _widths(columns: Mapping[str, Column], paths: Iterable[str]) -> tuple[int, ...]:
    return tuple(width_of(columns[path].type) for path in paths if path in columns)


def width_of(type_: pa.DataType) -> int:
    """Bytes one value takes, a guess where the type does not say."""
    if isinstance(type_, pa.BaseExtensionType):
        return width_of(type_.storage_type)
    if pa.types.is_struct(type_):
        return sum(width_of(field.type) for field in type_) or 1
    if pa.types.is_fixed_size_list(type_):
        return int(type_.list_size) * width_of(type_.value_type)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return _LIST_ITEMS * width_of(type_.value_type)
    try:
        return max(1, int(type_.bit_width) // 8)
    except ValueError:
        return _TEXT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Some rows of so many, falling into so many runs; ``settled`` when no filter is left to check on them."""

    rows: float
    runs: float
    of_rows: int
    settled: bool


def cost_of_rows(reading: Reading, widths: Widths, settings: ScanSettings) -> float:
    """Reading rows by their addresses: at most the columns whole, and picking the rows out."""
    checked = () if reading.settled else widths.filtered
    columns = (*checked, *widths.both, *widths.returned)
    return _fetch(reading, columns, settings) + reading.runs * settings.run_bytes * len(columns)


def cost_of_scan(reading: Reading, widths: Widths, settings: ScanSettings) -> float:
    """Scanning for the same rows: the columns filtered by whole, of the others what the rows found need."""
    whole = float(reading.of_rows) * sum((*widths.filtered, *widths.both))
    return whole + _fetch(reading, widths.returned, settings)


def is_worthwhile(estimate: Estimate, reading: Reading, widths: Widths, settings: ScanSettings) -> bool:
    """True when asking the index and reading the rows it names is cheaper than scanning all rows.

    Columns that are only returned cost the same both ways: a scan reads them for the rows it found.
    """
    deciding = replace(widths, returned=())
    asking = estimate.index_bytes * settings.index_byte_weight
    found = asking + cost_of_rows(reading, deciding, settings)
    return found < cost_of_scan(reading, deciding, settings) * _WORTHWHILE_SHARE


def _fetch(reading: Reading, widths: Iterable[int], settings: ScanSettings) -> float:
    return sum(
        min(reading.runs * settings.random_read_bytes + reading.rows * width, float(reading.of_rows) * width)
        for width in widths
    )
