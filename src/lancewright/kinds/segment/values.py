"""The values of some columns, kept with a segment, so that rows can be returned without reading the table.

Rows lie in the order of the keys, whatever the kind does with them: rows that are looked up together are neighbours. They are in
blocks, each an Arrow stream of its own, beside a list of the blocks and the place of every row number. Rows that were deleted when
the segment was built have none. A column is kept under its field id, so that it is found when it was renamed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewright.errors import CorruptIndexError
from lancewright.kinds.segment.header import BLOCK_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from lancewright.kinds.segment.store import CheckedFile, ReadingStore, WritingStore

VALUES_FILE = "_values"
BLOCKS_FILE = "_values_blocks"
PLACES_FILE = "_values_places"
ROWS_PER_BLOCK = 1024
_ROW = "_row"
_BLOCK = np.dtype([("start", "<u8"), ("length", "<u8")])
_PLACE = np.dtype("<u4")
_PLACES_PER_BLOCK = BLOCK_BYTES // _PLACE.itemsize
_NOWHERE = np.iinfo(np.uint32).max
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")
_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
_REBUILD = "Rebuild the index."


def value_name(field_id: int) -> str:
    """The name under which a column is kept."""
    return f"f{field_id}"


class ValuesWriter:
    """Collects the values of a segment and writes them; memory is those values, and the keys to sort them by."""

    def __init__(self, names: Sequence[str], rows: int) -> None:
        """Collect columns of these names, of a segment of so many row numbers."""
        self._names = [_ROW, *names]
        self._rows = rows
        self._values: list[pa.RecordBatch] = []
        self._keys: list[pa.RecordBatch] = []

    def add(self, numbers: NDArray[np.uint32], values: Sequence[pa.Array], keys: Sequence[pa.Array]) -> None:
        """Some rows, by their numbers."""
        columns = [_enlarge(column) for column in (pa.array(numbers, pa.uint32()), *values)]
        self._values.append(pa.RecordBatch.from_arrays(columns, self._names))
        named = [f"k{place}" for place in range(len(keys))]
        self._keys.append(pa.RecordBatch.from_arrays([_enlarge(key) for key in keys], named))

    def write(self, store: WritingStore) -> None:
        """Write the files."""
        places = np.full(self._rows, _NOWHERE, dtype=_PLACE)
        blocks: list[tuple[int, int]] = []
        size = 0
        with store.create_own(VALUES_FILE) as file:
            for start, block in self._sorted():
                places[block[_ROW].to_numpy()] = np.arange(start, start + block.num_rows, dtype=_PLACE)
                content = _to_stream(block)
                blocks.append((size, len(content)))
                file.write(content)
                size += len(content)
        with store.create_own(BLOCKS_FILE) as file:
            file.write(np.array(blocks, dtype=_BLOCK).tobytes())
        with store.create_own(PLACES_FILE) as file:
            file.write(places.tobytes())

    def _sorted(self) -> Iterator[tuple[int, pa.Table]]:
        if not self._values:
            return
        order = _order(pa.Table.from_batches(self._keys))
        self._keys.clear()
        table = pa.Table.from_batches(self._values).combine_chunks()
        self._values.clear()
        for start in range(0, len(order), ROWS_PER_BLOCK):
            yield start, table.take(order.slice(start, ROWS_PER_BLOCK))


def has_values(store: ReadingStore) -> bool:
    """True when a segment keeps values."""
    return store.has(VALUES_FILE)


def read_values(store: ReadingStore, numbers: NDArray[np.uint32], names: Sequence[str]) -> pa.Table:
    """Columns of these rows, in the order in which they are given; every one of them must be there.

    Texts and bytes come with large offsets.
    """
    places = _read_places(store.open(PLACES_FILE), numbers)
    listing = store.open(BLOCKS_FILE)
    blocks = np.frombuffer(listing.read(0, listing.size), dtype=_BLOCK)
    order = np.argsort(places, kind="stable")
    wanted = places[order]
    if len(wanted) and wanted[-1] >= len(blocks) * ROWS_PER_BLOCK:
        raise CorruptIndexError("A segment does not have the values of its rows", _REBUILD)
    parts = [
        _pick(block, wanted[wanted // ROWS_PER_BLOCK == number] - number * ROWS_PER_BLOCK)
        for number, block in _read_blocks(store, blocks, np.unique(wanted // ROWS_PER_BLOCK))
    ]
    if not parts:
        return pa.table({})
    found = pa.concat_tables(parts).take(pa.array(np.argsort(order)))
    if not np.array_equal(found[_ROW].to_numpy(), numbers) or not {*names} <= {*found.column_names}:
        raise CorruptIndexError("A segment does not have the values of its rows", _REBUILD)
    return found.select(list(names))


def _order(keys: pa.Table) -> pa.Array:
    """Neighbours in the order of the keys; any order is right, so a type without one leaves the rows as they lie."""
    try:
        return pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return pa.array(np.arange(keys.num_rows, dtype=np.uint64))


def _enlarge(values: pa.Array) -> pa.Array:
    """With offsets of 64 bits, because the values of a segment may be more than 2 GiB."""
    large = _LARGE.get(values.type)
    return values if large is None else values.cast(large)


def _to_stream(block: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, block.schema, options=_OPTIONS) as stream:
        stream.write_table(block)
    return bytes(sink.getvalue())


def _read_places(file: CheckedFile, numbers: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Where rows lie; only the checked blocks of the list are read that hold any of them."""
    if len(numbers) and int(numbers.max()) >= file.size // _PLACE.itemsize:
        raise CorruptIndexError("A segment does not have the values of its rows", _REBUILD)
    found = np.zeros(len(numbers), dtype=np.int64)
    for block in np.unique(numbers // _PLACES_PER_BLOCK).tolist():
        start = block * _PLACES_PER_BLOCK
        length = min(BLOCK_BYTES, file.size - start * _PLACE.itemsize)
        part = np.frombuffer(file.read(start * _PLACE.itemsize, length), dtype=_PLACE)
        here = numbers // _PLACES_PER_BLOCK == block
        found[here] = part[numbers[here] - start]
    if bool(np.any(found == _NOWHERE)):
        raise CorruptIndexError("A segment does not have the values of its rows", _REBUILD)
    return found


def _read_blocks(
    store: ReadingStore, blocks: NDArray[np.void], wanted: NDArray[np.int64]
) -> Iterator[tuple[int, pa.Table]]:
    file = store.open(VALUES_FILE)
    for number in wanted.tolist():
        content = file.read(int(blocks["start"][number]), int(blocks["length"][number]))
        try:
            yield number, pa.ipc.open_stream(pa.py_buffer(content)).read_all()
        except pa.ArrowException as error:
            raise CorruptIndexError(
                f"A block of a segment's values cannot be read: {error}", _REBUILD
            ) from error


def _pick(block: pa.Table, places: NDArray[np.int64]) -> pa.Table:
    if len(places) and int(places.max()) >= block.num_rows:
        raise CorruptIndexError("A segment does not have the values of its rows", _REBUILD)
    return block.take(pa.array(places))
