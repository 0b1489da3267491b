"""Hashes keys of any type and number to 64 bits. Frozen: it is part of the format of kind ``key``. Pure.

A single key of fixed width is mixed one to one, so that different values never share a hash. Texts are taken in words of eight
bytes, their length mixed in last; of one longer than 512 bytes the BLAKE2b digest is taken instead.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancewright.kinds.whole_numbers import is_fixed, whole_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Hashes = NDArray[np.uint64]

_WORD = 8
_WORDS_MAX = 64
_SEED = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_TAIL_MASKS = np.array([(1 << (8 * count)) - 1 for count in range(_WORD)] + [2**64 - 1], dtype=np.uint64)


def hash_keys(keys: Sequence[pa.Array]) -> Hashes:
    """One hash for each row; no key may be NULL."""
    hashes = _hash_values(keys[0])
    for values in keys[1:]:
        hashes = _mix((hashes * _SEED) ^ _hash_values(values))
    return hashes


def is_one_to_one(types: Sequence[pa.DataType]) -> bool:
    """True when different keys always have different hashes."""
    return len(types) == 1 and is_fixed(types[0])


def _hash_values(values: pa.Array) -> Hashes:
    if is_fixed(values.type):
        return _mix(whole_numbers(values))
    return _hash_bytes(_as_bytes(values))


def _as_bytes(values: pa.Array) -> pa.Array:
    if pa.types.is_fixed_size_binary(values.type) or pa.types.is_decimal(values.type):
        # A decimal is its 16 or 32 bytes: one type has one scale, so equal values have equal bytes.
        width = values.type.byte_width
        data = values.buffers()[1].slice(values.offset * width, len(values) * width)
        offsets = pa.array(np.arange(len(values) + 1, dtype=np.int64) * width)
        return pa.Array.from_buffers(pa.large_binary(), len(values), [None, offsets.buffers()[1], data])
    return values.cast(pa.large_binary())


def _hash_bytes(values: pa.Array) -> Hashes:
    count = len(values)
    if not count:
        return np.zeros(0, dtype=np.uint64)
    _, offset_buffer, data = values.buffers()
    offsets = np.frombuffer(offset_buffer, "<i8", count=count + 1, offset=values.offset * _WORD)
    lengths = np.diff(offsets)
    starts = offsets[:-1]
    low, high = int(offsets[0]), int(offsets[-1])
    text = np.zeros(high - low + _WORD, dtype=np.uint8)  # room to read a whole word at the end
    if high > low:
        text[: high - low] = np.frombuffer(data, np.uint8, count=high - low, offset=low)
    words = np.ndarray((high - low + 1,), dtype="<u8", buffer=text, strides=(1,))
    hashes = np.full(count, _SEED, dtype=np.uint64)
    whole = np.flatnonzero(lengths <= _WORD * _WORDS_MAX)
    for word in range(_words_of(lengths[whole])):
        whole = whole[lengths[whole] > word * _WORD]
        left = np.minimum(lengths[whole] - word * _WORD, _WORD)
        piece = words[starts[whole] - low + word * _WORD] & _TAIL_MASKS[left]
        hashes[whole] = _mix((hashes[whole] * _SEED) ^ piece)
    for place in np.flatnonzero(lengths > _WORD * _WORDS_MAX).tolist():
        # One at a time: such keys are rare, and a digest of 512 bytes takes 1 microsecond.
        start = int(starts[place]) - low
        digest = hashlib.blake2b(
            text[start : start + int(lengths[place])].tobytes(), digest_size=_WORD
        ).digest()
        hashes[place] = np.frombuffer(digest, "<u8")[0]
    return _mix(hashes ^ lengths.astype(np.uint64))


def _words_of(lengths: NDArray[np.int64]) -> int:
    return int(-(-lengths.max() // _WORD)) if len(lengths) else 0


def _mix(numbers: Hashes) -> Hashes:
    """The finisher of SplitMix64: one to one, every bit depends on every bit."""
    mixed = numbers + _SEED
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return mixed ^ (mixed >> np.uint64(31))
