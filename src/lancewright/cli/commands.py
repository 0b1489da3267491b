"""The commands: each reads its arguments, calls one method of ``Table`` and prints what came back."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

import lancewright.api as lw
from lancewright.errors import InvalidRequestError, LancewrightError
from lancewright.kinds.registry import AnyKind, list_kinds, list_plugin_kinds
from lancewright.model.request import IndexRequest
from lancewright.observe.sinks import JsonLinesSink
from lancewright.report import documents, tables
from lancewright.spark.session import open_session

if TYPE_CHECKING:
    from collections.abc import Iterator

Uri = Annotated[str, typer.Argument(help="Where the table is: a folder or an object store URI.")]
Keys = Annotated[
    list[str],
    typer.Argument(
        metavar="COLUMN...",
        help="A column, a.b for a field; backticks quote odd names. Several, in order, or an expression, where the kind takes them.",
    ),
]
Kind = Annotated[str, typer.Option("--kind", help="The kind of index: see `lancewright kinds`.")]
Name = Annotated[str | None, typer.Option("--name", help="The index's name; <column>_idx if left out.")]
Parameters = Annotated[list[str] | None, typer.Option("--param", help="A parameter of the kind, NAME=VALUE.")]
Segments = Annotated[int | None, typer.Option("--segments", help="How many segments the index ends with.")]
Replace = Annotated[bool, typer.Option("--replace", help="Build an existing index anew.")]
IfNotExists = Annotated[bool, typer.Option("--if-not-exists", help="Keep an existing index.")]
Train = Annotated[
    bool, typer.Option("--train/--no-train", help="Build over the rows, or make an empty index.")
]
Resume = Annotated[
    bool, typer.Option("--resume/--no-resume", help="Go on with a build that died, or start over.")
]
Branch = Annotated[str | None, typer.Option("--branch", help="The table's branch; main if left out.")]
StorageOptions = Annotated[
    list[str] | None, typer.Option("--storage-option", help="An option of the object store, NAME=VALUE.")
]
Local = Annotated[bool, typer.Option("--local", help="Work in this process, without Spark.")]
Master = Annotated[str, typer.Option("--master", help="Spark's master, or sc://host:port for Spark Connect.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Where = Annotated[str | None, typer.Option("--where", help="A filter, in Lance's SQL.")]
Columns = Annotated[
    list[str] | None, typer.Option("--column", help="A column to return; may be repeated; all if left out.")
]
TableVersion = Annotated[
    int | None, typer.Option("--version", help="A version of the table; the latest if left out.")
]
UseIndexes = Annotated[bool, typer.Option("--indexes/--no-indexes", help="Ask indexes, or scan all rows.")]
Events = Annotated[
    str | None, typer.Option("--events", help="Append every event to this file, as JSON lines.")
]


def create_index(
    uri: Uri,
    columns: Keys,
    kind: Kind = "btree",
    name: Name = None,
    param: Parameters = None,
    segments: Segments = None,
    replace: Replace = False,
    if_not_exists: IfNotExists = False,
    train: Train = True,
    resume: Resume = True,
    branch: Branch = None,
    storage_option: StorageOptions = None,
    local: Local = False,
    master: Master = "local[*]",
    events: Events = None,
    as_json: AsJson = False,
) -> None:
    """Build an index and commit it."""
    request = IndexRequest(
        column=columns,
        kind=kind,
        name=name,
        parameters=read_pairs(param, "--param", as_values=True),
        segments=segments,
        replace=replace,
        if_not_exists=if_not_exists,
        train=train,
    )
    with open_table(
        uri, storage_option, branch, local=local, master=master, events=events, quiet=as_json
    ) as table:
        receipt = table.create_indexes([request], resume=resume)
    print_result(documents.receipt_document(receipt), tables.describe_receipt(receipt), as_json=as_json)


def plan(
    uri: Uri,
    columns: Keys,
    kind: Kind = "btree",
    name: Name = None,
    param: Parameters = None,
    segments: Segments = None,
    replace: Replace = False,
    branch: Branch = None,
    storage_option: StorageOptions = None,
    local: Local = False,
    master: Master = "local[*]",
    as_json: AsJson = False,
) -> None:
    """Show what create-index would do: tasks, rows, bytes, memory. Writes nothing."""
    request = IndexRequest(
        column=columns,
        kind=kind,
        name=name,
        parameters=read_pairs(param, "--param", as_values=True),
        segments=segments,
        replace=replace,
    )
    with open_table(uri, storage_option, branch, local=local, master=master, quiet=True) as table:
        planned = table.plan_indexes([request])
    print_result(documents.plan_document(planned), tables.describe_plan(planned), as_json=as_json)


def drop_index(
    uri: Uri,
    name: Annotated[str, typer.Argument(help="The index's name.")],
    branch: Branch = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Take an index out of the table, whatever its kind."""
    with open_table(uri, storage_option, branch, local=True, quiet=True) as table:
        receipt = table.drop_index(name)
    grid = tables.Grid(
        title=f"Dropped from {receipt.table}  version {receipt.version}",
        headings=("index", "segments"),
        rows=((receipt.index, str(receipt.segments)),),
    )
    print_result(documents.receipt_document(receipt), grid, as_json=as_json)


