"""What shows itself as tables: text at a prompt, HTML in a notebook, colours on a rich console."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewright.report import tables

if TYPE_CHECKING:
    from rich.console import Group


class Shown:
    """Mixed into a value that says which tables show it."""

    __slots__ = ()

    def _grids(self) -> tuple[tables.Grid, ...]:
        raise NotImplementedError

    def __repr__(self) -> str:
        """Show it as text."""
        return "\n\n".join(tables.render_text(grid) for grid in self._grids())

    def _repr_html_(self) -> str:
        return "".join(tables.render_html(grid) for grid in self._grids())

    def __rich__(self) -> Group:
        """Show it on a rich console."""
        return tables.render_rich_all(self._grids())
