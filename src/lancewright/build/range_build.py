"""Builds globally sorted BTree segments: sample → splitters → exchange → lookup. Publishes nothing.

All indexes of a call share the sampling and the exchange. The driver holds the samples (some megabytes) and the page
entries (24 bytes a page); the rows stay on the executors. Finished ranges are recorded, so that a sort that broke off, or
of which some ranges failed, goes on with the others.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import accumulate
from typing import TYPE_CHECKING

from pyroaring import FrozenBitMap

from lancewright.build.groups import cut_contiguous
from lancewright.build.range_worker import (
    CutWork,
    RangeSettings,
    SampleWork,
    SortSettings,
    cut_one,
    gather_one,
    read_part,
    read_sample,
    sample_one,
)
from lancewright.build.sizes import SORT_MEMORY_MIB, estimate_bytes_per_row
from lancewright.build.sort_journal import SortJournal, SortNote, WrittenRange
from lancewright.build.splitters import SAMPLES_MAX, SAMPLES_PER_RANGE, Splitters, choose_splitters
from lancewright.errors import CorruptIndexError, TasksFailedError
from lancewright.kinds.btree.empty_ranges import BTREE_TYPE_URL
from lancewright.kinds.btree.pages import (
    LOOKUP_FILE,
    PAGE_ROWS,
    lookup_metadata,
    lookup_schema,
    merge_lookups,
)
from lancewright.model.index import Segment, SegmentFile
from lancewright.runtime.exchange import ExchangeJob
from lancewright.runtime.runner import ignore_outcome, run_tasks
from lancewright.runtime.task import Job, Task, TaskOutcome
from lancewright.table.column_reader import indexed_type, plain_type
from lancewright.table.segment_files import SegmentFolder
from lancewright.table.side_files import SideFiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from lancewright.build.plan import FragmentGroup
    from lancewright.build.spec import IndexSpec
    from lancewright.kinds.btree.pages import Part
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.runtime.runner import Runner
    from lancewright.table.location import TableRef

ROWS_PER_RANGE = 4_000_000
RANGE_BYTES_TARGET = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeBuild:
    """One range-sorted index to build over groups of neighbouring fragments, at a pinned version."""

    table: TableRef
    folder: str
    spec: IndexSpec
    snapshot: TableSnapshot
    groups: tuple[FragmentGroup, ...]
    attempts_max: int

    @property
    def rows(self) -> int:
        """Rows to sort."""
        return sum(group.rows for group in self.groups)

    @property
    def fragments(self) -> tuple[int, ...]:
        """The fragments covered, ascending."""
        return tuple(fragment for group in self.groups for fragment in group.fragments)


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeResult:
    """A finished segment, how long it took, and how many rows each range got."""

    segment: Segment
    rows: int
    seconds: float
    rows_per_range: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sort:
    """One index on its way: its settings, its ranges and those of them that are on storage."""

    build: RangeBuild
    settings: RangeSettings
    ranges: int
    written: tuple[WrittenRange, ...] = ()

    @property
    def rows(self) -> int:
        return sum(written.rows for written in self.written)

    @property
    def is_complete(self) -> bool:
        """True when no row is missing; a range that no row fell into was never written."""
        return self.rows == self.build.rows


def build_ranges(builds: Sequence[RangeBuild], runner: Runner) -> list[RangeResult]:
    """Sort every index and return its segment, which is on storage and which nobody can see."""
    started = time.monotonic()
    sorts = _exchange(_begin(builds, runner), runner)
    return [_finish(sort, time.monotonic() - started) for sort in sorts]


def count_ranges(rows: int, bytes_per_row: float, parameters: Mapping[str, object], parallelism: int) -> int:
    """How many key ranges: as asked for, else so that one fits a task's memory and the last ones keep every slot busy."""
    asked = parameters.get("ranges")
    if isinstance(asked, int):
        return max(1, min(asked, rows))
    per_range = parameters.get("rows_per_range")
    if isinstance(per_range, int):
        return max(1, -(-rows // per_range))
    count = max(1, -(-rows // max(1, min(ROWS_PER_RANGE, int(RANGE_BYTES_TARGET / (3 * bytes_per_row))))))
    # Nine ranges of one size on two slots take as long as ten.
    return count if count < parallelism else -(-count // parallelism) * parallelism


def write_lookup(
    folder: SegmentFolder, parts: Sequence[Part], type_: pa.DataType, page_rows: int
) -> tuple[SegmentFile, ...]:
    """Write the merged lookup beside the parts, delete what else lies there, and list the segment's files."""
    with folder.open_writer(LOOKUP_FILE, lookup_schema(type_)) as file:
        file.add_metadata(lookup_metadata(parts, page_rows))
        file.write_batch(merge_lookups(parts, type_))
    files = [SegmentFile(path=part.file_name, size_bytes=part.size_bytes) for part in parts]
    files.append(SegmentFile(path=LOOKUP_FILE, size_bytes=file.size_bytes))
    # A speculative or repeated attempt leaves a part of its own behind.
    for stray in set(folder.list()) - {entry.path for entry in files}:
        folder.delete(stray)
    return tuple(files)


def _begin(builds: Sequence[RangeBuild], runner: Runner) -> list[_Sort]:
    """Take up the sorts that an earlier attempt began on the same rows, and choose the ranges of the others."""
    begun = [_resume(build) for build in builds]
    fresh = [_settings(build) for build, sort in zip(builds, begun, strict=True) if sort is None]
    todo = [build for build, sort in zip(builds, begun, strict=True) if sort is None]
    chosen = iter(_choose(todo, fresh, runner))
    return [sort if sort is not None else next(chosen) for sort in begun]


def _resume(build: RangeBuild) -> _Sort | None:
    journal = SortJournal(SideFiles(build.table), build.folder)
    source = (build.spec.name, build.snapshot.version, build.fragments)
    note = next((note for note in journal.read_sorts() if note.source == source), None)
    if note is None:
        return None
    written = journal.read_ranges(note.segment_uuid)
    settings = replace(
        _settings(build),
        segment_uuid=note.segment_uuid,
        splitters_path=journal.splitters_path(note.segment_uuid),
        done=frozenset(one.number for one in written),
    )
    return _Sort(build=build, settings=settings, ranges=note.ranges, written=written)


def _settings(build: RangeBuild) -> RangeSettings:
    parameters = build.spec.parameters
    segment_uuid = str(uuid.uuid4())
    return RangeSettings(
        table=build.table.pinned(build.snapshot.version),
        column=build.spec.column,
        segment_uuid=segment_uuid,
        splitters_path=SortJournal(SideFiles(build.table), build.folder).splitters_path(segment_uuid),
        page_rows=int(parameters.get("page_rows", parameters.get("zone_size", PAGE_ROWS))),
        budget_bytes=int(parameters.get("task_memory_mib", SORT_MEMORY_MIB)) << 20,
        journal_folder=build.folder,
    )


def _choose(builds: Sequence[RangeBuild], settings: Sequence[RangeSettings], runner: Runner) -> list[_Sort]:
    """Sample every column that is cut at all, in one stage, and keep the splitters where every task finds them."""
    ranges = [_count(build, runner.parallelism) for build in builds]
    tasks = [
        task
        for number, build in enumerate(builds)
        if ranges[number] > 1
        for task in _sample_tasks(build, number, min(SAMPLES_MAX, ranges[number] * SAMPLES_PER_RANGE), runner)
    ]
    samples: list[list[tuple[pa.Array, NDArray[np.uint64]]]] = [[] for _ in builds]
    if tasks:
        job = Job(worker=sample_one, settings=SortSettings(indexes=tuple(settings)))
        for outcome in run_tasks(runner, job, tasks, ignore_outcome, builds[0].attempts_max).values():
            number, values, addresses = outcome.result
            samples[number].append(read_sample((values, addresses)))
    return [
        _start(build, one, choose_splitters(sample, plain_type(build.spec.column.type), count))
        for build, one, sample, count in zip(builds, settings, samples, ranges, strict=True)
    ]


def _start(build: RangeBuild, settings: RangeSettings, splitters: Splitters) -> _Sort:
    note = SortNote(
        segment_uuid=settings.segment_uuid,
        index=build.spec.name,
        version=build.snapshot.version,
        fragments=build.fragments,
        ranges=splitters.ranges,
    )
    SortJournal(SideFiles(build.table), build.folder).start(note, splitters.to_bytes())
    return _Sort(build=build, settings=settings, ranges=splitters.ranges)


def _count(build: RangeBuild, parallelism: int) -> int:
    width = estimate_bytes_per_row("btree", plain_type(build.spec.column.type))
    return count_ranges(build.rows, width, build.spec.parameters, parallelism)


def _sample_tasks(build: RangeBuild, index: int, wanted: int, runner: Runner) -> list[Task]:
    rows = build.snapshot.fragments_by_id
    shares = [
        (fragment, -(-wanted * rows[fragment].rows // max(1, build.rows))) for fragment in build.fragments
    ]
    runs = cut_contiguous([share for _, share in shares], runner.parallelism)
    return [
        Task(
            id=f"sample-{index}-{number}",
            payload=SampleWork(index=index, fragments=tuple(shares[place] for place in run)),
            label=build.spec.name,
            fragments=tuple(shares[place][0] for place in run),
        )
        for number, run in enumerate(runs)
    ]


def _exchange(sorts: Sequence[_Sort], runner: Runner) -> list[_Sort]:
    """Run the exchange, and again for the ranges that failed: what is written is not written twice."""
    attempts = max((sort.build.attempts_max for sort in sorts), default=1)
    for attempt in range(1, attempts + 1):
        if all(sort.is_complete for sort in sorts):
            break
        sorts, failed = _exchange_once(sorts, runner)
        if not failed:
            break
        if attempt == attempts or not all(outcome.retriable for outcome in failed):
            raise _failure(sorts, failed)
    for sort in sorts:
        _require_all_rows(sort)
    return list(sorts)


def _exchange_once(sorts: Sequence[_Sort], runner: Runner) -> tuple[list[_Sort], list[TaskOutcome]]:
    firsts = [0, *accumulate(sort.ranges for sort in sorts)]
    settings = tuple(
        replace(
            sort.settings, first_partition=first, done=frozenset(written.number for written in sort.written)
        )
        for sort, first in zip(sorts, firsts, strict=False)
    )
    job = ExchangeJob(
        cut=cut_one, gather=gather_one, settings=SortSettings(indexes=settings), partitions=firsts[-1]
    )
    tasks = [
        Task(
            id=f"cut-{number}-{place}",
            payload=CutWork(index=number, fragments=group.fragments),
            label=sort.build.spec.name,
            fragments=group.fragments,
            rows=group.rows,
        )
        for number, sort in enumerate(sorts)
        if not sort.is_complete
        for place, group in enumerate(sort.build.groups)
    ]
    outcomes: list[TaskOutcome] = []
    runner.exchange(job, tasks, outcomes.append)
    arrived = [outcome.result for outcome in outcomes if outcome.ok and outcome.result is not None]
    return [_add(sort, arrived) for sort in sorts], [outcome for outcome in outcomes if not outcome.ok]


def _add(sort: _Sort, arrived: Sequence[WrittenRange]) -> _Sort:
    mine = [written for written in arrived if written.segment_uuid == sort.settings.segment_uuid]
    written = sorted((*sort.written, *mine), key=lambda one: one.number)
    return replace(sort, written=tuple(written))


def _failure(sorts: Sequence[_Sort], failed: Sequence[TaskOutcome]) -> Exception:
    names = ", ".join(repr(sort.build.spec.name) for sort in sorts if not sort.is_complete)
    refusal = next((outcome.refusal for outcome in failed if outcome.refusal is not None), None)
    ranges = sum(sort.ranges for sort in sorts)
    error = refusal or TasksFailedError(
        f"{len(failed)} of {ranges} key ranges failed, of index {names}: {failed[0].problem}",
        "Mend the cause and run the same call again: finished ranges are kept and not repeated.",
        tuple(sorted({fragment for sort in sorts for fragment in sort.build.fragments})),
    )
    if failed[0].details:
        error.add_note(failed[0].details)
    return error


def _require_all_rows(sort: _Sort) -> None:
    """Every live row must have arrived: a shuffle that lost one would make the index hide it."""
    if not sort.is_complete:
        _forget(sort)
        raise CorruptIndexError(
            f"The build of index {sort.build.spec.name!r} sorted {sort.rows:,} rows, and its fragments have "
            f"{sort.build.rows:,}",
            "Run the same call again; if it repeats, report it: nothing was committed.",
        )


def _forget(sort: _Sort) -> None:
    """Nobody knows which range is wrong, so none is kept."""
    SortJournal(SideFiles(sort.build.table), sort.build.folder).forget(sort.settings.segment_uuid)


def _finish(sort: _Sort, seconds: float) -> RangeResult:
    build, settings = sort.build, sort.settings
    parts = [read_part(written) for written in sort.written]
    folder = SegmentFolder(build.table, settings.segment_uuid)
    files = write_lookup(folder, parts, indexed_type(build.spec.column.type), settings.page_rows)
    segment = Segment(
        uuid=settings.segment_uuid,
        name=build.spec.name,
        field_ids=(build.spec.column.field_id,),
        dataset_version=build.snapshot.version,
        fragments=FrozenBitMap(build.fragments),
        # Version 1 says that the ids are row addresses on a table with stable row ids, as Lance itself writes it.
        index_version=1 if build.snapshot.stable_row_ids else 0,
        type_url=BTREE_TYPE_URL,
        created_at=datetime.now(UTC),
        files=files,
    )
    rows = tuple(part.rows for part in parts)
    return RangeResult(segment=segment, rows=build.rows, seconds=seconds, rows_per_range=rows)
