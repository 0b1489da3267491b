"""Sorted byte strings on storage, searched by reading few pages: the dictionary of a key of texts, bytes or decimals."""

from __future__ import annotations

import bisect
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancewright.kinds.sorted_file import ArrayFile, write_array

if TYPE_CHECKING:
    from lancewright.kinds.contract import Store

# Texts of a page: what one search reads, besides the first of every page.
PAGE = 1024
_OFFSET = "<i8"


def write_texts(out: Store, name: str, values: pa.Array) -> None:
    """Write ascending large_binary values without NULLs, and the first of every page."""
    _write(out, name, values)
    _write(out, f"{name}.fences", values.take(pa.array(np.arange(0, len(values), PAGE))))


def _write(out: Store, name: str, values: pa.Array) -> None:
    offsets = np.frombuffer(values.buffers()[1], _OFFSET, count=len(values) + 1, offset=values.offset * 8)
    start, end = int(offsets[0]), int(offsets[-1])
    write_array(out, f"{name}.offsets", offsets - start)
    with out.create(f"{name}.bytes") as file:
        if end > start:
            file.write(memoryview(values.buffers()[2])[start:end])


class TextsFile:
    """A file of ascending byte strings."""

    def __init__(self, store: Store, name: str) -> None:
        """Read nothing yet."""
        self._store = store
        self._name = name

    def left(self, wanted: bytes) -> int:
        """The place of the first value that is not smaller."""
        page = bisect.bisect_left(self._fences, wanted) - 1
        return 0 if page < 0 else page * PAGE + bisect.bisect_left(self._page(page), wanted)

    def right(self, wanted: bytes) -> int:
        """The place behind the last value that is not larger."""
        page = bisect.bisect_right(self._fences, wanted) - 1
        return 0 if page < 0 else page * PAGE + bisect.bisect_right(self._page(page), wanted)

    def read(self) -> list[bytes]:
        """All of them."""
        return _texts(self._store, self._name, 0, len(self._offsets) - 1)

    def whole(self) -> pa.Array:
        """All of them, as large_binary."""
        offsets = self._offsets.read(0, len(self._offsets))
        file = self._store.open(f"{self._name}.bytes")
        content = pa.py_buffer(bytes(file.read(0, file.size)))
        return pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), content]
        )

    @cached_property
    def _offsets(self) -> ArrayFile:
        return ArrayFile(self._store.open(f"{self._name}.offsets"), _OFFSET)

    @cached_property
    def _fences(self) -> list[bytes]:
        offsets = ArrayFile(self._store.open(f"{self._name}.fences.offsets"), _OFFSET)
        return _texts(self._store, f"{self._name}.fences", 0, len(offsets) - 1)

    def _page(self, page: int) -> list[bytes]:
        start = page * PAGE
        return _texts(self._store, self._name, start, min(start + PAGE, len(self._offsets) - 1))


def _texts(store: Store, name: str, start: int, stop: int) -> list[bytes]:
    offsets = ArrayFile(store.open(f"{name}.offsets"), _OFFSET).read(start, stop + 1)
    low, high = int(offsets[0]), int(offsets[-1])
    content = bytes(store.open(f"{name}.bytes").read(low, high - low))
    places = (offsets - low).tolist()
    return [content[begin:end] for begin, end in pairwise(places)]
