"""The documentation is executed, complete and free of what does not belong in it."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import textwrap
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path

import pytest
import typer

import lancewright
from lancewright import cli, errors, upkeep
from lancewright.build.drop import DropReceipt
from lancewright.build.receipt import IndexReceipt
from lancewright.maintain.catch_up import CaughtUpIndex
from lancewright.maintain.checks.findings import Finding, Recall
from lancewright.maintain.checks.verdict import IndexVerified, SegmentVerified
from lancewright.maintain.gaps import HealthGap
from lancewright.maintain.health import Advice, IndexHealth, SegmentHealth
from lancewright.maintain.maintain import StepReceipt
from lancewright.maintain.maintain_plan import PlannedStep
from lancewright.maintain.merge import MergedIndex
from lancewright.maintain.refresh import RefreshedIndex
from lancewright.maintain.repair import Mended
from lancewright.maintain.strays import Stray
from lancewright.query.explain import Explanation
from lancewright.scans import Scan

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
# A block that cannot run here says so and why on the line above it: `<!-- no-run: needs a cluster -->`.
BLOCK = re.compile(
    r"(?P<skip>^[ ]*<!-- no-run: [^>]+-->\n)?^(?P<indent>[ ]*)```python[^\n]*\n(?P<code>.*?)^(?P=indent)```[ ]*$",
    re.DOTALL | re.MULTILINE,
)
# Written in pieces, so that this file does not name what it looks for.
REGISTRY_HOSTS = re.compile(
    "|".join(
        "".join(parts)
        for parts in (
            ("py", "pi"),
            ("python", "hosted"),
            ("conda", r"\.anaconda"),
            ("repo1", r"\.maven"),
            ("repo", r"\.maven\.apache"),
            ("registry", r"\.npmjs"),
            ("crates", r"\.io"),
        )
    ),
    re.IGNORECASE,
)


# The section of docs/python.md that lists all there is to a value users get.
SECTIONS = (
    ("Table", lancewright.Table),
    ("IndexRequest", lancewright.IndexRequest),
    ("Plan", lancewright.Plan),
    ("Receipt", lancewright.Receipt),
    ("Receipt", IndexReceipt),
    ("Receipt", DropReceipt),
    ("IndexInfo", lancewright.IndexInfo),
    ("Search", lancewright.Search),
    ("Scan", Scan),
    ("Explanation", Explanation),
    ("HealthReport", upkeep.HealthReport),
    ("HealthReport", IndexHealth),
    ("HealthReport", HealthGap),
    ("HealthReport", SegmentHealth),
    ("HealthReport", Advice),
    ("VerifyReport", upkeep.VerifyReport),
    ("VerifyReport", IndexVerified),
    ("VerifyReport", SegmentVerified),
    ("VerifyReport", Finding),
    ("VerifyReport", Recall),
    ("VerifyReport", Mended),
    ("Receipts of upkeep", upkeep.RefreshReport),
    ("Receipts of upkeep", RefreshedIndex),
    ("Receipts of upkeep", upkeep.MergeReport),
    ("Receipts of upkeep", MergedIndex),
    ("Receipts of upkeep", upkeep.CompactReport),
    ("Receipts of upkeep", upkeep.CatchUpReport),
    ("Receipts of upkeep", CaughtUpIndex),
    ("Receipts of upkeep", upkeep.PlannedRefresh),
    ("Receipts of upkeep", upkeep.PlannedMerge),
    ("Receipts of upkeep", upkeep.PlannedCompact),
    ("Receipts of upkeep", upkeep.CleanupReport),
    ("Receipts of upkeep", upkeep.PlannedCleanup),
    ("Receipts of upkeep", Stray),
    ("Policy", lancewright.Policy),
    ("MaintainReport", upkeep.MaintainReport),
    ("MaintainReport", upkeep.PlannedMaintain),
    ("MaintainReport", StepReceipt),
    ("MaintainReport", PlannedStep),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    line: int
    code: str
    runs: bool


def read_blocks(page: Path) -> tuple[Block, ...]:
    text = page.read_text(encoding="utf-8")
    return tuple(
        Block(
            line=text.count("\n", 0, match.start("code")),
            code=textwrap.dedent(match["code"]),
            runs=match["skip"] is None,
        )
        for match in BLOCK.finditer(text)
    )


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def committed_files() -> tuple[Path, ...]:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    return tuple(path for name in listing.stdout.split("\0") if name and (path := ROOT / name).is_file())


def all_docs() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(block.runs for block in read_blocks(page))], ids=page_name
)
def test_the_python_blocks_of_a_page_run_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "documentation"}

    for block in read_blocks(page):
        if block.runs:
            # Blank lines in front make a traceback point at the line of the page.
            code = compile("\n" * block.line + block.code, str(page), "exec")
            exec(code, namespace)  # noqa: S102  executing the page is the test


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_python_block_is_valid_python_even_when_it_is_not_run(page: Path) -> None:
    for block in read_blocks(page):
        ast.parse(block.code, filename=f"{page}:{block.line}")


def test_every_python_fence_is_seen_by_these_tests() -> None:
    for page in PAGES:
        assert page.read_text(encoding="utf-8").count("```python") == len(read_blocks(page)), page


def test_every_public_name_is_documented() -> None:
    docs = all_docs()

    missing = [name for name in lancewright.__all__ if not re.search(rf"\b{re.escape(name)}\b", docs)]

    assert not missing


def public_members(class_: type) -> tuple[str, ...]:
    stated = [field.name for field in fields(class_)] if is_dataclass(class_) else []
    inherited = {name for base in class_.__mro__ if base is not object for name in vars(base)}
    return tuple(sorted(name for name in {*stated, *inherited} if not name.startswith("_")))


def section(title: str) -> str:
    page = (DOCS / "python.md").read_text(encoding="utf-8")
    named = [
        part
        for part in re.split(r"^## ", page, flags=re.MULTILINE)
        if f"`{title}`" in (heading := part.partition("\n")[0]) or heading == title
    ]
    assert len(named) == 1, f"docs/python.md has {len(named)} sections of {title}"
    return named[0]


@pytest.mark.parametrize(("title", "class_"), SECTIONS, ids=lambda value: getattr(value, "__name__", ""))
def test_every_member_of_what_users_get_is_in_its_section_of_the_reference(title: str, class_: type) -> None:
    text = section(title)

    assert [name for name in public_members(class_) if not re.search(rf"`{name}\b", text)] == []


def test_every_verb_of_a_table_has_a_row_in_the_reference() -> None:
    text = section("Table")

    rows = set(re.findall(r"^\| `(\w+)", text, re.MULTILINE))

    assert rows == set(public_members(lancewright.Table))


def test_every_error_is_documented_with_its_exit_code() -> None:
    page = (DOCS / "errors.md").read_text(encoding="utf-8")
    classes = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.LancewrightError)
    ]

    for error in classes:
        assert f"`{error.__name__}`" in page
        if error is not errors.LancewrightError:
            assert re.search(rf"^\| `{error.__name__}` \|.*\| {error.exit_code} \|$", page, re.MULTILINE), (
                error
            )


def test_every_command_and_option_is_documented() -> None:
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    (app,) = {id(value): value for value in vars(cli).values() if isinstance(value, typer.Typer)}.values()
    group = typer.main.get_group(app)

    for name, command in group.commands.items():
        assert f"lancewright {name}" in page
        for parameter in command.params:
            for option in (*parameter.opts, *parameter.secondary_opts):
                assert not option.startswith("--") or option in page, f"{name} {option}"


def test_no_committed_file_names_a_package_registry() -> None:
    # The lock files bind versions to hashes; where the files come from is the business of the machine.
    named = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in committed_files()
        if (match := REGISTRY_HOSTS.search(path.read_text(encoding="utf-8", errors="ignore")))
    ]

    assert not named


def test_every_relative_link_of_the_readme_leads_somewhere() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")

    targets = [target for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in target]

    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_decisions_have_a_number_each_and_are_listed_in_their_index() -> None:
    index = (DOCS / "decisions" / "index.md").read_text(encoding="utf-8")

    pages = [page.name for page in sorted((DOCS / "decisions").glob("0*.md"))]

    assert [name for name in pages if f"({name})" not in index] == []
    assert [name[:4] for name in pages] == [f"{number + 1:04}" for number in range(len(pages))]
