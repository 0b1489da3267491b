"""Table functions of a session as Python UDTFs: analysed on the driver, answered in one task.

What Spark allows: ``analyze`` sees the constants of a call and says the schema; ``eval`` runs in one Python worker and can start no
job. So a function that is called through Spark answers rightly and alone; ``lw.sql`` hands the same call to executors instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from lancewright.errors import InvalidRequestError
from lancewright.spark.arrow_types import spark_arrow_schema, to_spark_form, to_spark_schema
from lancewright.spark.worker_process import freeze_imports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFunction:
    """One function: what it does before a query runs, and in its task. Both are top-level functions or partials of them.

    ``plan`` takes the positional and the named constants of a call and gives the schema of its rows and what the task needs;
    ``run`` takes that, and gives the rows.
    """

    name: str
    plan: Callable[[tuple[Any, ...], dict[str, Any]], tuple[pa.Schema, Any]]  # Any: constants of SQL
    run: Callable[[Any], pa.Table]  # Any: what the plan gave


@dataclass
class _Analyzed(AnalyzeResult):
    """The schema, and what the task needs; Spark carries it from ``analyze`` to the task."""

    payload: Any = None  # Any: see SessionFunction


def register_function(spark: SparkSession, function: SessionFunction) -> None:
    """Register a function with a session, classic or Connect."""
    handler = _make_handler(function)
    # Each kind of session takes functions of its own kind only, and a process may hold both.
    if "connect" in type(spark).__module__:
        from pyspark.sql.connect.functions import builtin

        spark.udtf.register(function.name, builtin.udtf(handler))  # type: ignore[arg-type] # its own kind, see above
    else:
        from pyspark.sql import functions

        spark.udtf.register(function.name, functions.udtf(handler))  # type: ignore[arg-type] # never a decorator here


def _make_handler(function: SessionFunction) -> type:
    """A class that travels by value, with what is bound to it."""

    class Handler:
        def __init__(self, analyzed: _Analyzed) -> None:
            self._analyzed = analyzed

        @staticmethod
        def analyze(*positional: AnalyzeArgument, **named: AnalyzeArgument) -> AnalyzeResult:
            return analyze_call(function, positional, named)

        def eval(self, *_positional: Any, **_named: Any) -> Iterator[Any]:
            yield from run_call(function, self._analyzed)

    Handler.__module__ = "__main__"
    Handler.__name__ = Handler.__qualname__ = function.name
    return Handler


def analyze_call(
    function: SessionFunction, positional: tuple[AnalyzeArgument, ...], named: dict[str, AnalyzeArgument]
) -> AnalyzeResult:
    """Run on the driver, when Spark analyses a query: the schema of the rows, and the plan."""
    schema, payload = function.plan(
        tuple(_constant(function, argument) for argument in positional),
        {name.lower(): _constant(function, argument) for name, argument in named.items()},
    )
    return _Analyzed(schema=to_spark_schema(spark_arrow_schema(schema)), payload=payload)


def run_call(function: SessionFunction, analyzed: _Analyzed) -> Iterator[Any]:
    """Run on an executor, in one task: the rows."""
    freeze_imports()
    rows = to_spark_form(function.run(analyzed.payload))
    yield from ArrowTableToRowsConversion.convert(rows, analyzed.schema)


def _constant(function: SessionFunction, argument: AnalyzeArgument) -> Any:  # Any: a constant of SQL
    if argument.isTable or not argument.isConstantExpression:
        raise InvalidRequestError(
            f"{function.name} is given a column or a table", "Give it constants: its columns depend on them."
        )
    return argument.value