def indexes(
    uri: Uri,
    branch: Branch = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """List indexes, their segments and what they cover."""
    with open_table(uri, storage_option, branch, local=True, quiet=True) as table:
        snapshot = table.snapshot()
        entries = [(info.state, info.coverage) for info in table.indexes(snapshot.version)]
    title = f"{snapshot.uri}  version {snapshot.version}  {snapshot.rows:,} rows"
    print_result(
        documents.indexes_document(snapshot, entries),
        tables.describe_indexes(title, entries),
        as_json=as_json,
    )


def scan(
    uri: Uri,
    where: Where = None,
    columns: Columns = None,
    limit: Annotated[int, typer.Option("--limit", help="At most so many rows.")] = 20,
    count: Annotated[
        bool, typer.Option("--count", help="Print how many rows there are, of all of them.")
    ] = False,
    use_indexes: UseIndexes = True,
    branch: Branch = None,
    version: TableVersion = None,
    storage_option: StorageOptions = None,
    local: Local = False,
    master: Master = "local[*]",
    as_json: AsJson = False,
) -> None:
    """Print rows for which a filter is TRUE, found through the indexes that help."""
    with open_table(uri, storage_option, branch, local=local, master=master, quiet=True) as table:
        found = table.scan(
            where,
            columns=names_or_none(columns),
            limit=None if count else limit,
            version=version,
            use_indexes=use_indexes,
        )
        if count:
            rows = found.count()
            print_result(
                {"rows": rows},
                tables.Grid(title="", headings=("rows",), rows=((f"{rows:,}",),)),
                as_json=as_json,
            )
            return
        arrow = found.to_arrow()
    print_result({"rows": arrow.to_pylist()}, tables.describe_rows(arrow), as_json=as_json)


def kinds(as_json: AsJson = False) -> None:
    """List the kinds of index and their parameters."""
    known: tuple[AnyKind, ...] = (*list_kinds(), *list_plugin_kinds())
    grid = tables.Grid(
        title="Kinds",
        headings=("kind", "for", "parameters"),
        rows=tuple(
            (kind.name, kind.doc, ", ".join(entry.name for entry in kind.parameters)) for kind in known
        ),
    )
    print_result({"kinds": [documents.kind_document(kind) for kind in known]}, grid, as_json=as_json)


def tell_error(error: LancewrightError, *, as_json: bool) -> None:
    """Print what happened and what to do, on standard error."""
    if as_json:
        typer.echo(json.dumps(documents.error_document(error)), err=True)
    else:
        typer.echo(f"error: {error.problem}", err=True)
        typer.echo(f"  → {error.remedy}", err=True)


@contextmanager
def open_table(
    uri: str,
    storage_options: list[str] | None,
    branch: str | None,
    *,
    local: bool,
    master: str = "local[*]",
    events: str | None = None,
    quiet: bool = False,
) -> Iterator[lw.Table]:
    """Open the table a command is about, on Spark or in this process."""
    options = read_pairs(storage_options, "--storage-option", as_values=False)
    with ExitStack() as opened:
        # A file that cannot be written is told before a cluster is started.
        sink = opened.enter_context(JsonLinesSink(events)) if events else None
        # Before the table is opened: starting a JVM forks, and Lance must not be open in a process that forks.
        spark = None if local else open_session(master)
        if spark is not None:
            opened.callback(spark.stop)
        yield lw.open(uri, spark=spark, storage_options=options, branch=branch, sink=sink, progress=not quiet)


def names_or_none(columns: list[str] | None) -> list[str] | None:
    """The columns named, or None for all."""
    return columns or None


def read_pairs(
    given: list[str] | None, option: str, *, as_values: bool
) -> dict[str, Any]:  # Any: a value may be read as JSON
    """What NAME=VALUE options say, by name."""
    pairs: dict[str, Any] = {}
    for entry in given or []:
        name, equals, text = entry.partition("=")
        if not equals or not name:
            raise InvalidRequestError(f"{option} {name!r} is not NAME=VALUE", f"Write {option} name=value.")
        pairs[name] = _value(text) if as_values else text
    return pairs


def _value(text: str) -> Any:  # Any: whatever the parameter takes; its kind checks it
    try:
        return json.loads(text)
    except ValueError:
        return text


def print_result(document: dict[str, Any], *grids: tables.Grid, as_json: bool) -> None:
    """Print one JSON document, or tables as the output takes them."""
    if as_json:
        typer.echo(json.dumps(document, default=str))
    elif sys.stdout.isatty():
        Console().print(tables.render_rich_all(grids))
    else:
        typer.echo("\n\n".join(tables.render_text(grid) for grid in grids))
