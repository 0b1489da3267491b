"""Kinds that are wrong in one place each, and the check that must find out. They keep the kit honest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewright.kinds.contract import ROW_COLUMN, Answer, Built, Hits, Input, Nulls, Operator
from lancewright.testing.toys import (
    NearestKind,
    NearestReader,
    ShelfKind,
    ShelfReader,
    nearest_harness,
    shelf_harness,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from lancewright.kinds.contract import Atom, Part, Reader, RowNumbers, SearchProbe, Spec, Store
    from lancewright.testing.harness import KindHarness


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A wrong kind and the name of the check that it must fail."""

    harness: KindHarness
    caught_by: str

    @property
    def name(self) -> str:
        """The name of its class."""
        return type(self.harness.kind()).__name__


class TakesNullsForZero(ShelfKind):
    """Asks for the NULLs and keeps them as zeros."""

    def input(self, spec: Spec) -> Input:
        """Wrong together with what build does."""
        del spec
        return Input(nulls=Nulls.KEEP)

    def build(self, spec: Spec, rows: Iterable[pa.RecordBatch], out: Store) -> Built:
        """Fill NULLs."""
        filled = (
            batch.set_column(1, "k0", pc.fill_null(batch.column("k0"), fill_value=0.0)) for batch in rows
        )
        return super().build(spec, filled, out)


class ForgetsUnkeyedRows(ShelfKind):
    """Drops NaN without saying so."""

    def write(
        self,
        values: NDArray[np.float64],
        numbers: NDArray[np.uint32],
        unkeyed: Sequence[NDArray[np.uint32]],
        out: Store,
    ) -> Built:
        """Say nothing of them."""
        del unkeyed
        return super().write(values, numbers, [], out)


class ClaimsToBeExact(ShelfKind):
    """Knows whole numbers and says it knows all."""

    def answer(self, atom: Atom) -> Answer:
        """Always exact."""
        del atom
        return Answer.EXACT


class IsOffByOneBound(ShelfKind):
    """Takes ``<=`` for ``<``."""

    def open(self, spec: Spec, store: Store) -> Reader:
        """Open the wrong reader."""
        del spec
        return _OffByOneReader(store)


class _OffByOneReader(ShelfReader):
    def matches(self, operator: Operator, bounds: list[float]) -> NDArray[np.bool_]:
        strict = Operator.LESS if operator is Operator.LESS_EQUAL else operator
        return super().matches(strict, bounds)


