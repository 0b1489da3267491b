"""The types Lance's filters can name: in ``CAST(x AS BIGINT)`` and in ``arrow_cast(x, 'Int64')``."""

from __future__ import annotations

import re

import pyarrow as pa

_PLAIN = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
}
_UNSIGNED = {"TINYINT": pa.uint8(), "SMALLINT": pa.uint16(), "INT": pa.uint32(), "INTEGER": pa.uint32()} | {
    "BIGINT": pa.uint64()
}
_UNITS = {0: "s", 3: "ms", 6: "us", 9: "ns"}
TYPE_WORDS = frozenset({*_PLAIN, "TIMESTAMP", "DATETIME", "DECIMAL"})

_ARROW_PLAIN = {
    "Boolean": pa.bool_(),
    "Int8": pa.int8(),
    "Int16": pa.int16(),
    "Int32": pa.int32(),
    "Int64": pa.int64(),
    "UInt8": pa.uint8(),
    "UInt16": pa.uint16(),
    "UInt32": pa.uint32(),
    "UInt64": pa.uint64(),
    "Float16": pa.float16(),
    "Float32": pa.float32(),
    "Float64": pa.float64(),
    "Utf8": pa.string(),
    "LargeUtf8": pa.large_string(),
    "Binary": pa.binary(),
    "LargeBinary": pa.large_binary(),
    "Date32": pa.date32(),
    "Date64": pa.date64(),
}
_ARROW_NAMES = {type_: name for name, type_ in _ARROW_PLAIN.items()}
_ARROW_UNITS = {"Second": "s", "Millisecond": "ms", "Microsecond": "us", "Nanosecond": "ns"}
_ARROW_UNIT_NAMES = {unit: name for name, unit in _ARROW_UNITS.items()}
_ARROW_UNIT = re.compile(
    r"(Timestamp|Time32|Time64|Duration)\((\w+)(?:, (None|Some\(\"([\w/+:-]+)\"\)))?\)\Z"
)
_ARROW_DECIMAL = re.compile(r"Decimal(128|256)\((\d+), ?(-?\d+)\)\Z")
_ARROW_FIXED = re.compile(r"FixedSizeBinary\((\d+)\)\Z")


def type_of_name(word: str, numbers: tuple[int, ...], *, unsigned: bool) -> tuple[pa.DataType, str] | None:
    """The type a CAST names, and how Lance writes it; None for one it does not know."""
    if word in {"TIMESTAMP", "DATETIME"} and not unsigned and len(numbers) <= 1:
        digits = numbers[0] if numbers else 6
        return (pa.timestamp(_UNITS[digits]), f"TIMESTAMP({digits})") if digits in _UNITS else None
    if word == "DECIMAL" and not unsigned and len(numbers) == 2:
        precision, scale = numbers
        if not 0 < precision <= 38 or scale > precision:
            return None
        return pa.decimal128(precision, scale), f"DECIMAL({precision}, {scale})"
    if numbers or word not in (_UNSIGNED if unsigned else _PLAIN):
        return None
    return (_UNSIGNED[word], f"{word} UNSIGNED") if unsigned else (_PLAIN[word], word)


def type_of_arrow_name(name: str) -> pa.DataType | None:
    """The type that ``arrow_cast`` knows under this name, or None."""
    if name in _ARROW_PLAIN:
        return _ARROW_PLAIN[name]
    if found := _ARROW_DECIMAL.match(name):
        return _decimal(int(found[1]), int(found[2]), int(found[3]))
    if found := _ARROW_FIXED.match(name):
        return pa.binary(int(found[1]))
    found = _ARROW_UNIT.match(name)
    if found is None or found[2] not in _ARROW_UNITS:
        return None
    unit = _ARROW_UNITS[found[2]]
    try:
        match found[1]:
            case "Timestamp":
                return pa.timestamp(unit, tz=found[4]) if found[3] else None
            case "Duration":
                return pa.duration(unit)
            case "Time32":
                return pa.time32(unit)
            case _:
                return pa.time64(unit)
    except (ValueError, pa.ArrowInvalid):
        return None


def arrow_name(type_: pa.DataType) -> str | None:
    """The name of a type for ``arrow_cast``, or None when a filter cannot name it."""
    if type_ in _ARROW_NAMES:
        return _ARROW_NAMES[type_]
    if pa.types.is_timestamp(type_):
        zone = f'Some("{type_.tz}")' if type_.tz else "None"
        return f"Timestamp({_ARROW_UNIT_NAMES[type_.unit]}, {zone})"
    if pa.types.is_time(type_):
        return f"Time{type_.bit_width}({_ARROW_UNIT_NAMES[type_.unit]})"
    if pa.types.is_duration(type_):
        return f"Duration({_ARROW_UNIT_NAMES[type_.unit]})"
    if pa.types.is_decimal128(type_) or pa.types.is_decimal256(type_):
        return f"Decimal{type_.bit_width}({type_.precision}, {type_.scale})"
    if pa.types.is_fixed_size_binary(type_):
        return f"FixedSizeBinary({type_.byte_width})"
    return None


def _decimal(width: int, precision: int, scale: int) -> pa.DataType | None:
    try:
        return pa.decimal128(precision, scale) if width == 128 else pa.decimal256(precision, scale)
    except (ValueError, pa.ArrowInvalid):
        return None
