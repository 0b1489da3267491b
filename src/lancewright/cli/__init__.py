"""The command line: one command per verb, over the same façade as Python."""

from lancewright.cli.app import app, main

__all__ = ["app", "main"]
