"""Sorts one key range within a memory budget: what is more goes to local disk as sorted runs.

The runs are read back memory-mapped, cut at common splitters into pieces that fit, and each piece is sorted in memory.
Runs that never left memory are cut in the same way, into pieces that fit the processor's cache.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from lancewright.build.range_shuffle import bytes_per_row, decode_blob
from lancewright.build.splitters import choose_splitters, cut_run
from lancewright.errors import InvalidRequestError
from lancewright.kinds.btree.sort_keys import key_width
from lancewright.kinds.btree.sorted_run import SortedRun, merge_runs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from numpy.typing import NDArray

_SAMPLES_PER_PIECE = 1_000
# A range of 4 M rows is put in order at 12 ns a row in pieces of this size, and at 33 to 50 in one piece: its gathers miss
# the cache, and each of its arrays, of 32 MB, comes from the system and goes back to it, 20 ns a row of page faults alone.
# Texts gain as much: gathered in the cache they take 3 ns a row instead of 15, and fewer of them share their first bits.
PIECE_ROWS = 512 * 1024


class RangeSorter:
    """Takes blobs in any order and gives the range's rows in order. Memory stays within the budget, about.

    NULLs have half a budget of their own: they are handed out before the values are sorted.
    """

    def __init__(self, type_: pa.DataType, budget_bytes: int) -> None:
        """Start empty; local disk is touched only when the budget is passed."""
        self._type = type_
        self._budget_bytes = budget_bytes
        self._runs: list[SortedRun] = []
        self._held_bytes = 0
        self._nulls: RangeSorter | None = None
        self._folder: Path | None = None
        self._spilled: list[SortedRun] = []

    def __enter__(self) -> Self:
        """Use as a context, so that the spilled files go whatever happens."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove spilled files."""
        self._runs, self._spilled = [], []
        if self._nulls is not None:
            self._nulls.__exit__(kind, error, trace)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def spilled_runs(self) -> int:
        """How many runs went to disk."""
        return len(self._spilled) + (self._nulls.spilled_runs if self._nulls is not None else 0)

    def add(self, blob: pa.Buffer) -> None:
        """Take one blob, of values or of NULLs."""
        run, nulls = decode_blob(blob, self._type)
        if nulls is not None:
            self.add_nulls(nulls)
        if run is not None:
            self.add_run(run)

    def add_nulls(self, addresses: NDArray[np.uint64]) -> None:
        """Take rows without a value."""
        # A NULL has nothing but its address, which is sorted, and spilled, as a number is.
        self._nulls = self._nulls or RangeSorter(pa.uint64(), self._budget_bytes // 2)
        self._nulls.add_run(SortedRun(type=pa.uint64(), addresses=addresses, keys=addresses))

    def add_run(self, run: SortedRun) -> None:
        """Take one sorted run of values; spill first if it would not fit."""
        size = round(len(run) * bytes_per_row(self._type, _mean_bytes(run)))
        if self._runs and self._held_bytes + size > self._budget_bytes:
            self._spill()
        self._runs.append(run)
        self._held_bytes += size

    def null_addresses(self) -> Iterator[NDArray[np.uint64]]:
        """Addresses of the range's NULLs, ascending, piece by piece."""
        if self._nulls is not None:
            yield from (run.addresses for run in self._nulls.sorted_runs())

    def sorted_runs(self) -> Iterator[SortedRun]:
        """The range's rows in order, as runs that follow each other."""
        if self._spilled and self._runs:
            self._spill()
        if self._spilled:
            yield from self._merge_pieces(self._spilled, self._pieces_on_disk())
        elif self._runs:
            yield from self._merge_pieces(self._runs, _pieces_in_memory(self._runs))

    def _spill(self) -> None:
        merged = merge_runs(self._runs, self._type)
        self._runs, self._held_bytes = [], 0
        try:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="lancewright-range-"))
            self._spilled.append(_to_disk(merged, self._folder / f"{len(self._spilled)}.arrow"))
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise InvalidRequestError(
                    f"The local disk under {tempfile.gettempdir()} is full: a range of the index was being sorted there",
                    "Set TMPDIR of the executors to a larger disk, or lower rows_per_range.",
                ) from error
            raise

    def _pieces_on_disk(self) -> int:
        rows = sum(len(run) for run in self._spilled)
        mean = sum(_mean_bytes(run) * len(run) for run in self._spilled) / rows
        pieces = 1 + int(rows * bytes_per_row(self._type, mean) // max(1, self._budget_bytes // 2))
        return max(pieces, _pieces_in_memory(self._spilled))

    def _merge_pieces(self, runs: list[SortedRun], pieces: int) -> Iterator[SortedRun]:
        if pieces == 1:
            yield merge_runs(runs, self._type)
            return
        rows = sum(len(run) for run in runs)
        step = max(1, rows // (pieces * _SAMPLES_PER_PIECE))
        splitters = choose_splitters([_every(run, step) for run in runs], self._type, pieces)
        bounds = [[0, *cut_run(run, splitters).tolist(), len(run)] for run in runs]
        for piece in range(len(splitters.addresses) + 1):
            parts = [
                run.slice(cuts[piece], cuts[piece + 1])
                for run, cuts in zip(runs, bounds, strict=True)
                if cuts[piece + 1] > cuts[piece]
            ]
            if parts:
                yield merge_runs(parts, self._type)


def _pieces_in_memory(runs: list[SortedRun]) -> int:
    return 1 + sum(len(run) for run in runs) // PIECE_ROWS


def _every(run: SortedRun, step: int) -> tuple[pa.Array, NDArray[np.uint64]]:
    places = np.arange(0, len(run), step)
    if run.keys is not None:
        thin = SortedRun(type=run.type, addresses=run.addresses[places], keys=run.keys[places])
        return thin.values(0, len(thin)), thin.addresses
    return run.values(0, len(run)).take(pa.array(places)), run.addresses[places]


def _mean_bytes(run: SortedRun) -> float:
    return run.wide.nbytes / max(1, len(run)) if run.wide is not None else 8.0


def _to_disk(run: SortedRun, path: Path) -> SortedRun:
    """Write a run and return it as a view of the file: its pages belong to the system's cache, not to this process."""
    values = pa.array(run.keys) if run.keys is not None else run.values(0, len(run))
    batch = pa.record_batch([values, pa.array(run.addresses)], names=["values", "addresses"])
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)
    mapped = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
    addresses = mapped.column("addresses").to_numpy()
    if key_width(run.type) is not None:
        return SortedRun(type=run.type, addresses=addresses, keys=mapped.column("values").to_numpy())
    return SortedRun(type=run.type, addresses=addresses, wide=mapped.column("values"))