class KeepsOldNumbersInMerges(ShelfKind):
    """Leaves rows the numbers they had."""

    def move(self, part: Part, numbers: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Drop what is to be dropped, and renumber nothing."""
        return np.where(part.renumber[numbers] >= 0, numbers.astype(np.int64), -1)


class SkipsTooEagerly(ShelfKind):
    """Believes that nothing is greater than one."""

    def summarise(self, values: NDArray[np.float64]) -> bytes:
        """Cut the greatest value."""
        return super().summarise(np.minimum(values, 1.0))


class CountsRowsItself(ShelfKind):
    """Takes the place in the batches for the number."""

    def build(self, spec: Spec, rows: Iterable[pa.RecordBatch], out: Store) -> Built:
        """Number the rows anew."""
        return super().build(spec, _renumbered(rows), out)


class LosesTheLastBatch(ShelfKind):
    """Writes when the next batch comes, which it never does for the last."""

    def build(self, spec: Spec, rows: Iterable[pa.RecordBatch], out: Store) -> Built:
        """Leave the last one out."""
        return super().build(spec, list(rows)[:-1], out)


class RanksBackwards(NearestKind):
    """The farthest first."""

    def open(self, spec: Spec, store: Store) -> Reader:
        """Open the wrong reader."""
        del spec
        return _BackwardsReader(store)


class _BackwardsReader(NearestReader):
    def rank(self, distances: NDArray[np.float64], numbers: NDArray[np.uint32]) -> NDArray[np.int64]:
        return super().rank(-distances, numbers)


class IgnoresWhatIsAllowed(NearestKind):
    """Finds any row."""

    def open(self, spec: Spec, store: Store) -> Reader:
        """Open the wrong reader."""
        del spec
        return _IgnoringReader(store)


class _IgnoringReader(NearestReader):
    def allowed(self, allow: RowNumbers | None) -> NDArray[np.bool_]:
        del allow
        return super().allowed(None)


class FiltersAfterRanking(NearestKind):
    """Takes the best k, and of these the allowed."""

    def open(self, spec: Spec, store: Store) -> Reader:
        """Open the wrong reader."""
        del spec
        return _LateFilterReader(store)


class _LateFilterReader(NearestReader):
    def search(
        self, probe: SearchProbe, statistics: Sequence[bytes], k: int, allow: RowNumbers | None
    ) -> Hits:
        hits = super().search(probe, statistics, k, None)
        kept = np.ones(len(hits.rows), dtype=np.bool_) if allow is None else np.isin(hits.rows, list(allow))
        return Hits(rows=hits.rows[kept], scores=hits.scores[kept])


class ReadsPastK(NearestKind):
    """Gives one more."""

    def open(self, spec: Spec, store: Store) -> Reader:
        """Open the wrong reader."""
        del spec
        return _PastReader(store)


class _PastReader(NearestReader):
    def count(self, k: int) -> int:
        return k + 1


class ScoresOtherwise(NearestKind):
    """Measures from zero what is not in the index."""

    def score(self, spec: Spec, probe: SearchProbe, rows: pa.RecordBatch) -> NDArray[np.float64]:
        """Forget what was asked."""
        del spec, probe
        far: NDArray[np.float64] = np.abs(rows.column("k0").to_numpy())
        return far


class ReadsUnchecked(NearestKind):
    """Looks at the bytes behind the store's back, and so at damaged ones."""

    def open(self, spec: Spec, store: Store) -> Reader:
        """Open the wrong reader."""
        del spec
        return NearestReader(_Unchecked(store))


class _Unchecked:
    """A store that hands out bytes nobody has checked."""

    def __init__(self, store: Store) -> None:
        self._store: Any = store  # Any: to reach what is not for kinds

    def open(self, name: str) -> _UncheckedFile:
        place = self._store._place  # noqa: SLF001 - that is what is wrong with it
        return _UncheckedFile(place, name, self._store.open(name).size)

    def create(self, name: str) -> BinaryIO:
        return self._store.create(name)  # type: ignore[no-any-return] # as above

    def local(self, name: str) -> str:
        return self._store.local(name)  # type: ignore[no-any-return] # as above


class _UncheckedFile:
    def __init__(self, place: Any, name: str, size: int) -> None:  # Any: as above
        self._place = place
        self._name = name
        self.size = size

    def read(self, start: int, length: int) -> memoryview:
        content = self._place.read_range(self._name, start, length)
        return memoryview(bytes(content).ljust(length, b"\0"))


def _renumbered(rows: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    start = 0
    for batch in rows:
        place = batch.schema.get_field_index(ROW_COLUMN)
        numbers = np.arange(start, start + len(batch), dtype=np.uint32)
        start += len(batch)
        yield batch.set_column(place, ROW_COLUMN, pa.array(numbers))


_ORACLE = "answers_are_those_of_the_oracle"
_ALLOWED = "only_allowed_rows_are_found_and_as_many_as_there_are"
_BEST = "the_best_rows_are_found_best_first"
MUTANTS = (
    Mutant(harness=shelf_harness(TakesNullsForZero), caught_by="a_batch_of_nulls_is_right"),
    Mutant(harness=shelf_harness(ForgetsUnkeyedRows), caught_by=_ORACLE),
    Mutant(harness=shelf_harness(ClaimsToBeExact), caught_by=_ORACLE),
    Mutant(harness=shelf_harness(IsOffByOneBound), caught_by="every_bound_is_right"),
    Mutant(harness=shelf_harness(KeepsOldNumbersInMerges), caught_by="a_merge_is_a_build_over_all_rows"),
    Mutant(harness=shelf_harness(SkipsTooEagerly), caught_by="a_segment_is_skipped_only_without_rows"),
    Mutant(
        harness=shelf_harness(CountsRowsItself),
        caught_by="rows_keep_their_numbers_when_others_are_deleted",
    ),
    Mutant(harness=shelf_harness(LosesTheLastBatch), caught_by="any_cut_into_batches_gives_the_same_answers"),
    Mutant(harness=nearest_harness(RanksBackwards), caught_by=_BEST),
    Mutant(harness=nearest_harness(IgnoresWhatIsAllowed), caught_by=_ALLOWED),
    Mutant(harness=nearest_harness(FiltersAfterRanking), caught_by=_ALLOWED),
    Mutant(harness=nearest_harness(ReadsPastK), caught_by=_BEST),
    Mutant(harness=nearest_harness(ScoresOtherwise), caught_by="rows_are_scored_as_they_are_ranked"),
    Mutant(harness=nearest_harness(ReadsUnchecked), caught_by="damage_is_noticed_when_rows_are_ranked"),
)
