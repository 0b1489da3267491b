"""Reads one column with its row addresses, in the order of the rows. Leaves deleted rows out, decides nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewright.errors import InvalidRequestError
from lancewright.model.columns import Column
from lancewright.model.computed import ComputedColumn
from lancewright.table.lance_compat import redact_text
from lancewright.table.opening import open_dataset
from lancewright.table.vector_search import filter_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from lancewright.table.location import TableRef
    from lancewright.table.vector_search import RowFilter

_ADDRESS = "_rowaddr"
_FRAGMENT_BITS = 32
# Large values come in batches of fewer rows: 64 k rows of 1 MB would be 64 GB.
_BATCH_BYTES_MAX = 16 << 20
_FIRST_TAKEN = 64
# Letters, or bytes. Rows that are equal so far end up in one range.
_SAMPLED_LENGTH_MAX = 512


def read_column(
    table: TableRef, column: Column, fragments: Sequence[int], batch_rows: int
) -> Iterator[tuple[pa.Array, NDArray[np.uint64]]]:
    """Yield (values, ascending addresses) batch by batch; memory is a few batches."""
    dataset = open_dataset(table)
    scanner = dataset.scanner(
        columns=[column.path],
        fragments=[_fragment(dataset, fragment) for fragment in fragments],
        with_row_address=True,
        scan_in_order=True,
        batch_size=batch_rows,
        batch_size_bytes=_BATCH_BYTES_MAX,
    )
    for batch in scanner.to_batches():
        yield plain_values(_field(_other_column(batch), column)), batch.column(_ADDRESS).to_numpy()


@dataclass(frozen=True, slots=True, eq=False)
class KeyRows:
    """Some live rows: the values of each column, the addresses, ascending, and the stable ids where the table has them."""

    keys: tuple[pa.Array, ...]
    addresses: NDArray[np.uint64]
    row_ids: NDArray[np.uint64] | None


def read_keys(
    table: TableRef,
    columns: Sequence[Column | ComputedColumn],
    fragments: Sequence[int],
    *,
    with_row_ids: bool,
    rows: RowFilter | None = None,
    dataset: Any = None,
) -> Iterator[KeyRows]:
    """Yield several columns batch by batch, in the order of the rows; memory is a few batches. ``rows`` are those wanted.

    ``dataset`` is the table when it is open already. Any: pylance's dataset is untyped.

    Expressions are evaluated by Lance, as in a filter, and nowhere else (decision 0019).
    """
    if not fragments:
        return
    dataset = open_dataset(table) if dataset is None else dataset
    scanner = dataset.scanner(
        columns=_projection(columns),
        fragments=[_fragment(dataset, fragment) for fragment in fragments],
        with_row_address=True,
        with_row_id=with_row_ids,
        scan_in_order=True,
        batch_size_bytes=_BATCH_BYTES_MAX,
        **({} if rows is None else {"prefilter": True, **filter_options(dataset, rows)}),
    )
    for batch in scanner.to_batches():
        yield KeyRows(
            keys=tuple(_plain_key(batch.column(place), column) for place, column in enumerate(columns)),
            addresses=batch.column(_ADDRESS).to_numpy(),
            row_ids=batch.column("_rowid").to_numpy() if with_row_ids else None,
        )


def evaluated(sql: str) -> str:
    """An expression as a projection has to hold it, to have the value it has in a filter.

    An operator that is all of a projection is read like a comparison: with a 32-bit ``x``, ``x * 0.1`` rounds 0.1 to 32 bits
    there, and ``id + 1`` overflows. Inside a call it is read as in a filter.
    """
    return f"coalesce({sql})"


def read_expression_type(table: TableRef, sql: str) -> pa.DataType:
    """The type of an expression over a table's columns, without reading a row; raise InvalidRequestError when it has none."""
    dataset = open_dataset(table)
    try:
        scanner = dataset.scanner(columns={"k": evaluated(sql)})
        scanner.explain_plan()
        type_ = scanner.projected_schema.field("k").type
    except Exception as error:
        words = redact_text(str(error), table).strip().splitlines()
        raise InvalidRequestError(
            f"{sql} cannot be evaluated: {words[0] if words else type(error).__name__}",
            "Write an expression that a filter can have; casts are CAST(x AS STRING).",
        ) from error
    return plain_type(type_)


