"""The command line's frame: commands, exit codes, and how an error is told. The verbs are the façade's."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lancewright.cli import commands, maintain, upkeep
from lancewright.cli.demo import run_demo
from lancewright.cli.explain import explain
from lancewright.errors import LancewrightError
from lancewright.version import __version__

app = typer.Typer(
    name="lancewright",
    help="Build and drop indexes of Lance tables and query through them, on Spark or in this process.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.callback(invoke_without_command=True)
def _frame(
    version: Annotated[bool | None, typer.Option("--version", help="Print the version and exit.")] = None,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


app.command("create-index")(commands.create_index)
app.command("drop-index")(commands.drop_index)
app.command("indexes")(commands.indexes)
app.command("plan")(commands.plan)
app.command("scan")(commands.scan)
app.command("explain")(explain)
app.command("health")(upkeep.health)
app.command("refresh")(upkeep.refresh)
app.command("merge")(upkeep.merge)
app.command("compact")(upkeep.compact)
app.command("catch-up")(upkeep.catch_up)
app.command("cleanup")(upkeep.cleanup)
app.command("verify")(upkeep.verify)
app.command("maintain")(maintain.maintain)
app.command("policy")(maintain.policy)
app.command("kinds")(commands.kinds)
app.command("demo")(run_demo)


def main(arguments: list[str] | None = None) -> None:
    """Run one command; exit with the code its outcome stands for (see docs/cli.md)."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        app(args=given)
    except LancewrightError as error:
        commands.tell_error(error, as_json="--json" in given)
        sys.exit(error.exit_code)
