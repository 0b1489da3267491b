"""Turns the keys of rows into 64-bit numbers that sort as the rows do: how many bits each key takes, and in which order. Pure.

A key becomes a small number, its code. 0 is NULL, which sorts first; a number is counted from the smallest, or, when that takes
too many bits, by its rank among the different values; texts go by rank. Codes are packed side by side, the first key highest. Keys
that do not fit 64 bits together begin another level: the numbers of a level are ranked, and the rank takes the place of its keys.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewright.kinds.whole_numbers import is_fixed, whole_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.uint64]

WORD_BITS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCode:
    """How one key becomes a number: ``offset`` from ``low``, or the rank among the different ``numbers`` or ``texts``.

    ``count`` is the greatest code.
    """

    form: Literal["offset", "numbers", "texts"]
    bits: int
    count: int
    low: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The codes of all keys, and the keys of each level; ``rank_bits`` are those of each level's rank in the next."""

    keys: tuple[KeyCode, ...]
    levels: tuple[tuple[int, ...], ...]
    rank_bits: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:  # Any: it is JSON
        """The layout as JSON keeps it."""
        return asdict(self)


def layout_from_json(content: Mapping[str, Any]) -> Layout:  # Any: it is JSON
    """The layout as it was."""
    return Layout(
        keys=tuple(KeyCode(**key) for key in content["keys"]),
        levels=tuple(tuple(level) for level in content["levels"]),
        rank_bits=tuple(content["rank_bits"]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class KeyValues:
    """One key of all rows: numbers that sort as the values do, the different values in order, which rows are NULL.

    Of texts the numbers are ranks already.
    """

    numbers: Numbers
    nulls: NDArray[np.bool_]
    texts: pa.Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CodedKey:
    """One key of all rows as codes, with its different values where codes are ranks."""

    code: KeyCode
    codes: Numbers
    values: Numbers | pa.Array | None


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """All rows as one number each, and the different numbers of every level but the last."""

    layout: Layout
    codes: Numbers
    levels: tuple[Numbers, ...]


def gather_key(parts: Sequence[pa.Array], type_: pa.DataType) -> KeyValues:
    """Put the batches of one key together."""
    nulls = _join([_nulls(part) for part in parts], np.bool_)
    if is_fixed(type_):
        return KeyValues(numbers=_join([whole_numbers(part) for part in parts], np.uint64), nulls=nulls)
    encoded = pa.chunked_array([as_bytes(part) for part in parts], pa.large_binary()).dictionary_encode()
    whole = encoded.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # pyarrow gives no array for no chunks
        whole = whole.chunk(0) if whole.num_chunks else pa.array([], encoded.type)
    order = pc.sort_indices(whole.dictionary)
    ranks = np.empty(len(order), dtype=np.uint64)
    ranks[order.to_numpy()] = np.arange(len(order), dtype=np.uint64)
    places = whole.indices.fill_null(0).to_numpy(zero_copy_only=False)
    numbers = ranks[places] if len(ranks) else np.zeros(len(places), dtype=np.uint64)
    return KeyValues(numbers=numbers, nulls=nulls, texts=whole.dictionary.take(order))


def pack_keys(keys: Sequence[KeyValues]) -> Packed:
    """Choose how each key becomes a code, and pack them."""
    coded = [_text_codes(key) if key.texts is not None else _offset_codes(key) for key in keys]
    while sum(one.code.bits for one in coded) > WORD_BITS:
        # Counting from the smallest takes as many bits as the values are far apart, ranks as there are different ones.
        widest = max(
            (place for place, one in enumerate(coded) if one.code.form == "offset"),
            key=lambda place: coded[place].code.bits,
            default=None,
        )
        if widest is None:
            break
        coded[widest] = _rank_codes(keys[widest])
    return _pack(coded)


def rank(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """The different numbers in order, and for each number its place among them. Twice as fast as ``np.unique``."""
    order = np.argsort(numbers)
    ordered = numbers[order]
    new = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    ranks = np.empty(len(numbers), dtype=np.uint64)
    ranks[order] = np.cumsum(new, dtype=np.uint64) - np.uint64(1)
    return ordered[new], ranks


def as_bytes(values: pa.Array) -> pa.Array:
    """Texts, bytes and decimals as large_binary that sorts as they do."""
    if pa.types.is_decimal(values.type):
        return _decimal_bytes(values)
    if pa.types.is_fixed_size_binary(values.type):
        values = values.cast(pa.binary())
    return values.cast(pa.large_binary())


def _decimal_bytes(values: pa.Array) -> pa.Array:
    width = values.type.byte_width
    raw = np.frombuffer(
        values.buffers()[1], np.uint8, count=len(values) * width, offset=values.offset * width
    )
    turned = raw.reshape(-1, width)[:, ::-1].copy()  # the highest byte first
    turned[:, 0] ^= 0x80  # and negative numbers below the others
    mask = pa.array(_nulls(values))
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), len(values), [None, pa.py_buffer(turned.tobytes())]
    )
    return pc.if_else(mask, None, fixed.cast(pa.large_binary()))


def _offset_codes(key: KeyValues) -> CodedKey:
    known = key.numbers[~key.nulls]
    if not len(known):
        return _coded("offset", np.zeros(len(key.nulls), dtype=np.uint64), 0, None)
    low, high = int(known.min()), int(known.max())
    codes = key.numbers - np.uint64(low) + np.uint64(1)
    codes[key.nulls] = 0
    return _coded("offset", codes, high - low + 1, None, low)


def _rank_codes(key: KeyValues) -> CodedKey:
    values, ranks = rank(key.numbers[~key.nulls])
    codes = np.zeros(len(key.nulls), dtype=np.uint64)
    codes[~key.nulls] = ranks + np.uint64(1)
    return _coded("numbers", codes, len(values), values)


def _text_codes(key: KeyValues) -> CodedKey:
    texts: pa.Array = key.texts
    codes = key.numbers + np.uint64(1)
    codes[key.nulls] = 0
    return _coded("texts", codes, len(texts), texts)


def _coded(
    form: Literal["offset", "numbers", "texts"],
    codes: Numbers,
    count: int,
    values: Numbers | pa.Array | None,
    low: int = 0,
) -> CodedKey:
    code = KeyCode(form=form, bits=max(1, count.bit_length()), count=count, low=low)
    return CodedKey(code=code, codes=codes, values=values)


def _pack(coded: Sequence[CodedKey]) -> Packed:
    levels: list[list[int]] = [[]]
    rank_bits: list[int] = []
    ranked: list[Numbers] = []
    packed: Numbers | None = None
    used = 0
    for place, one in enumerate(coded):
        bits = one.code.bits
        if packed is not None and used + bits > WORD_BITS:
            different, packed = rank(packed)
            used = max(1, (max(1, len(different)) - 1).bit_length())
            ranked.append(different)
            rank_bits.append(used)
            levels.append([])
        packed = one.codes if packed is None else (packed << np.uint64(bits)) | one.codes
        used += bits
        levels[-1].append(place)
    layout = Layout(
        keys=tuple(one.code for one in coded),
        levels=tuple(tuple(level) for level in levels),
        rank_bits=tuple(rank_bits),
    )
    return Packed(
        layout=layout,
        codes=np.zeros(0, dtype=np.uint64) if packed is None else packed,
        levels=tuple(ranked),
    )


def count_prefixes(packed: Packed, ordered: Numbers) -> list[int]:
    """How many different values the first key has, the first two together, and so on; ``ordered`` are the codes sorted."""
    counts: list[int] = []
    for level, keys in enumerate(packed.layout.levels):
        numbers = packed.levels[level] if level < len(packed.levels) else ordered
        rest = sum(packed.layout.keys[key].bits for key in keys)
        for key in keys:
            rest -= packed.layout.keys[key].bits
            counts.append(
                1 + int(np.count_nonzero(np.diff(numbers >> np.uint64(rest)))) if len(numbers) else 0
            )
    return counts


def _nulls(values: pa.Array) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = pc.is_null(values).to_numpy(zero_copy_only=False)
    return mask


def _join(parts: Iterable[NDArray[Any]], dtype: type[Any]) -> NDArray[Any]:  # Any: one of two types
    arrays = list(parts)
    return np.concatenate(arrays) if arrays else np.zeros(0, dtype=dtype)
