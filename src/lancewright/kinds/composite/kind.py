"""Kind ``composite``: rows sorted by several keys together. Values of the first keys, then a range of the next.

``tenant = 7 AND at > '2026-11-01'`` is one run of neighbours in an index over (tenant, at). An IN list on a key before the last
asked for becomes one run for each value. Twelve bytes a row, and the different values of keys that are texts.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from lancewright.kinds.composite.codes import count_prefixes, gather_key, pack_keys
from lancewright.kinds.composite.conditions import conditions_from_bytes, read_conditions, read_head
from lancewright.kinds.composite.merging import gather_parts
from lancewright.kinds.composite.reader import CODES_FILE, LAYOUT_FILE, ROWS_FILE, CompositeReader
from lancewright.kinds.composite.summary import (
    Summary,
    estimate_rows,
    may_hold,
    summarise,
    summary_from_bytes,
)
from lancewright.kinds.composite.values import write_texts
from lancewright.kinds.contract import (
    ROW_COLUMN,
    Answer,
    Built,
    Cost,
    IndexKind,
    Input,
    Nulls,
    Probe,
    SearchProbe,
)
from lancewright.kinds.key_types import check_keys, check_no_parameters
from lancewright.kinds.sorted_file import write_array, write_sorted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import ClassVar

    import pyarrow as pa
    from numpy.typing import NDArray

    from lancewright.kinds.composite.codes import KeyValues, Packed
    from lancewright.kinds.contract import Atom, Key, Part, Reader, Spec, Store

_ENTRY_BYTES = 12
_PAGE_BYTES = 64 << 10


class CompositeKind(IndexKind):
    """Prefixes and ranges of several columns."""

    name: ClassVar[str] = "composite"
    rows_max: ClassVar[int] = 32_000_000
    looks_up_many: ClassVar[bool] = True
    doc: ClassVar[str] = "Equality and IN on the first columns and a range on the next, as one lookup."

    def validate(self, keys: Sequence[Key], parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Take keys of any type that has an order."""
        check_keys(self.name, keys)
        return check_no_parameters(self.name, parameters)

    def input(self, spec: Spec) -> Input:
        """Every row: a row whose second key is NULL still has its first."""
        del spec
        return Input(nulls=Nulls.KEEP)

    def build(self, spec: Spec, rows: Iterable[pa.RecordBatch], out: Store) -> Built:
        """Sort and write. Memory: the keys, and 40 bytes a row."""
        numbers: list[Any] = []
        parts: list[list[pa.Array]] = [[] for _ in spec.keys]
        for batch in rows:
            numbers.append(batch.column(ROW_COLUMN).to_numpy())
            for key, values in enumerate(parts):
                values.append(batch.column(f"k{key}"))
        keys = [gather_key(values, key.type) for values, key in zip(parts, spec.keys, strict=True)]
        del parts
        return _write(keys, np.concatenate(numbers) if numbers else np.zeros(0, dtype=np.uint32), out)

    def merge(self, spec: Spec, parts: Sequence[Part], out: Store) -> Built | None:
        """Take the keys out of all parts again and sort them anew; memory as for ``build``."""
        del spec
        if not parts:
            return None
        return _write(*gather_parts(parts), out)

    def plan(self, spec: Spec, group: Sequence[Atom]) -> Probe | None:
        """Answer conditions on the first keys; without one on the very first, none."""
        conditions, consumed = read_conditions(spec, group)
        if not consumed:
            return None
        return Probe(consumed=consumed, answer=Answer.EXACT, payload=conditions.to_bytes())

    def plan_search(self, spec: Spec, query: Mapping[str, Any]) -> SearchProbe | None:
        """Accept ``{"order_by": [(key, descending), …], "atoms": [Atom, …]}`` where the index has these rows in this order."""
        if set(query) != {"order_by", "atoms"}:
            return None
        head = read_head(spec, query["order_by"], query["atoms"])
        if head is None:
            return None
        return SearchProbe(payload=head.to_bytes(), descending=False, exact=True)

    def skip(self, spec: Spec, probe: Probe, summary: bytes) -> bool:
        """Compare what is asked of each key with its smallest and greatest value."""
        del spec
        return not may_hold(summary_from_bytes(summary), conditions_from_bytes(probe.payload))

    def cost(self, spec: Spec, probe: Probe, summary: bytes, rows: int) -> Cost:
        """From how many different values the first keys have."""
        del spec, rows
        known: Summary = summary_from_bytes(summary)
        conditions = conditions_from_bytes(probe.payload)
        found = estimate_rows(known, conditions)
        runs = float(
            np.prod([float(len(values)) for values in conditions.values]) if conditions.values else 1.0
        )
        pages = (
            min(2 * runs, 1 + known.keyed * _ENTRY_BYTES / _PAGE_BYTES) + found * _ENTRY_BYTES / _PAGE_BYTES
        )
        return Cost(rows=found, bytes=pages * _PAGE_BYTES)

    def open(self, spec: Spec, store: Store) -> Reader:
        """Open the segment."""
        del spec
        return CompositeReader(store)


def _write(keys: Sequence[KeyValues], whole: NDArray[np.uint32], out: Store) -> Built:
    packed = pack_keys(keys)
    order = np.argsort(packed.codes)
    ordered = packed.codes[order]
    write_sorted(out, CODES_FILE, ordered)
    write_array(out, ROWS_FILE, whole[order])
    _write_values(keys, packed, out)
    with out.create(LAYOUT_FILE) as file:
        file.write(json.dumps(packed.layout.to_json()).encode())
    summary = summarise(keys, count_prefixes(packed, ordered))
    return Built(keyed=len(whole), summary=summary.to_bytes())


def _write_values(keys: Sequence[KeyValues], packed: Packed, out: Store) -> None:
    """The different values of each key whose codes are ranks, and of each level but the last."""
    for place, (key, code) in enumerate(zip(keys, packed.layout.keys, strict=True)):
        if code.form == "texts" and key.texts is not None:
            write_texts(out, f"k{place}", key.texts)
        elif code.form == "numbers":
            write_sorted(out, f"k{place}", np.unique(key.numbers[~key.nulls]))
    for level, numbers in enumerate(packed.levels):
        write_sorted(out, f"level{level}", numbers)
