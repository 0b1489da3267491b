"""Two small kinds that are right, to learn from, and for the kit to be tried on: the mutants are made of them.

``shelf`` keeps the rows with the values of its first key and looks at all of them: it filters, merges, skips, leaves NaN unkeyed, and
is only sure of ranges. ``nearest`` ranks rows by how far the first key is from a number.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewright.errors import InvalidRequestError
from lancewright.kinds.contract import (
    ROW_COLUMN,
    Answer,
    Built,
    Cost,
    Hits,
    IndexKind,
    Operator,
    Probe,
    Reader,
    SearchProbe,
    row_numbers,
)
from lancewright.testing.harness import Case, KindHarness, Ranking

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import ClassVar

    from numpy.typing import NDArray

    from lancewright.kinds.contract import Atom, Key, Part, RowNumbers, Spec, Store

_BOUNDS = {
    Operator.LESS: lambda values, bound: values < bound,
    Operator.LESS_EQUAL: lambda values, bound: values <= bound,
    Operator.GREATER: lambda values, bound: values > bound,
    Operator.GREATER_EQUAL: lambda values, bound: values >= bound,
}
_INFINITY = float("inf")


class ShelfKind(IndexKind):
    """Rows and the numbers of their first key. Sure of ``<`` and the like; of ``=`` and ``IN`` it knows whole numbers only."""

    name: ClassVar[str] = "shelf"
    doc: ClassVar[str] = "A toy: comparisons of a number."

    def validate(self, keys: Sequence[Key], parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Take float64 keys and no parameters."""
        if any(key.type != pa.float64() for key in keys) or parameters:
            raise InvalidRequestError("A shelf holds float64 and has no parameters", "Give it such columns.")
        return {}

    def build(self, spec: Spec, rows: Iterable[pa.RecordBatch], out: Store) -> Built:
        """Keep what comes; NaN cannot be compared with what Python has, so such rows are left to be checked."""
        del spec
        values, numbers, unkeyed = [np.zeros(0)], [np.zeros(0, dtype=np.uint32)], []
        for batch in rows:
            known = ~self.lost(batch)
            numbers.append(self.number(batch)[known])
            values.append(batch.column("k0").to_numpy(zero_copy_only=False)[known])
            unkeyed.append(self.number(batch)[~known])
        return self.write(np.concatenate(values), np.concatenate(numbers), unkeyed, out)

    def merge(self, spec: Spec, parts: Sequence[Part], out: Store) -> Built:
        """Put the rows of all together; rows without a key are told by the framework."""
        del spec
        values, numbers = [np.zeros(0)], [np.zeros(0, dtype=np.uint32)]
        for part in parts:
            reader = part.reader
            if not isinstance(reader, ShelfReader):
                raise InvalidRequestError("This is no shelf", "Merge segments of one kind.")
            moved = self.move(part, reader.numbers)
            values.append(reader.values[moved >= 0])
            numbers.append(moved[moved >= 0].astype(np.uint32))
        return self.write(np.concatenate(values), np.concatenate(numbers), [], out)

    def plan(self, spec: Spec, group: Sequence[Atom]) -> Probe | None:
        """Answer one condition on the first key."""
        del spec
        for place, atom in enumerate(group):
            bounded = atom.keys == (0,) and atom.operator in {*_BOUNDS, Operator.EQUAL, Operator.IN}
            if bounded and all(value.as_py() == value.as_py() for value in atom.values):
                payload = [atom.operator.value, [repr(value.as_py()) for value in atom.values]]
                return Probe(
                    consumed=frozenset({place}),
                    answer=self.answer(atom),
                    payload=json.dumps(payload).encode(),
                )
        return None

    def skip(self, spec: Spec, probe: Probe, summary: bytes) -> bool:
        """A shelf without rows has none."""
        del spec
        operator, bounds = read_payload(probe)
        low, high = json.loads(summary)
        if operator in _BOUNDS:
            return not any(_BOUNDS[operator](value, bounds[0]) for value in (low, high))
        return not any(np.floor(low) <= np.floor(bound) <= np.floor(high) for bound in bounds)

    def cost(self, spec: Spec, probe: Probe, summary: bytes, rows: int) -> Cost:
        """Everything is looked at."""
        del spec, probe, summary
        return Cost(rows=rows / 10, bytes=rows * 12)

    def open(self, spec: Spec, store: Store) -> Reader:
        """Read all of it: a toy."""
        del spec
        return ShelfReader(store)

    # What follows are the places where a mutant goes wrong.

    def lost(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Rows that get no key."""
        mask: NDArray[np.bool_] = pc.is_nan(batch.column("k0")).to_numpy(zero_copy_only=False)
        return mask

    def number(self, batch: pa.RecordBatch) -> NDArray[np.uint32]:
        """The numbers of the rows."""
        numbers: NDArray[np.uint32] = batch.column(ROW_COLUMN).to_numpy()
        return numbers

    def answer(self, atom: Atom) -> Answer:
        """How sure it is."""
        return Answer.EXACT if atom.operator in _BOUNDS else Answer.AT_MOST

    def move(self, part: Part, numbers: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Where rows go in a merge."""
        return part.renumber[numbers]

    def write(
        self,
        values: NDArray[np.float64],
        numbers: NDArray[np.uint32],
        unkeyed: Sequence[NDArray[np.uint32]],
        out: Store,
    ) -> Built:
        """Two files, and the least and greatest value."""
        with out.create("values") as file:
            file.write(values.tobytes())
        with out.create("rows") as file:
            file.write(numbers.tobytes())
        return Built(
            keyed=len(values),
            unkeyed=row_numbers(np.concatenate([np.zeros(0, dtype=np.uint32), *unkeyed])),
            summary=self.summarise(values),
        )

    def summarise(self, values: NDArray[np.float64]) -> bytes:
        """The least and greatest value; of nothing, a range that nothing is in."""
        bounds = [float(values.min()), float(values.max())] if len(values) else [_INFINITY, -_INFINITY]
        return json.dumps(bounds).encode()


class ShelfReader(Reader):
    """Everything in memory."""

    def __init__(self, store: Store) -> None:
        """Read it."""
        values, rows = store.open("values"), store.open("rows")
        self.values = np.frombuffer(values.read(0, values.size), dtype=np.float64)
        self.numbers = np.frombuffer(rows.read(0, rows.size), dtype=np.uint32)

    def lookup(self, probe: Probe) -> RowNumbers:
        """The rows within the bound, or with the same whole number."""
        operator, bounds = read_payload(probe)
        return row_numbers(self.numbers[self.matches(operator, bounds)])

    def matches(self, operator: Operator, bounds: list[float]) -> NDArray[np.bool_]:
        """Which values a condition names."""
        if operator in _BOUNDS:
            mask: NDArray[np.bool_] = _BOUNDS[operator](self.values, bounds[0])
            return mask
        return np.isin(np.floor(self.values), np.floor(bounds))


class NearestKind(IndexKind):
    """Rows by how far the first key is from a number: the nearest first."""

    name: ClassVar[str] = "nearest"
    doc: ClassVar[str] = "A toy: the numbers nearest to one."

    def validate(self, keys: Sequence[Key], parameters: Mapping[str, Any]) -> dict[str, Any]:
        """As a shelf."""
        return ShelfKind().validate(keys, parameters)

    def build(self, spec: Spec, rows: Iterable[pa.RecordBatch], out: Store) -> Built:
        """As a shelf."""
        return ShelfKind().build(spec, rows, out)

    def plan(self, spec: Spec, group: Sequence[Atom]) -> Probe | None:
        """It does not filter."""
        del spec, group
        return None

    def plan_search(self, spec: Spec, query: Mapping[str, Any]) -> SearchProbe | None:
        """Accept ``{"near": number}``."""
        del spec
        if set(query) != {"near"}:
            return None
        return SearchProbe(payload=json.dumps(query["near"]).encode(), descending=False, exact=True)

    def score(self, spec: Spec, probe: SearchProbe, rows: pa.RecordBatch) -> NDArray[np.float64]:
        """How far each row is. Infinite values are as far as can be, NaN is nowhere."""
        del spec
        far: NDArray[np.float64] = np.abs(rows.column("k0").to_numpy() - json.loads(probe.payload))
        return far

    def open(self, spec: Spec, store: Store) -> Reader:
        """As a shelf."""
        del spec
        return NearestReader(store)


class NearestReader(ShelfReader):
    """Ranks everything."""

    def search(
        self, probe: SearchProbe, statistics: Sequence[bytes], k: int, allow: RowNumbers | None
    ) -> Hits:
        """The k rows allowed whose values are nearest."""
        del statistics
        distances = np.abs(self.values - json.loads(probe.payload))
        distances[np.isinf(self.values)] = _INFINITY
        may = self.allowed(allow)
        order = self.rank(distances[may], self.numbers[may])[: self.count(k)]
        return Hits(rows=self.numbers[may][order], scores=distances[may][order])

    def allowed(self, allow: RowNumbers | None) -> NDArray[np.bool_]:
        """Which rows may be found."""
        if allow is None:
            return np.ones(len(self.numbers), dtype=np.bool_)
        return np.isin(self.numbers, np.frombuffer(allow.to_array(), dtype=np.uint32))

    def rank(self, distances: NDArray[np.float64], numbers: NDArray[np.uint32]) -> NDArray[np.int64]:
        """The nearest first, then the first."""
        return np.lexsort((numbers, distances))

    def count(self, k: int) -> int:
        """How many."""
        return k


def read_payload(probe: Probe) -> tuple[Operator, list[float]]:
    """What a probe asks for."""
    operator, bounds = json.loads(probe.payload)
    return Operator(operator), [float(bound) for bound in bounds]


def shelf_harness(kind: type[IndexKind] = ShelfKind) -> KindHarness:
    """How the shelf is tried."""
    cases = (Case(types=(pa.float64(),)), Case(types=(pa.float64(), pa.float64())))
    return KindHarness(kind=kind, cases=cases, merges=True, reads_less=False)


def nearest_harness(kind: type[IndexKind] = NearestKind) -> KindHarness:
    """How the ranking kind is tried. Infinite values are as far as can be."""
    return KindHarness(
        kind=kind,
        cases=(Case(types=(pa.float64(),)),),
        filters=False,
        reads_less=False,
        rankings=(Ranking(query={"near": 0.3}, score=lambda value: abs(value - 0.3), descending=False),),
    )
