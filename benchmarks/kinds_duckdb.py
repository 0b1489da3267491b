"""DuckDB beside ``benchmarks.kinds``: the same rows in a file of its own, with the index it has for them.

DuckDB is for this benchmark alone: ``pip install duckdb``. Without it the other contenders run, and it is said that it is missing.
"""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import lance

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import pyarrow as pa

_REPEATS = 5


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A Lance table, what DuckDB takes of it, and its queries by name: what follows ``SELECT id FROM rows``.

    ``index`` follows ``CREATE INDEX … ON rows``. ``made`` is how a column of the index is made of the others, ``tables`` are joined.
    """

    name: str
    uri: str
    columns: tuple[str, ...]
    index: str
    queries: Mapping[str, str]
    made: str = ""
    extension: str = ""
    tables: Mapping[str, pa.Table] = field(default_factory=dict)


def duckdb_beside(folder: Path, asked: Asked) -> dict[str, Callable[[str], tuple[float, int] | None]]:
    """DuckDB as one who answers beside; nobody when it or its extension is not there."""
    try:
        import duckdb
    except ImportError:
        print("          DuckDB is not installed, so it is left out: pip install duckdb")
        return {}
    if asked.extension:
        try:
            duckdb.connect().execute(f"INSTALL {asked.extension}; LOAD {asked.extension}")
        except duckdb.Error as error:
            print(f"          DuckDB's extension {asked.extension} is left out: {str(error).splitlines()[0]}")
            return {}
    return {"DuckDB": _asking(duckdb, folder, asked)}


def _asking(
    duckdb: Any, folder: Path, asked: Asked
) -> Callable[[str], tuple[float, int] | None]:  # Any: a module that need not be there
    @cache
    def load() -> Any:
        path = folder / f"{asked.name}.duckdb"
        there = path.exists()
        connection = duckdb.connect(str(path), config={"threads": os.cpu_count()})
        if asked.extension:
            connection.execute(f"LOAD {asked.extension}")
        if not there:
            _fill(connection, asked)
        for name, rows in asked.tables.items():
            connection.register(name, rows)
        return connection

    def ask(query: str) -> tuple[float, int] | None:
        if query not in asked.queries:
            return None
        connection, found, times = load(), 0, []
        sql = f"SELECT id FROM rows {asked.queries[query]}"  # noqa: S608  queries are our own
        for _ in range(_REPEATS):
            started = time.perf_counter()
            found = connection.sql(sql).to_arrow_table().num_rows
            times.append(time.perf_counter() - started)
        return statistics.median(times), found

    return ask


def _fill(connection: Any, asked: Asked) -> None:  # Any: see _asking
    scanner = lance.dataset(asked.uri).scanner(columns=list(asked.columns))
    connection.register("given", scanner.to_reader())
    started = time.perf_counter()
    connection.execute(f"CREATE TABLE rows AS SELECT *{asked.made} FROM given")  # noqa: S608  our own text
    filled = time.perf_counter()
    connection.execute(f"CREATE INDEX asked ON rows {asked.index}")
    print(
        f"          DuckDB takes {filled - started:.1f} s for the rows and {time.perf_counter() - filled:.1f} s for its index"
    )
