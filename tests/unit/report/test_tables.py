"""One description, shown as text and as HTML: the same cells, and no name of a table is taken for markup."""

from __future__ import annotations

import html
import io
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import FrozenBitMap
from rich.console import Console

from lancewright.build.plan import BuildPlan, IndexDemand, plan_index
from lancewright.build.receipt import CreateReceipt, IndexReceipt
from lancewright.build.spec import IndexSpec
from lancewright.kinds.registry import find_kind
from lancewright.model.coverage import measure_coverage
from lancewright.report.tables import (
    Grid,
    describe_indexes,
    describe_plan,
    describe_receipt,
    describe_snapshot,
    format_bytes,
    render_html,
    render_rich,
    render_text,
)
from support.values import column, fragment, segment, snapshot

if TYPE_CHECKING:
    from lancewright.model.snapshot import TableSnapshot

WORDS = st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S"]), min_size=1, max_size=12)
HEADINGS = st.text("abc xyz", min_size=1).map(
    lambda text: text.strip().replace(" ", "-") or "x"
)  # ours, not the table's
HOSTILE = [
    "<script>alert(1)</script>",
    "</td></table><img src=x onerror=alert(1)>",
    "a & b",
    "\"'>",
    "[red]name[/red]",
    "[/nonsense]",
    ":smile:",
    "[link=http://x]y[/link]",
]


@st.composite
def _grids(draw: st.DrawFn) -> Grid:
    width = draw(st.integers(1, 5))
    row = st.lists(WORDS, min_size=width, max_size=width).map(tuple)
    headings = st.lists(HEADINGS, min_size=width, max_size=width).map(tuple)
    return Grid(title=draw(WORDS), headings=draw(headings), rows=tuple(draw(st.lists(row, max_size=4))))


