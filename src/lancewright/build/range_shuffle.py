"""Moves sorted rows between tasks as a few large blobs. Pure; who carries the blobs is the runner's business.

A map task sorts a chunk of the column, so that cutting it by range is a search and each piece is one contiguous copy.
Numbers travel as narrow as their span allows: row addresses of one fragment take four bytes and not eight.
Memory: a map task holds one chunk, a range task one range; what is more goes to local disk (``range_spill``).
"""

from __future__ import annotations

import io
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancewright.build.splitters import cut_nulls, cut_run
from lancewright.kinds.btree.sort_keys import key_width
from lancewright.kinds.btree.sorted_run import SortedRun, sort_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from lancewright.build.splitters import Splitters

_NARROW = (np.dtype("u1"), np.dtype("u2"), np.dtype("u4"), np.dtype("u8"))
_FRAGMENT_BITS = 32
_PLACE_MASK = np.uint64((1 << _FRAGMENT_BITS) - 1)
_ONE_SPAN = 0  # bits of a place when addresses are just counted from the first
_NULLS = b"nulls"
_KEYS = b"keys"
_WIDE = b"wide"


def cut_chunk(
    values: pa.Array, addresses: NDArray[np.uint64], splitters: Splitters
) -> Iterator[tuple[int, bytes]]:
    """Sort one chunk whose addresses ascend and give each range its piece, as (range, blob)."""
    if values.null_count:
        is_null = values.is_null().to_numpy(zero_copy_only=False)
        yield from _cut_nulls(addresses[is_null], splitters)
        values, addresses = values.drop_null(), addresses[~is_null]
    run = sort_rows(values, addresses)
    bounds = [0, *cut_run(run, splitters).tolist(), len(run)]
    first = len(splitters.null_addresses)
    for number, (start, stop) in enumerate(pairwise(bounds)):
        if stop > start:
            yield first + number, encode_run(run.slice(start, stop))


def _cut_nulls(addresses: NDArray[np.uint64], splitters: Splitters) -> Iterator[tuple[int, bytes]]:
    bounds = [0, *cut_nulls(addresses, splitters).tolist(), len(addresses)]
    for number, (start, stop) in enumerate(pairwise(bounds)):
        if stop > start:
            yield number, _encode(_NULLS, None, addresses[start:stop])


def encode_run(run: SortedRun) -> bytes:
    """Write a run as one Arrow stream."""
    if run.keys is None:
        return _encode(_WIDE, run.values(0, len(run)), run.addresses)
    base, narrow = _narrow(run.keys)
    return _encode(_KEYS, pa.array(narrow), run.addresses, key_base=base)


def decode_blob(
    blob: pa.Buffer | bytes, type_: pa.DataType
) -> tuple[SortedRun | None, NDArray[np.uint64] | None]:
    """Read a blob: a run of values, or the addresses of NULLs."""
    with pa.ipc.open_stream(blob) as reader:
        batch = reader.read_next_batch()
    metadata = batch.schema.metadata
    addresses = _widen_addresses(batch.column("address"), metadata[b"fragments"])
    if metadata[b"what"] == _NULLS:
        return None, addresses
    values = batch.column("value")
    if metadata[b"what"] == _KEYS:
        return SortedRun(
            type=type_, addresses=addresses, keys=_widen(values, int(metadata[b"key_base"]))
        ), None
    return SortedRun(type=type_, addresses=addresses, wide=values), None


def bytes_per_row(type_: pa.DataType, mean_value_bytes: float) -> float:
    """Bytes one row takes while a range is being sorted: keys, addresses, the packed copy and the output."""
    return 6 * 8.0 if key_width(type_) is not None else 3 * mean_value_bytes + 6 * 8.0


def _encode(
    what: bytes, values: pa.Array | None, addresses: NDArray[np.uint64], *, key_base: int = 0
) -> bytes:
    fragments, places = _narrow_addresses(addresses)
    columns = {"address": pa.array(places)}
    if values is not None:
        columns["value"] = values
    metadata = {b"what": what, b"fragments": fragments, b"key_base": str(key_base)}
    batch = pa.record_batch(list(columns.values()), names=list(columns)).replace_schema_metadata(metadata)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _narrow_addresses(addresses: NDArray[np.uint64]) -> tuple[bytes, NDArray[np.unsignedinteger]]:
    """Number the fragments of a blob through, so that addresses in several take four bytes too, and not eight.

    Returns how many bits a place inside a fragment takes and the first fragment's first address, and the numbers.
    """
    low = int(addresses.min()) >> _FRAGMENT_BITS << _FRAGMENT_BITS
    high = int(addresses.max()) >> _FRAGMENT_BITS << _FRAGMENT_BITS
    if low == high:
        first, narrow = _narrow(addresses)
        return _header(_ONE_SPAN, first), narrow
    inside = addresses & _PLACE_MASK
    bits = max(1, int(inside.max()).bit_length())
    span = ((high - low) >> _FRAGMENT_BITS) + 1
    if (span - 1).bit_length() + bits > 32:
        return _header(_ONE_SPAN, 0), addresses
    numbers = (addresses - np.uint64(low)) >> np.uint64(_FRAGMENT_BITS)
    places = ((numbers << np.uint64(bits)) | inside).astype(np.uint32)
    return _header(bits, low), places


def _widen_addresses(places: pa.Array, fragments: bytes) -> NDArray[np.uint64]:
    bits, first = (int(part) for part in fragments.split(b","))
    wide: NDArray[np.uint64] = places.to_numpy(zero_copy_only=True).astype(np.uint64)
    if bits != _ONE_SPAN:
        numbers = wide >> np.uint64(bits)
        wide &= (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
        wide |= numbers << np.uint64(_FRAGMENT_BITS)
    if first:
        wide += np.uint64(first)
    return wide


def _header(bits: int, first: int) -> bytes:
    return f"{bits},{first}".encode()


def _narrow(numbers: NDArray[np.uint64]) -> tuple[int, NDArray[np.unsignedinteger]]:
    low, high = int(numbers.min()), int(numbers.max())
    fitting = next(dtype for dtype in _NARROW if high - low <= np.iinfo(dtype).max)
    if fitting.itemsize == numbers.dtype.itemsize:
        return 0, numbers
    return low, (numbers - np.uint64(low)).astype(fitting)


def _widen(numbers: pa.Array, base: int) -> NDArray[np.uint64]:
    wide: NDArray[np.uint64] = numbers.to_numpy(zero_copy_only=True).astype(np.uint64)
    if base:
        wide += np.uint64(base)
    return wide
