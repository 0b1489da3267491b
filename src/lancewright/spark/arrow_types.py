"""Answers which Spark type a column of an Arrow type becomes, and brings values into it. Pure.

Spark has no unsigned and no half-precision numbers, no fixed-size lists, and microseconds only: such a column becomes the next
type that holds every value. What has no such type is refused by name, and so is a value that would be cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lancewright.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import StructType

_DECIMAL_PRECISION_MAX = 38
# A row id is an unsigned number that never comes near the end of the signed ones.
_ROW_NUMBERS = frozenset({"_rowid", "_rowaddr"})
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}
_SAME: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_null,
    pa.types.is_boolean,
    pa.types.is_signed_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_date32,
)
# Extensions whose storage is an encoding and not a value: their bytes alone would mean nothing.
_OPAQUE_EXTENSIONS = frozenset({"lance.bfloat16"})


def spark_arrow_schema(schema: pa.Schema) -> pa.Schema:
    """The Arrow schema in which Spark takes these columns; every column may be NULL."""
    return pa.schema([pa.field(field.name, _column_type(field)) for field in schema])


def to_spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of columns that are in their Spark form already."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def to_spark_form(table: pa.Table) -> pa.Table:
    """The table with every column in the type in which Spark takes it; raises when a value would change."""
    target = spark_arrow_schema(table.schema)
    columns = [_cast(column, field) for column, field in zip(table.columns, target, strict=True)]
    return pa.table(columns, schema=target)


def cast_batch(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """The batch in its Spark form; raises UnsupportedError naming the column when a value would be cut."""
    columns = [_cast(column, field) for column, field in zip(batch.columns, target, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _cast(values: pa.Array | pa.ChunkedArray, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    if values.type == field.type:
        return values
    try:
        return _storage(values).cast(field.type)
    except pa.ArrowInvalid as error:
        raise UnsupportedError(
            f"A value of column {field.name!r} of type {values.type} does not fit Spark's {field.type}: {error}",
            "Leave the column out of columns=, or read it with to_arrow().",
        ) from error


def _storage(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    if not isinstance(values.type, pa.BaseExtensionType):
        return values
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([chunk.storage for chunk in values.chunks], values.type.storage_type)
    return values.storage


def _column_type(field: pa.Field) -> pa.DataType:
    if field.name in _ROW_NUMBERS:
        return pa.int64()
    return _spark_form(field.type, field.name)


def _spark_form(type_: pa.DataType, name: str) -> pa.DataType:
    if isinstance(type_, pa.BaseExtensionType) and type_.extension_name not in _OPAQUE_EXTENSIONS:
        return _spark_form(type_.storage_type, name)
    if pa.types.is_dictionary(type_):
        return _spark_form(type_.value_type, name)
    plain = _WIDER.get(type_) or (type_ if any(is_same(type_) for is_same in _SAME) else None)
    found = plain or _measured_form(type_) or _nested_form(type_, name)
    if found is None:
        raise UnsupportedError(
            f"Column {name} is {type_}, for which Spark has no type",
            "Leave it out of columns=, or use to_arrow().",
        )
    return found


def _measured_form(type_: pa.DataType) -> pa.DataType | None:
    """Types that have a unit, a precision or a size."""
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", type_.tz and "UTC")
    if pa.types.is_duration(type_):
        return pa.duration("us")
    if pa.types.is_fixed_size_binary(type_):
        return pa.binary()
    if pa.types.is_decimal(type_):
        # To Spark, a scale is neither negative nor above the precision.
        scale = max(0, type_.scale)
        precision = max(type_.precision + scale - type_.scale, scale)
        return pa.decimal128(precision, scale) if precision <= _DECIMAL_PRECISION_MAX else None
    return None


def _nested_form(type_: pa.DataType, name: str) -> pa.DataType | None:
    if pa.types.is_struct(type_):
        return pa.struct(
            [pa.field(child.name, _spark_form(child.type, f"{name}.{child.name}")) for child in type_]
        )
    if pa.types.is_map(type_):
        return pa.map_(
            _spark_form(type_.key_type, f"{name}.key"), _spark_form(type_.item_type, f"{name}.value")
        )
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        return pa.list_(pa.field("element", _spark_form(type_.value_type, f"{name}.element")))
    return None
