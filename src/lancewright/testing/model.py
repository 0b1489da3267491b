"""A small table on disk that is appended to, deleted from, updated and compacted, asked with and without its index."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewright import api
from lancewright.kinds.plugins import PLUGINS
from lancewright.model.predicate import conjoin, simplify, to_negation_normal_form
from lancewright.query.resolve import ScanRequest, plan_scan, resolve_scan
from lancewright.query.run import run_scan
from lancewright.query.settings import ScanSettings
from lancewright.runtime.local_runner import LocalRunner
from lancewright.table.location import table_ref
from lancewright.table.opening import open_dataset
from lancewright.table.writing import write_new_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lancewright.model.predicate import Predicate
    from lancewright.testing.harness import Case
    from lancewright.testing.laboratory import Laboratory

_ROWS = 160
_FRAGMENT_ROWS = 40
# An index that can answer is asked, whatever it costs.
_EAGER = ScanSettings(random_read_bytes=0, run_bytes=0, index_byte_weight=0.0)


class ToyTable:
    """One table with one index of the kind that is tried."""

    def __init__(self, folder: str, laboratory: Laboratory, case: Case, *, stable_row_ids: bool) -> None:
        """Write four fragments."""
        self._ref = table_ref(f"{folder}/table")
        self._laboratory = laboratory
        self._case = case
        self._next = 0
        self._stable_row_ids = stable_row_ids
        rows = self._rows(_ROWS)
        write_new_table(
            self._ref, rows.schema, rows.to_batches(), _FRAGMENT_ROWS, stable_row_ids=stable_row_ids
        )

    def build(self) -> None:
        """Index the table as it is now."""
        columns = [key.name for key in self._case.keys]
        table = api.open(self._ref.uri, progress=False)
        table.create_index(
            columns, kind=self._laboratory.kind.name, name="tried", segments=2, **self._case.parameters
        )

    def change(self) -> str:
        """Do one thing to the table, with plain Lance, and name it."""
        changes: list[Callable[[], str]] = [
            self._append,
            self._delete,
            self._update_key,
            self._update_other,
            self._compact,
            self._compact,
        ]
        return changes[self._laboratory.random.integers(0, len(changes))]()

    def answers(self, group: Sequence[Predicate]) -> tuple[list[int], list[int]]:
        """The ids of the rows for which all conditions are TRUE: through the index, and by a scan."""
        bound = simplify(to_negation_normal_form(conjoin(group)))
        return self._ids(bound, _EAGER), self._ids(bound, ScanSettings(use_indexes=False))

    def _ids(self, bound: Predicate, settings: ScanSettings) -> list[int]:
        request = ScanRequest(bound=bound, columns=("id",), settings=settings, strict=True)
        rows = run_scan(resolve_scan(plan_scan(self._ref, request, 2)), LocalRunner())
        return sorted(rows["id"].to_pylist())

    def _rows(self, count: int) -> pa.Table:
        columns = self._laboratory.rows(self._case, count)
        ids = pa.array(range(self._next, self._next + count), pa.int64())
        self._next += count
        other = pa.array(self._laboratory.random.integers(0, 8, count), pa.int64())
        names = ["id", "other", *(key.name for key in self._case.keys)]
        return pa.table([ids, other, *columns], names)

    def _dataset(self) -> Any:  # Any: pylance leaves it untyped
        return open_dataset(self._ref)

    def _append(self) -> str:
        self._dataset().insert(self._rows(30), mode="append")
        return "append"

    def _delete(self) -> str:
        self._dataset().delete(f"other = {self._laboratory.random.integers(0, 8)} AND id % 3 = 0")
        return "delete"

    def _update_key(self) -> str:
        self._dataset().update(
            {"k0": "NULL"}, where=f"other = {self._laboratory.random.integers(0, 8)} AND id % 5 = 0"
        )
        return "update of a key"

    def _update_other(self) -> str:
        self._dataset().update({"other": "other + 1"}, where="id % 7 = 0 AND other < 7")
        return "update of another column"

    def _compact(self) -> str:
        options = {} if self._stable_row_ids else {"defer_index_remap": True}
        self._dataset().optimize.compact_files(target_rows_per_fragment=90, **options)
        return "compaction"


@contextmanager
def registered(laboratory: Laboratory) -> Iterator[None]:
    """The kind is known by its name meanwhile, whatever else has this name."""
    kind = laboratory.kind
    known = PLUGINS.load(kind.name)
    if type(known) is type(kind):
        yield
        return
    PLUGINS.register(type(kind), replace=True)
    try:
        yield
    finally:
        PLUGINS.unregister(kind.name)
