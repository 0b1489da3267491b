"""One process of several on one table, for so many seconds: a writer of its own rows, or a maintainer. Leaves what became of it in a file beside the table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np

import lancewright as lw
from lancewright.table.lance_compat import is_commit_conflict
from support.busy_table import NEW, busy_rows

ROWS_PER_APPEND = 40
POLICY = {"rows_per_fragment": 400, "older_than": timedelta(seconds=30), "orphan_age": timedelta(seconds=60)}


def start(role: str, uri: str, number: int, seconds: float) -> subprocess.Popen[bytes]:
    """Start a process in the background."""
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        [sys.executable, __file__, role, uri, str(number), str(seconds)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stdout=subprocess.DEVNULL,
        stderr=Path(f"{uri}.{role}{number}.err").open("w"),
    )


def outcome(process: subprocess.Popen[bytes], timeout_s: float) -> dict[str, Any]:
    """Wait for its end and return what it left."""
    process.wait(timeout=timeout_s)
    assert isinstance(process.args, list)
    _, _, role, uri, number, _ = process.args
    assert process.returncode == 0, Path(f"{uri}.{role}{number}.err").read_text()[-4000:]
    return dict(json.loads(Path(f"{uri}.{role}{number}.json").read_text()))


def write(uri: str, number: int, seconds: float) -> dict[str, Any]:
    """Append, delete and update rows nobody else touches; the ids that are left, with the generation of their values."""
    random = np.random.default_rng(number)
    first = 1_000_000 * (number + 1)
    rows: dict[int, int] = {}
    conflicts = commits = 0
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        act = random.choice(["append", "append", "delete", "update"]) if rows else "append"
        try:
            first = _act(uri, str(act), rows, first, random)
        except Exception as error:
            if not is_commit_conflict(error):
                raise
            conflicts += 1
        else:
            commits += 1
        time.sleep(0.05)
    return {"rows": rows, "commits": commits, "conflicts": conflicts}


def _act(uri: str, act: str, rows: dict[int, int], first: int, random: np.random.Generator) -> int:
    if act == "append":
        fresh = range(first, first + ROWS_PER_APPEND)
        lance.write_dataset(busy_rows(fresh), uri, mode="append")
        rows.update(dict.fromkeys(fresh, 0))
        return first + ROWS_PER_APPEND
    picked = sorted(int(id_) for id_ in random.choice(sorted(rows), min(len(rows), 15), replace=False))
    dataset = lance.dataset(uri)
    if act == "delete":
        dataset.delete(f"id IN ({', '.join(map(str, picked))})")
        for id_ in picked:
            del rows[id_]
    else:
        values = busy_rows(picked, NEW)
        dataset.merge_insert("id").when_matched_update_all().execute(values)
        rows.update(dict.fromkeys(picked, 1))
    return first


def maintain(uri: str, _number: int, seconds: float) -> dict[str, Any]:
    """Maintain the table again and again; the errors of steps, and how often a step did something."""
    errors: dict[str, int] = {}
    done: dict[str, int] = {}
    told: list[str] = []
    ends = time.monotonic() + seconds
    table = lw.open(uri, progress=False)
    while time.monotonic() < ends:
        for step in table.maintain(lw.Policy(**POLICY, thorough_every=timedelta(seconds=3))).steps:
            if step.error is not None:
                errors[step.error] = errors.get(step.error, 0) + 1
                told.append(step.told)
            elif step.outcome == "done":
                done[step.verb] = done.get(step.verb, 0) + 1
    return {"errors": errors, "told": told[:20], "done": done}


if __name__ == "__main__":
    role, uri, number, seconds = sys.argv[1:]
    result = {"writer": write, "maintainer": maintain}[role](uri, int(number), float(seconds))
    # Not through a pipe: one that nobody reads yet is full after some thousand rows.
    Path(f"{uri}.{role}{number}.json").write_text(json.dumps(result))
