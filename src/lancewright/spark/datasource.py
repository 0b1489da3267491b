"""The data source ``lancewright``: ``spark.read.format("lancewright").load(uri)``.

Planned once, in the Python process that Spark starts on the driver for it: the indexes are asked there and a partition carries
fragments and row addresses. The version is pinned when the frame is made, so that every action on it sees the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from lancewright.errors import InvalidRequestError, UnsupportedError
from lancewright.model.columns import find_column
from lancewright.model.computed import computed_columns
from lancewright.model.predicate import And, resolve_where
from lancewright.query.resolve import ROW_ADDRESS, ROW_ID, ScanRequest, plan_scan, resolve_scan
from lancewright.query.settings import ScanSettings
from lancewright.query.worker import ScanJob, read_task
from lancewright.spark.arrow_types import cast_batch, spark_arrow_schema, to_spark_schema
from lancewright.spark.pushdown import choose_filters
from lancewright.spark.read_options import ReadOptions, parse_options
from lancewright.spark.worker_process import freeze_imports
from lancewright.table.row_reader import read_schema
from lancewright.table.snapshot_reader import read_snapshot
from lancewright.table.tags import read_tag

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping, Sequence

    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from lancewright.model.predicate import Predicate
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.query.tasks import ScanTask
    from lancewright.table.location import TableRef

NAME = "lancewright"
# A guess for sessions that were not measured: a cluster has some slots, and a scan too few tasks too many rows in each.
_PARALLELISM = 16


@dataclass(frozen=True)
class ScanPartition(InputPartition):
    """One Spark task: what is read of the table. Holds no rows and, as text, no credentials."""

    job: ScanJob
    tasks: tuple[ScanTask, ...]


class LanceDataSource(DataSource):
    """A Lance table as a Spark data source."""

    # Set in a subclass when the source is registered, so that no option of a query has to name a secret.
    storage_options: ClassVar[Mapping[str, str]] = {}
    parallelism: ClassVar[int] = _PARALLELISM

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Check the options and pin the version."""
        super().__init__(options)
        asked = parse_options(options, self.storage_options)
        table = asked.table if asked.tag is None else read_tag(asked.table, asked.tag)
        snapshot = read_snapshot(table)
        resolve_where(asked.where, snapshot.columns, computed_columns(snapshot))
        self._asked = replace(asked, table=table.pinned(snapshot.version))
        self._outputs = _outputs(snapshot, asked.columns)
        self._own_schema: StructType | None = None

    @classmethod
    def name(cls) -> str:
        """What ``format`` takes."""
        return NAME

    def schema(self) -> StructType:
        """The columns asked for, or all, in Spark's types."""
        self._own_schema = _spark_schema(self._asked.table, self._outputs)
        return self._own_schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of these columns; one that takes Spark's filters only on request.

        Spark 4.3 keeps what a reader answered to one query of a frame, and reads it again for another that pushes other
        filters or none: rows are missing, and nobody notices. See decision 0016.
        """
        if self._asked.columns is not None and tuple(schema.names) != self._outputs:
            raise InvalidRequestError(
                f"The schema given has the columns {', '.join(schema.names)}, the option columns has "
                f"{', '.join(self._outputs)}",
                "Pass one of the two.",
            )
        if schema != self._own_schema:
            _check_types(schema, self._asked.table)
        kind = _PushingReader if self._asked.push_filters else _Reader
        return kind(self._asked, schema, self._asked.parallelism or self.parallelism)


class _Reader(DataSourceReader):
    """Reads the columns of a schema from one version of a table."""

    def __init__(self, asked: ReadOptions, schema: StructType, parallelism: int) -> None:
        self._asked = asked
        self._columns = tuple(schema.names)
        self._target: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        self._parallelism = parallelism
        # What Spark asked for together with the option, where it did ask.
        self._pushed: Predicate | None = None

    def partitions(self) -> Sequence[InputPartition]:
        """Ask the indexes, now and once, and cut what they name into tasks."""
        asked = self._asked
        request = ScanRequest(
            where=None if self._pushed is not None else asked.where,
            bound=self._pushed,
            columns=self._columns,
            limit=asked.limit,
            strict=asked.strict,
            settings=ScanSettings(use_indexes=asked.use_indexes),
        )
        scan = resolve_scan(plan_scan(asked.table, request, self._parallelism))
        if asked.limit is not None:
            # Tasks do not hear of each other: a limit holds for all of them only where one reads them in turn.
            return [ScanPartition(scan.job, scan.tasks)]
        return [ScanPartition(scan.job, (task,)) for task in scan.tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Run on an executor: the rows of a partition, in the types of the schema."""
        freeze_imports()
        if not isinstance(partition, ScanPartition):  # Spark's own, where there is nothing to read
            return
        left = partition.job.limit
        for task in partition.tasks:
            for batch in read_task(replace(partition.job, limit=left), task):
                found = batch.select(self._target.names)
                yield _checked(cast_batch(found, self._target))
                left = None if left is None else left - batch.num_rows
            if left is not None and left <= 0:
                return