class _Cells(HTMLParser):
    """Reads the cells of a table as a browser would."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.cells: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not [name for name, _ in attrs if name != "style"]
        self.tags.append(tag)
        if tag in {"th", "td", "b"}:
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        self.cells[-1] += data


def _cells(grid: Grid) -> list[str]:
    return [grid.title, *grid.headings, *(cell for row in grid.rows for cell in row)]


@given(_grids())
def test_html_shows_exactly_the_cells_of_the_grid(grid: Grid) -> None:
    shown = _Cells(render_html(grid))

    assert shown.cells == _cells(grid)
    assert set(shown.tags) <= {"table", "caption", "b", "thead", "tbody", "tr", "th", "td"}
    assert shown.tags.count("td") == len(grid.headings) * len(grid.rows)


@given(_grids())
def test_text_shows_the_same_cells_in_the_same_order_as_html(grid: Grid) -> None:
    shown = render_text(grid)

    assert shown.split() == _Cells(render_html(grid)).cells


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_looks_like_markup_is_shown_as_it_is(name: str) -> None:
    grid = Grid(title=name, headings=("index", "column"), rows=((name, "b_idx"),))

    assert _Cells(render_html(grid)).cells == _cells(grid)
    assert "<script" not in render_html(grid)
    assert render_text(grid).count(name) == 2


def test_no_line_of_text_ends_in_blanks_nor_is_wider_than_the_page() -> None:
    shown = render_text(Grid(title="t", headings=("a", "b"), rows=(("x" * 400, "y"),)))

    assert all(line == line.rstrip() and len(line) <= 140 for line in shown.splitlines())
    assert shown.count("x") == 400  # folded, not cut


def test_a_terminal_shows_what_the_text_says() -> None:
    grid = Grid(title="Indexes", headings=("index", "rows"), rows=(("a_idx", "1,000"),))
    console = Console(file=io.StringIO(), width=100, force_terminal=True)

    console.print(render_rich(grid))

    assert isinstance(console.file, io.StringIO)
    assert re.sub(r"\x1b\[[0-9;]*m", "", console.file.getvalue()).split() == render_text(grid).split()


# --- what is described ---


def _table(*, hostile: str = "ix") -> TableSnapshot:
    fragments = [fragment(0, 1000), fragment(1, 500, deleted=7), fragment(2, 500), fragment(3, 1)]
    segments = [segment({0, 1, 9}, hostile), segment({2}, hostile, type_url="/example.Custom")]
    return snapshot(fragments, segments, version=12)


def test_an_index_is_described_with_what_it_covers_and_why_not_the_rest() -> None:
    table = _table()
    index = table.indexes[0]

    grid = describe_indexes("Indexes", [(index, measure_coverage(table, index))])

    (row,) = grid.rows
    described = dict(zip(grid.headings, row, strict=True))
    assert (described["index"], described["kind"], described["columns"]) == ("ix", "btree", "id")
    assert (described["segments"], described["size"]) == ("1", "unknown")
    assert (described["covered rows"], described["to scan"]) == ("1,500 (75.0%)", "501")
    assert "/example.Custom is not known" in described["notes"]
    assert "1 fragments gone" in described["notes"]
    assert "2 fragments not indexed, segment skipped" in described["notes"]


def test_an_index_of_an_empty_table_covers_all_of_it() -> None:
    table = snapshot([], [segment(())])

    grid = describe_indexes("Indexes", [(table.indexes[0], measure_coverage(table, table.indexes[0]))])

    assert grid.rows[0][4:6] == ("0 (100.0%)", "0")


def test_a_table_is_described_with_its_version_and_rows() -> None:
    grid = describe_snapshot(_table())

    assert grid.title == "memory  version 12"
    assert grid.rows == (("2,001", "4", "7", "addresses", "ix"),)
    assert describe_snapshot(snapshot([], stable_row_ids=True)).rows == (("0", "0", "0", "stable", "none"),)


def test_a_plan_is_described_with_tasks_sizes_and_memory() -> None:
    table = _table()
    spec = IndexSpec(name="ix", kind="btree", column=column("user id"), parameters_json="{}")
    index = plan_index(
        table, IndexDemand(spec=spec, kind=find_kind("btree"), wanted=FrozenBitMap(table.fragments_by_id)), 1
    )

    grid = describe_plan(BuildPlan(table="memory", version=12, parallelism=4, indexes=(index, index)))

    assert "version 12: 4 tasks, 4 at a time, 4,002 rows" in grid.title
    assert len(grid.rows) == 2
    assert grid.rows[0][:6] == ("ix", "btree", "`user id`", "2", "2,001", "1")
    assert grid.rows[0][6].startswith("~")
    assert grid.rows[0][7].startswith("<")


def test_a_receipt_is_described_with_what_was_made_and_what_was_there() -> None:
    made = IndexReceipt(name="a", kind="btree", created=True, fragments=3, rows=1234567, segments=1)
    kept = IndexReceipt(name="b", kind="fm", created=False, fragments=0, rows=0, segments=0)

    grid = describe_receipt(CreateReceipt(table="t", version=3, rounds=1, seconds=1.26, indexes=(made, kept)))

    assert grid.title == "Built on t  version 3  in 1.3 s"
    assert grid.rows == (
        ("a", "btree", "3", "1,234,567", "1", ""),
        ("b", "fm", "0", "0", "0", "was there already"),
    )


@pytest.mark.parametrize("name", HOSTILE)
def test_an_index_with_a_hostile_name_is_shown_safely(name: str) -> None:
    table = _table(hostile=name)

    shown = render_html(
        describe_indexes("Indexes", [(table.indexes[0], measure_coverage(table, table.indexes[0]))])
    )

    assert html.escape(name) in shown
    assert name in _Cells(shown).cells


# --- sizes ---


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "unknown"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (5 << 20, "5.0 MiB"),
        (5 << 30, "5.0 GiB"),
        (3 << 40, "3.0 TiB"),
        (5000 << 40, "5000.0 TiB"),
    ],
)
def test_a_size_is_shown_in_the_unit_a_person_reads(size: int | None, text: str) -> None:
    assert format_bytes(size) == text


@given(st.integers(0, 1 << 60))
def test_a_shown_size_is_right_to_its_last_digit(size: int) -> None:
    number, unit = format_bytes(size).split()

    scale = 1024 ** ("B", "KiB", "MiB", "GiB", "TiB").index(unit)
    assert abs(float(number) * scale - size) <= 0.051 * scale
    assert unit == "TiB" or float(number) <= 1024
