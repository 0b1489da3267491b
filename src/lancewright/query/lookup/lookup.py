"""A lookup of many keys as a caller holds it: checked when it is made, run when an answer is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lancewright.errors import CorruptIndexError, InvalidRequestError, UnsupportedError
from lancewright.model.columns import find_column, is_repeated
from lancewright.query.lookup.explain import explain_lookup
from lancewright.query.lookup.matching import KeySet, fit_keys, is_comparable
from lancewright.query.lookup.naming import name_rows
from lancewright.query.lookup.plan import (
    LookupPlan,
    lookup_job,
    lookup_tasks,
    plan_lookup,
    restrict_lookup,
)
from lancewright.query.lookup.worker import KEY_INDEX, PAIRS_SCHEMA
from lancewright.query.search.columns import find_outputs, read_outputs
from lancewright.query.search.explain import Run
from lancewright.query.search.run import Hits, measure_answer
from lancewright.query.search.search import Search, make_frame
from lancewright.runtime.runner import ignore_outcome, run_tasks
from lancewright.table.column_reader import plain_type, plain_values
from lancewright.table.lance_compat import translating
from lancewright.table.opening import open_dataset
from lancewright.table.row_taker import take_columns

if TYPE_CHECKING:
    from lancewright.model.columns import Column
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.query.search.explanation import SearchExplanation
    from lancewright.query.search.notes import SearchNote
    from lancewright.query.search.search import Frames
    from lancewright.runtime.runner import Runner
    from lancewright.table.location import TableRef

# All keys go to every task, and the rows that equal one come to the driver.
KEYS_MAX = 5_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupRequest:
    """What is looked up by what: the columns of the keys, an index by name, the columns to return."""

    on: tuple[str, ...] | None = None
    index: str | None = None
    columns: tuple[str, ...] | None = None
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Lookup(Search):
    """The rows that equal many keys, with the place of the key each belongs to."""

    table: TableRef
    snapshot: TableSnapshot
    keys: KeySet
    columns: tuple[str, ...]
    plan: LookupPlan
    strict: bool
    runner: Runner
    frames: Frames | None = None
    _happened: list[SearchNote] = field(default_factory=list)

    def to_arrow(self) -> pa.Table:
        """The rows in the order of their keys, those of one key by row id; ``key_index`` is the place of the key."""
        return self._read(self._find().rows)

    def to_spark(self) -> Any:  # Any: a classic or a Connect DataFrame
        """The rows as a frame of the session the table was opened with."""
        return make_frame(self.frames, self.to_arrow())

    def schema(self) -> pa.Schema:
        """The schema of the rows, without a lookup."""
        nothing = [pa.nulls(0, column.type) for column in read_outputs(self.snapshot, self.columns)]
        return self._answer(PAIRS_SCHEMA.empty_table(), nothing).schema

    def explain(self, *, analyze: bool = False) -> SearchExplanation:
        """Which index is asked, what is scanned and why; after a run also what went otherwise, with ``analyze`` what it took."""
        run = self._measure() if analyze else None
        return explain_lookup(self.plan, len(self.keys), tuple(self._happened), run)

    def __repr__(self) -> str:
        """Show what is looked up."""
        names = ", ".join(column.path for column in self.plan.columns)
        return f"Lookup of {len(self.keys):,} keys of {names} in {self.table.name} version {self.snapshot.version}"

    def _find(self) -> Hits:
        tasks = tuple(lookup_tasks(self.plan)) if len(self.keys) else ()
        job = lookup_job(self.table, self.plan, self.keys, strict=self.strict)
        done = run_tasks(self.runner, job, tasks, ignore_outcome) if tasks else {}
        found = [done[task.id].result for task in tasks]
        self._happened[:] = dict.fromkeys(note for one in found for note in one.notes)
        if self.strict and self._happened:
            raise CorruptIndexError(
                f"A segment cannot be asked: {self._happened[0].explanation}",
                "Build the index again with create_index(..., replace=True).",
            )
        pairs = pa.concat_tables([PAIRS_SCHEMA.empty_table(), *(one.rows for one in found)])
        order = np.lexsort((pairs["_rowid"].to_numpy(), pairs[KEY_INDEX].to_numpy()))
        return Hits(
            rows=pairs.take(order),
            notes=tuple(self._happened),
            efforts={task.id: one.effort for task, one in zip(tasks, found, strict=True)},
        )

    def _measure(self) -> Run:
        hits = self._find()
        read = measure_answer(self.table, self.snapshot, hits.rows, self.columns)
        return Run(happened=hits.notes, efforts=hits.efforts, read=read)

    def _read(self, pairs: pa.Table) -> pa.Table:
        columns = read_outputs(self.snapshot, self.columns)
        pinned = self.table.pinned(self.snapshot.version)
        ids = pairs["_rowid"].to_numpy()
        if not len(ids) or not columns:
            return self._answer(pairs, [pa.nulls(len(ids), column.type) for column in columns])
        with translating(pinned, "read the rows found in"):
            return self._answer(pairs, take_columns(open_dataset(pinned), ids, columns))

    def _answer(self, pairs: pa.Table, values: list[pa.Array]) -> pa.Table:
        read, answer = iter(values), {KEY_INDEX: pairs[KEY_INDEX]}
        for name in self.columns:
            answer[name] = pairs[name] if name in PAIRS_SCHEMA.names else next(read)
        return pa.table(answer)


def prepare_lookup(
    place: tuple[TableRef, TableSnapshot, Runner, Frames | None], keys: pa.Table, request: LookupRequest
) -> Lookup:
    """Check the keys against the table, and choose the index."""
    table, snapshot, runner, frames = place
    if keys.num_rows > KEYS_MAX:
        raise UnsupportedError(
            f"{keys.num_rows:,} keys are more than the {KEYS_MAX:,} that are looked up at once",
            "Look them up in parts, or join a scan of the table.",
        )
    names = read_names(snapshot, request) or tuple(keys.column_names)
    columns = tuple(_key_column(snapshot, name) for name in names)
    _require_columns(keys, names)
    arrays = [plain_values(_combined(keys[name])) for name in names]
    plan = plan_lookup(snapshot, columns, request.index, runner.parallelism)
    if request.index is not None and plan.index is None and not plan.unusable:
        raise InvalidRequestError(
            f"There is no such index {request.index!r} that looks up keys of {', '.join(names)}",
            "Name one of kind key or composite over just these columns, or leave index= out.",
        )
    if request.strict and plan.unusable:
        note = plan.unusable[0]
        raise UnsupportedError(
            f"Index {note.subject!r} cannot be used: {note.reason.value}, {note.explanation}",
            "Mend that, or look up without strict=True.",
        )
    fitted = fit_keys(arrays, [plain_type(column.type) for column in columns], names)
    if plan.index is None:
        named = name_rows(table.pinned(snapshot.version), columns, fitted)
        plan = plan if named is None else restrict_lookup(plan, named, runner.parallelism)
    outputs = find_outputs(snapshot, request.columns)
    if KEY_INDEX in outputs:
        raise InvalidRequestError(
            f"The table has a column {KEY_INDEX!r}, and so has the answer", "Choose others with columns=."
        )
    return Lookup(
        table=table,
        snapshot=snapshot,
        keys=fitted,
        columns=outputs,
        plan=plan,
        strict=request.strict,
        runner=runner,
        frames=frames,
    )


def read_names(snapshot: TableSnapshot, request: LookupRequest) -> tuple[str, ...] | None:
    """The columns compared: those named, or those of the index named; None when all that the keys have are."""
    if request.on is not None:
        return request.on
    index = None if request.index is None else snapshot.index(request.index)
    if request.index is not None and index is None:
        raise InvalidRequestError(
            f"There is no such index {request.index!r}", "Name one, or leave index= out."
        )
    return None if index is None else index.columns


def _key_column(snapshot: TableSnapshot, name: str) -> Column:
    column = find_column(snapshot.columns, name)
    if is_repeated(snapshot.columns, column) or not is_comparable(plain_type(column.type)):
        raise InvalidRequestError(
            f"Column {column.path} is {column.type}, of which no rows are looked up",
            "Look up numbers, texts, bytes, booleans, dates or times.",
        )
    return column


def _require_columns(keys: pa.Table, names: tuple[str, ...]) -> None:
    missing = [name for name in names if name not in keys.column_names]
    if missing or not names or len(set(names)) < len(names):
        raise InvalidRequestError(
            f"The keys have the columns {keys.column_names}, and {list(names)} are compared",
            "Name columns of both with on=, and the keys' as the table's.",
        )


def _combined(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    if isinstance(whole, pa.Array):
        return whole
    return whole.chunk(0) if whole.num_chunks else pa.array([], column.type)
