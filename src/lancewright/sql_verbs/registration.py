"""Makes lancewright known to a Spark session: the data source, and the table functions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lancewright.spark.registration import register_source
from lancewright.sql_verbs.functions import FunctionCall, answer_call, list_functions, pin_call

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa


def register(
    spark: Any,  # Any: a classic or a Connect session, which share no public base
    *,
    storage_options: Mapping[str, str] | None = None,
) -> None:
    """Make the data source ``lancewright`` and the table functions known to a session.

    ``storage_options`` reach every table the session reads; given here, no query has to name them.
    """
    from lancewright.spark.table_functions import SessionFunction, register_function

    options = dict(storage_options or {})
    register_source(spark, options)
    for name in list_functions():
        function = SessionFunction(name=name, plan=partial(plan_function, name, options), run=run_function)
        register_function(spark, function)


def plan_function(
    name: str,
    storage_options: Mapping[str, str],
    positional: tuple[Any, ...],  # Any: constants of SQL
    named: Mapping[str, Any],
) -> tuple[pa.Schema, FunctionCall]:
    """Check a call, pin its table, and say what its rows look like."""
    call = FunctionCall(function=name, positional=positional, named=named, storage_options=storage_options)
    pinned = pin_call(call)
    return answer_call(pinned).schema(), pinned


def run_function(call: FunctionCall) -> pa.Table:
    """Answer a call in this process."""
    return answer_call(call).to_arrow()
