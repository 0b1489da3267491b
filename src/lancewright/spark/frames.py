"""Makes Spark frames of Arrow tables that are on the driver already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewright.spark.arrow_types import to_spark_form, to_spark_schema
from lancewright.spark.failures import translate_spark_error

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class SparkFrames:
    """Makes frames of one session, classic or Connect."""

    def __init__(self, spark: SparkSession) -> None:
        """Keep the session; it stays the caller's to stop."""
        self._spark = spark

    def make_frame(self, table: pa.Table) -> DataFrame:
        """A frame with the table's rows, in Spark's types."""
        rows = to_spark_form(table)
        if rows.num_rows == 0:
            rows = rows.schema.empty_table()  # Spark cannot take a list or a struct of no chunk at all
        try:
            return self._spark.createDataFrame(rows, to_spark_schema(rows.schema))
        except Exception as error:
            raise translate_spark_error(error, ()) from error
