"""The rows of a segment that a kind does not answer for: those whose keys are NULL, and those it could not key. Pure."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyroaring import FrozenBitMap

from lancewright.errors import CorruptIndexError

if TYPE_CHECKING:
    from collections.abc import Iterable

MASKS_FILE = "_masks"
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True, kw_only=True)
class Masks:
    """For each key its NULL rows, and the rows without a key."""

    nulls: tuple[FrozenBitMap, ...]
    unkeyed: FrozenBitMap

    @property
    def is_empty(self) -> bool:
        """True when the kind answers for every row."""
        return not self.unkeyed and not any(self.nulls)

    def to_check(self, consumed: Iterable[int], *, stripped: bool) -> FrozenBitMap:
        """The rows a lookup over these keys must name besides its own, because the kind never saw them.

        Unkeyed rows; and where NULLs were stripped, rows that have a NULL in another key. None of which a consumed key is
        NULL: a condition on NULL is not TRUE.
        """
        asked = frozenset(consumed)
        rows = self.unkeyed
        if stripped:
            rows = rows.union(*(nulls for key, nulls in enumerate(self.nulls) if key not in asked))
        for key in asked:
            rows -= self.nulls[key]
        return FrozenBitMap(rows)

    def to_bytes(self) -> bytes:
        """The masks as they are on storage."""
        blocks = [one.serialize() for one in (*self.nulls, self.unkeyed)]
        return b"".join(_LENGTH.pack(len(block)) + block for block in blocks)


def no_masks(keys: int) -> Masks:
    """The masks of a segment that has none."""
    return Masks(nulls=(FrozenBitMap(),) * keys, unkeyed=FrozenBitMap())


def masks_from_bytes(content: memoryview, keys: int) -> Masks:
    """Read masks whose checksums were found right."""
    blocks, place = [], 0
    try:
        for _ in range(keys + 1):
            (length,) = _LENGTH.unpack_from(content, place)
            place += _LENGTH.size
            blocks.append(FrozenBitMap.deserialize(bytes(content[place : place + length])))
            place += length
    except (struct.error, ValueError, RuntimeError) as error:
        raise CorruptIndexError(f"A segment's NULLs cannot be read: {error}", "Rebuild the index.") from error
    return Masks(nulls=tuple(blocks[:-1]), unkeyed=blocks[-1])
