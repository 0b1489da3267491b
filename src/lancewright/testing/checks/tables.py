"""On real tables: whatever happens to the table, an index answers as a full scan does."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from lancewright.testing.expecting import expect
from lancewright.testing.model import ToyTable, registered

if TYPE_CHECKING:
    from lancewright.testing.laboratory import Laboratory

_STEPS = 10
_QUESTIONS = 6


def check_a_table_with_row_addresses_is_answered_through_its_life(laboratory: Laboratory) -> None:
    """Append, delete, update and compact, in any order."""
    _live(laboratory, stable_row_ids=False)


def check_a_table_with_stable_row_ids_is_answered_through_its_life(laboratory: Laboratory) -> None:
    """The same, where rows keep their ids when they move."""
    _live(laboratory, stable_row_ids=True)


def _live(laboratory: Laboratory, *, stable_row_ids: bool) -> None:
    if not laboratory.harness.filters:
        return
    case = laboratory.harness.cases[len(laboratory.harness.cases) // 2]
    with registered(laboratory), TemporaryDirectory(prefix="lancewright-kit-") as folder:
        table = ToyTable(folder, laboratory, case, stable_row_ids=stable_row_ids)
        table.build()
        for _ in range(_STEPS):
            done = table.change()
            for _ in range(_QUESTIONS):
                group = laboratory.group(case)
                found, wanted = table.answers(group)
                expect(found == wanted, f"after {done} the rows of {group} are those of a scan")
