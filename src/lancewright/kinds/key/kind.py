"""Kind ``key``: which rows have this key. Of one or several columns, one value or many thousand at once.

Twelve bytes a row whatever the keys are: the hash of all keys together, sorted, and the row. Two keys may share a hash, so rows
are checked again, unless the key is a single one of fixed width.
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lancewright.errors import InvalidRequestError
from lancewright.kinds.contract import (
    ROW_COLUMN,
    Answer,
    Built,
    Cost,
    IndexKind,
    Input,
    Operator,
    Probe,
    Reader,
    row_numbers,
)
from lancewright.kinds.key.hashing import hash_keys, is_one_to_one
from lancewright.kinds.key_types import check_keys, check_no_parameters
from lancewright.kinds.sorted_file import ArrayFile, SortedFile, expand, merge_runs, write_array, write_sorted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import ClassVar

    from numpy.typing import NDArray

    from lancewright.kinds.contract import Atom, Key, Part, RowNumbers, Spec, Store

HASHES_FILE = "hashes"
ROWS_FILE = "rows"
# So many combinations of IN lists are worth one probe; more are left to others.
KEYS_PER_PROBE_MAX = 100_000
_ENTRY_BYTES = 12
_PAGE_BYTES = 2 * (64 << 10)


class KeyKind(IndexKind):
    """Equality of whole keys."""

    name: ClassVar[str] = "key"
    looks_up_many: ClassVar[bool] = True
    doc: ClassVar[str] = (
        "Equality and IN of one or several columns together; for lookups of one key or of many."
    )

    def validate(self, keys: Sequence[Key], parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Take keys of any type that has an equality."""
        check_keys(self.name, keys)
        return check_no_parameters(self.name, parameters)

    def input(self, spec: Spec) -> Input:
        """Rows with all keys: a key with a NULL equals nothing."""
        del spec
        return Input()

    def build(self, spec: Spec, rows: Iterable[pa.RecordBatch], out: Store) -> Built:
        """Hash, sort, write; 28 bytes of memory a row."""
        del spec
        hashes, numbers = [], []
        for batch in rows:
            hashes.append(hash_keys(batch.columns[1:]))
            numbers.append(batch.column(ROW_COLUMN).to_numpy())
        return _write(_joined(hashes, np.uint64), _joined(numbers, np.uint32), out)

    def merge(self, spec: Spec, parts: Sequence[Part], out: Store) -> Built:
        """Put the entries of all parts together, under their new numbers."""
        del spec
        hashes, numbers = [], []
        for part in parts:
            entries = _entries(part.reader)
            renumbered = part.renumber[entries[1]]
            kept = renumbered >= 0
            hashes.append(entries[0][kept])
            numbers.append(renumbered[kept].astype(np.uint32))
        return _write(_joined(hashes, np.uint64), _joined(numbers, np.uint32), out)

    def plan(self, spec: Spec, group: Sequence[Atom]) -> Probe | None:
        """Answer when every key is compared with values."""
        chosen: list[tuple[int, Atom]] = []
        for key in range(len(spec.keys)):
            found = next(
                (
                    (place, atom)
                    for place, atom in enumerate(group)
                    if atom.keys == (key,) and atom.operator in {Operator.EQUAL, Operator.IN}
                ),
                None,
            )
            if found is None:
                return None
            chosen.append(found)
        values = [atom.values for _, atom in chosen]
        if np.prod([float(len(one)) for one in values]) > KEYS_PER_PROBE_MAX:
            return None
        combinations = list(itertools.product(*values))
        columns = [
            pa.array([row[key] for row in combinations], type=spec.keys[key].type)
            for key in range(len(spec.keys))
        ]
        return Probe(
            consumed=frozenset(place for place, _ in chosen),
            answer=Answer.EXACT if is_one_to_one([key.type for key in spec.keys]) else Answer.AT_MOST,
            payload=np.unique(hash_keys(columns)).tobytes(),
            text=f"{len(combinations):,} keys" if len(combinations) > 1 else "1 key",
        )

    def cost(self, spec: Spec, probe: Probe, summary: bytes, rows: int) -> Cost:
        """As many rows for a key as there are on average."""
        del spec
        wanted = len(probe.payload) // 8
        known = json.loads(summary)
        per_key = known["keyed"] / max(1, known["distinct"])
        pages = min(wanted, -(-rows * _ENTRY_BYTES // _PAGE_BYTES))
        return Cost(rows=min(float(known["keyed"]), wanted * per_key), bytes=float(pages * _PAGE_BYTES))

    def open(self, spec: Spec, store: Store) -> Reader:
        """Open the two files."""
        return KeyReader(spec, store)


class KeyReader(Reader):
    """Searches the sorted hashes."""

    def __init__(self, spec: Spec, store: Store) -> None:
        """Read nothing yet."""
        self._keys = len(spec.keys)
        self._hashes = SortedFile(store, HASHES_FILE)
        self._store = store

    @property
    def rows(self) -> ArrayFile:
        """The row of each hash."""
        return ArrayFile(self._store.open(ROWS_FILE), "<u4")

    def lookup(self, probe: Probe) -> RowNumbers:
        """The rows whose hash is one of those wanted."""
        wanted = np.frombuffer(probe.payload, "<u8")
        starts, stops = merge_runs(self._hashes.left(wanted), self._hashes.right(wanted))
        return row_numbers(self.rows.slices(starts, stops))

    def lookup_many(self, keys: pa.RecordBatch) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """All keys in one pass over the pages they lie in; a key with a NULL has no rows."""
        columns = [keys.column(f"k{key}") for key in range(self._keys)]
        known = np.ones(len(keys), dtype=np.bool_)
        for column in columns:
            known &= column.is_valid().to_numpy(zero_copy_only=False)
        asked = np.flatnonzero(known)
        wanted = hash_keys([column.filter(pa.array(known)) for column in columns])
        order = np.argsort(wanted, kind="stable")
        starts, stops = self._hashes.left(wanted[order]), self._hashes.right(wanted[order])
        places = np.repeat(asked[order], stops - starts)
        entries = expand(starts, stops)
        unique, back = np.unique(entries, return_inverse=True)
        return places.astype(np.int64), self.rows.take(unique)[back]

    def entries(self) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """Everything."""
        hashes = ArrayFile(self._store.open(HASHES_FILE), "<u8")
        return hashes.read(0, len(hashes)), self.rows.read(0, len(hashes))


def _entries(reader: Reader) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    if not isinstance(reader, KeyReader):
        raise InvalidRequestError(
            "A segment of another kind was given to merge()", "Merge segments of one kind."
        )
    return reader.entries()


def _joined(parts: list[NDArray[Any]], dtype: type[Any]) -> NDArray[Any]:  # Any: one of two types of number
    return np.concatenate(parts) if parts else np.zeros(0, dtype=dtype)


def _write(hashes: NDArray[np.uint64], rows: NDArray[np.uint32], out: Store) -> Built:
    order = np.argsort(hashes)
    hashes, rows = hashes[order], rows[order]
    write_sorted(out, HASHES_FILE, hashes)
    write_array(out, ROWS_FILE, rows)
    distinct = 1 + int(np.count_nonzero(np.diff(hashes))) if len(hashes) else 0
    return Built(keyed=len(rows), summary=json.dumps({"keyed": len(rows), "distinct": distinct}).encode())
