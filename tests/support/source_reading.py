"""Reads a table as Spark does through the data source, step by step and without Spark: quick enough for thousands of filters.

What Spark would send from one process to another is pickled here too.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from unittest import mock

import pyarrow as pa
from pyspark.serializers import CloudPickleSerializer

from lancewright.spark import datasource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.datasource import Filter

    from lancewright.query.settings import ScanSettings

_PICKLE = CloudPickleSerializer()


def read_source(
    uri: str,
    columns: Sequence[str],
    chosen: ScanSettings,
    *,
    where: str | None = None,
    filters: Sequence[Filter] = (),
) -> tuple[pa.Table, list[Filter]]:
    """The rows of all partitions, and the filters that are left to Spark."""
    options = {"path": uri, "columns": json.dumps(list(columns)), "push_filters": str(bool(filters))}
    source = datasource.LanceDataSource(options if where is None else {**options, "where": where})
    reader = source.reader(source.schema())
    left = list(reader.pushFilters(list(filters))) if filters else []
    with mock.patch.object(datasource, "ScanSettings", return_value=chosen):
        partitions = reader.partitions()
    on_executor = _PICKLE.loads(_PICKLE.dumps(reader))
    batches = [
        batch
        for partition in partitions
        for batch in on_executor.read(_PICKLE.loads(_PICKLE.dumps(partition)))
    ]
    schema = reader._target  # no batch says it when there is none
    return pa.Table.from_batches(batches, schema=schema), left