def sample_column(
    table: TableRef, column: Column, fragments: Sequence[tuple[int, int]], seed: int
) -> tuple[pa.Array, NDArray[np.uint64]]:
    """Read some random rows of each fragment, given as (id, how many), with their addresses.

    Of long texts and bytes only the beginning is returned: a sample goes to the driver, and prefixes are cuts as good.
    """
    dataset = open_dataset(table)
    random = np.random.default_rng(seed)
    values: list[pa.Array] = []
    addresses: list[NDArray[np.uint64]] = []
    for fragment_id, wanted in fragments:
        fragment = _fragment(dataset, fragment_id)
        rows = fragment.count_rows()
        if not rows or not wanted:
            continue
        places = np.sort(random.choice(rows, size=min(wanted, rows), replace=False))
        values += _take_beginnings(fragment, places.tolist(), column)
        addresses.append(_addresses(fragment, places))
    if not values:
        return pa.array([], plain_type(column.type)), np.zeros(0, dtype=np.uint64)
    return pa.concat_arrays(values), np.concatenate(addresses)


def indexed_type(type_: pa.DataType) -> pa.DataType:
    """The type an index's files store for a column: what an extension holds; a dictionary stays one."""
    return type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type values are sorted in: dictionaries by what they stand for, extensions by what they hold."""
    if pa.types.is_dictionary(type_):
        return plain_type(type_.value_type)
    if pa.types.is_string_view(type_):
        return pa.string()
    if pa.types.is_binary_view(type_):
        return pa.binary()
    return type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_


def plain_values(values: pa.Array) -> pa.Array:
    """The values in their plain type."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _projection(columns: Sequence[Column | ComputedColumn]) -> list[str] | dict[str, str]:
    if all(isinstance(column, Column) for column in columns):
        return [column.path for column in columns]
    return {
        f"k{place}": evaluated(column.path) if isinstance(column, ComputedColumn) else column.path
        for place, column in enumerate(columns)
    }


def _plain_key(values: pa.Array, column: Column | ComputedColumn) -> pa.Array:
    if isinstance(column, Column):
        return plain_values(_field(values, column))
    return plain_values(values).cast(column.type)


def _fragment(dataset: Any, fragment_id: int) -> Any:  # Any: pylance's fragment is untyped
    return dataset.get_fragment(fragment_id)


def _take_beginnings(
    fragment: Any, places: list[int], column: Column
) -> Iterator[pa.Array]:  # Any: see _fragment
    """Take these rows, of values without a fixed width a few first, to learn how many a batch may have."""
    cut = _find_cut(plain_type(column.type))
    start, step = 0, len(places) if cut is None else _FIRST_TAKEN
    while start < len(places):
        taken = fragment.take(places[start : start + step], columns=[column.path])
        values = plain_values(_field(taken.column(0).combine_chunks(), column))
        yield values if cut is None else cut(values, 0, _SAMPLED_LENGTH_MAX)
        start += step
        step = max(1, _BATCH_BYTES_MAX * len(values) // max(1, values.nbytes))


def _find_cut(type_: pa.DataType) -> Callable[[pa.Array, int, int], pa.Array] | None:
    """What cuts values of this type to their beginning, if they may be long."""
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return pc.utf8_slice_codeunits  # type: ignore[no-any-return] # pyarrow's functions are untyped
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return pc.binary_slice  # type: ignore[no-any-return] # see above
    return None


def _addresses(fragment: Any, places: NDArray[np.int64]) -> NDArray[np.uint64]:  # Any: see _fragment
    """Addresses of rows given by their places among the live ones: ``take`` does not tell them."""
    if fragment.num_deletions:
        live = fragment.scanner(columns=[], with_row_address=True).to_table()
        found: NDArray[np.uint64] = live[_ADDRESS].to_numpy()[places]
        return found
    return (np.uint64(fragment.fragment_id) << np.uint64(_FRAGMENT_BITS)) + places.astype(np.uint64)


def _field(values: pa.Array, column: Column) -> pa.Array:
    """The column itself: a scan returns a nested field flat, a take returns the struct around it."""
    for name in column.names[1:]:
        if pa.types.is_struct(values.type):
            values = pc.struct_field(values, [name])  # unlike .field(), this keeps the NULLs of the struct
    return values


def _other_column(batch: pa.RecordBatch) -> pa.Array:
    return next(batch.column(place) for place, name in enumerate(batch.schema.names) if name != _ADDRESS)