class _PushingReader(_Reader):
    """A reader that answers the filters it can say exactly as Spark means them."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802 - Spark's name
        """Keep what can be answered here; what Spark has to evaluate goes back."""
        if self._asked.limit is not None:
            return filters  # Spark filters what the limit left over, and not the other way round
        snapshot = read_snapshot(self._asked.table)
        chosen = choose_filters(filters, snapshot.columns)
        where = resolve_where(self._asked.where, snapshot.columns, computed_columns(snapshot))
        both = (where, chosen.predicate) if where is not None and chosen.predicate is not None else ()
        self._pushed = And(children=both) if both else chosen.predicate
        return list(chosen.left)


def _outputs(snapshot: TableSnapshot, columns: tuple[str, ...] | None) -> tuple[str, ...]:
    """What the columns are called in the answer."""
    if columns is None:
        return tuple(snapshot.schema.names)
    found = []
    for name in columns:
        if name in {ROW_ID, ROW_ADDRESS}:
            found.append(name)
            continue
        column = find_column(snapshot.columns, name)
        found.append(column.names[0] if len(column.names) == 1 else column.path)
    return tuple(found)


def _spark_schema(table: TableRef, names: tuple[str, ...]) -> StructType:
    columns = tuple(name for name in names if name not in {ROW_ID, ROW_ADDRESS})
    schema = read_schema(
        table,
        columns,
        with_row_id=ROW_ID in names,
        with_row_address=ROW_ADDRESS in names,
    )
    return to_spark_schema(spark_arrow_schema(pa.schema([schema.field(name) for name in names])))


def _check_types(schema: StructType, table: TableRef) -> None:
    """A schema given chooses columns; it does not change what they are."""
    snapshot = read_snapshot(table)
    names = _outputs(snapshot, tuple(schema.names))
    if names != tuple(schema.names):
        raise InvalidRequestError(
            f"The schema given has the columns {', '.join(schema.names)}",
            f"Write the names as the table has them: {', '.join(names)}.",
        )
    for wanted, held in zip(schema, _spark_schema(table, names), strict=True):
        if wanted.dataType.simpleString() != held.dataType.simpleString():
            raise InvalidRequestError(
                f"Column {wanted.name} is {held.dataType.simpleString()}, not {wanted.dataType.simpleString()}",
                "Give the schema its type, and cast after reading.",
            )


def _checked(batch: pa.RecordBatch) -> pa.RecordBatch:
    for field, values in zip(batch.schema, batch.columns, strict=True):
        if not field.nullable and values.null_count:
            raise UnsupportedError(
                f"Column {field.name} has NULLs, and the schema given says it has none",
                "Make the column nullable in the schema.",
            )
    return batch
