"""Which Arrow types each kind can index: built and asked on pylance 14.0.2, see ``tests/unit/kinds/test_column_types.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from lancewright.model.columns import Column

_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
_PLAIN_NUMBERS = (pa.types.is_integer, pa.types.is_float32, pa.types.is_float64)
_DATES = (pa.types.is_date, pa.types.is_timestamp, pa.types.is_time)
_ORDERED = (
    *_TEXT, *_BYTES, *_DATES,
    pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_duration,
    pa.types.is_decimal128, pa.types.is_decimal256, pa.types.is_fixed_size_binary,
)  # fmt: skip
_VECTOR_VALUES = (pa.types.is_float16, pa.types.is_float32, pa.types.is_float64, pa.types.is_uint8)


def storage_type(type_: pa.DataType) -> pa.DataType:
    """The type behind an extension type, for example behind a fixed shape tensor."""
    return type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_


def is_json(column: Column) -> bool:
    """True for a JSON column, whichever of its two names the schema carries."""
    return isinstance(column.type, pa.JsonType) or column.extension_name in {"arrow.json", "lance.json"}


def is_text(type_: pa.DataType) -> bool:
    """True for any of Arrow's string types."""
    return any(test(type_) for test in _TEXT)


def is_list(type_: pa.DataType) -> bool:
    """True for lists of any length, which Lance indexes element by element."""
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_))


def vector_type(column: Column) -> pa.FixedSizeListType | None:
    """The fixed size list of a vector column, also of a multivector column (a list of vectors), else None."""
    type_ = storage_type(column.type)
    if is_multivector(column):
        type_ = type_.value_type
    if pa.types.is_fixed_size_list(type_) and any(test(type_.value_type) for test in _VECTOR_VALUES):
        return type_
    return None


def is_multivector(column: Column) -> bool:
    """True for a list of vectors per row."""
    type_ = storage_type(column.type)
    return bool(pa.types.is_list(type_) and pa.types.is_fixed_size_list(type_.value_type))


def accepts_ordered(column: Column) -> str | None:
    """Scalars with an order; dictionaries are indexed by their values."""
    if is_json(column):
        return "a JSON column has no order; the kind 'json' indexes one path of it"
    type_ = storage_type(column.type)
    if pa.types.is_null(type_):
        return "a column of type null holds no values"  # BTREE answered IS NULL with 0 of 369 rows
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    return None if any(test(type_) for test in _ORDERED) else f"{column.type} has no order"


def accepts_hashed(column: Column) -> str | None:
    """The types Lance's bloom filter hashes: no bool, float16, decimal, duration, fixed size binary or dictionary."""
    tests = (*_TEXT, *_BYTES, *_PLAIN_NUMBERS, *_DATES)
    if is_json(column):
        return "a JSON column cannot be hashed; the kind 'json' indexes one path of it"
    return (
        None if any(test(storage_type(column.type)) for test in tests) else f"Lance cannot hash {column.type}"
    )


def accepts_labels(column: Column) -> str | None:
    """Lists of scalars."""
    type_ = storage_type(column.type)
    if not is_list(type_):
        return f"{column.type} is not a list"
    if not any(test(type_.value_type) for test in _ORDERED):
        return f"its elements are {type_.value_type}, not scalars"
    return None


def accepts_text(column: Column) -> str | None:
    """Strings."""
    if is_json(column):
        return "a JSON column is not plain text; the kind 'inverted' searches it"
    return None if is_text(storage_type(column.type)) else f"{column.type} is not text"


def accepts_documents(column: Column) -> str | None:
    """Strings, lists of strings at any depth, and JSON."""
    type_ = storage_type(column.type)
    while is_list(type_):
        type_ = type_.value_type
    return None if is_text(type_) or is_json(column) else f"{column.type} holds no text"


def accepts_json(column: Column) -> str | None:
    """JSON columns."""
    return None if is_json(column) else f"{column.type} is not JSON (Arrow's pa.json_())"


def accepts_geometry(column: Column) -> str | None:
    """Columns that declare a GeoArrow extension; interleaved coordinates (fixed size lists) are refused by Lance."""
    if not (column.extension_name or "").startswith("geoarrow."):
        return "the column declares no GeoArrow type in its field metadata (ARROW:extension:name=geoarrow.wkb, …)"
    if pa.types.is_fixed_size_list(storage_type(column.type)):
        return "Lance cannot read interleaved coordinates; store them as a struct of x and y or as WKB"
    return None


def accepts_vectors(column: Column) -> str | None:
    """Fixed size lists of floats, also several per row."""
    type_ = vector_type(column)
    if type_ is None:
        return f"{column.type} is not a fixed size list of float16, float32, float64 or uint8"
    if pa.types.is_uint8(type_.value_type):
        return "binary vectors (uint8) are only indexed by 'ivf_flat' and 'ivf_hnsw_flat'"
    return None


def accepts_flat_vectors(column: Column) -> str | None:
    """Fixed size lists of floats, and of bytes for the Hamming distance."""
    type_ = vector_type(column)
    if type_ is not None and pa.types.is_uint8(type_.value_type):
        return "several binary vectors per row have no distance in Lance" if is_multivector(column) else None
    return accepts_vectors(column)
