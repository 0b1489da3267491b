"""The import order of the folders is what the architecture says."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_room_imports_only_the_rooms_above_it() -> None:
    command = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command; lint_imports_command()",
    ]

    result = subprocess.run([*command, "--no-cache"], cwd=ROOT, capture_output=True, check=False, text=True)

    assert result.returncode == 0, result.stdout + result.stderr


def read_contract() -> list[set[str]]:
    """The layers of the contract, first room first; rooms of one set do not import each other."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = [entry for entry in settings["tool"]["importlinter"]["contracts"] if entry["id"] == "rooms"]
    return [set(re.findall(r"\w+", layer)) for layer in reversed(contract["layers"])]


def read_rooms() -> list[tuple[str, str]]:
    """The rooms of the architecture page and whether they are built, from top to bottom."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^## Rooms$(.*?)^## ", page, re.MULTILINE | re.DOTALL)
    return re.findall(r"^\| `(\w+)(?:/|\.py)` \|.*\| ([^|]+) \|$", table, re.MULTILINE)


def test_the_architecture_lists_the_rooms_in_the_order_of_the_contract() -> None:
    listed = [room for room, _ in read_rooms()]

    taken: list[set[str]] = []
    for layer in read_contract():
        start = sum(map(len, taken))
        taken.append(set(listed[start : start + len(layer)]))

    assert taken == read_contract()
    assert len(listed) == sum(map(len, taken))


def test_the_architecture_says_which_rooms_are_built() -> None:
    folder = ROOT / "src" / "lancewright"
    built = {path.stem for path in folder.iterdir() if path.stem not in {"__init__", "__pycache__", "py"}}

    assert {room for room, state in read_rooms() if state != "planned"} == built
