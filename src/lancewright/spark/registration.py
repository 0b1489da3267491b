"""Makes lancewright known to a Spark session: the data source, with the options that reach the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewright.spark.failures import translate_spark_error
from lancewright.spark.runner import SparkRunner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession


def register_source(spark: SparkSession, storage_options: Mapping[str, str]) -> None:
    """Register the data source ``lancewright``."""
    from lancewright.spark.datasource import LanceDataSource

    bound = {"storage_options": dict(storage_options), "parallelism": SparkRunner(spark).parallelism}
    # A class made here travels by value, and with it what is bound; one of a module would travel by its name.
    source = type("LanceDataSource", (LanceDataSource,), {**bound, "__module__": "__main__"})
    try:
        spark.dataSource.register(source)
    except Exception as error:
        raise translate_spark_error(error, ()) from error
