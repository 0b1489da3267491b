"""The page of what Lance's kinds are trusted for says what the planner goes by."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lancewright.kinds.lance_native.scalar import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).resolve().parents[2] / "docs" / "kinds" / "native.md"


def answers() -> Iterator[str]:
    for kind in KINDS:
        answers = kind.trusted.answers
        for precision in dict.fromkeys(answers.values()):
            conditions = "; ".join(f"`{one}`" for one, its in answers.items() if its is precision)
            yield f"| `{kind.name}` | {precision.replace('_', ' ')} | {conditions} |"


def faults() -> Iterator[str]:
    for kind in KINDS:
        for fault in kind.trusted.faults:
            conditions = "; ".join(sorted(f"`{condition}`" for condition in fault.conditions))
            yield f"| `{kind.name}` | {conditions} | {fault.columns} | {fault.harm} | {fault.cause} |"


@pytest.mark.parametrize(("title", "wanted"), [("answers", answers), ("faults", faults)])
def test_a_table_of_the_page_has_just_the_lines_of_the_list(title: str, wanted: object) -> None:
    assert callable(wanted)
    found = re.search(rf"<!-- {title}:.*?-->\n\n(.*?)\n\n<!-- end -->", PAGE.read_text(), re.DOTALL)

    assert found
    assert found.group(1).splitlines()[2:] == list(wanted())
