"""A request that cannot work ends with one error that says what happened and what to do, and changes nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import lancewright as lw
from lancewright.build.spec import BuildSettings, BuildWork, IndexSpec
from lancewright.build.worker import build_index_segment
from lancewright.observe.sinks import MemorySink
from lancewright.table.lance_compat import require_lance
from lancewright.table.location import table_ref
from support.build_program import outcome, start
from support.busy_table import busy_table
from support.runners import UnusedRunner
from support.traces import listing, scratch

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = 65534


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(busy_table(str(tmp_path / "table"), fragments=3).uri)


@pytest.fixture
def readable_folder() -> Iterator[Path]:
    """A folder that every user of this machine may look into."""
    folder = Path(tempfile.mkdtemp(prefix="lancewright-test-"))
    folder.chmod(0o755)
    yield folder
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755)
    shutil.rmtree(folder)


REQUESTS: list[tuple[dict[str, Any], type[lw.LancewrightError], str, str]] = [
    (
        {"column": "price"},
        lw.InvalidRequestError,
        "'price' is not in the table",
        "Use one of: id, other, number",
    ),
    ({"column": "number.x"}, lw.InvalidRequestError, "not in the table", "Use one of"),
    ({"kind": "btre"}, lw.InvalidRequestError, "no index kind 'btre'", "Did you mean 'btree'"),
    ({"zone": 3}, lw.InvalidRequestError, "zone", "zone_size"),
    ({"zone_size": 0}, lw.InvalidRequestError, "zone_size", "1"),
    ({"zone_size": "many"}, lw.InvalidRequestError, "must be int", "Rows per page"),
    ({"column": "vector"}, lw.InvalidRequestError, "vector", ""),
    ({"column": "number", "kind": "ngram"}, lw.InvalidRequestError, "number", ""),
    ({"column": "number", "kind": "label_list"}, lw.InvalidRequestError, "number", ""),
    ({"column": "text", "kind": "ivf_pq"}, lw.InvalidRequestError, "text", ""),
    (
        {"column": "vector", "kind": "ivf_pq", "num_sub_vectors": 7},
        lw.InvalidRequestError,
        "num_sub_vectors",
        "",
    ),
    ({"column": "vector", "kind": "ivf_sq", "segments": 2}, lw.UnsupportedError, "one segment", "segments="),
    ({"name": "theirs"}, lw.InvalidRequestError, "named 'theirs' already exists", "replace=True"),
    ({"name": ""}, lw.InvalidRequestError, "cannot be the name", ""),
    ({"name": "__lance_mine"}, lw.InvalidRequestError, "cannot be the name", "__lance"),
    ({"name": "../up"}, lw.InvalidRequestError, "cannot be the name", ""),
    ({"segments": 0}, lw.InvalidRequestError, "segments=0", "one segment or more"),
]


@pytest.mark.parametrize(
    ("changes", "error", "problem", "remedy"),
    REQUESTS,
    ids=["-".join(map(str, r[0].items())) for r in REQUESTS],
)
def test_a_wrong_request_is_refused_before_any_task_and_nothing_is_written(
    uri: str, changes: dict[str, Any], error: type[lw.LancewrightError], problem: str, remedy: str
) -> None:
    before, sink = listing(uri), MemorySink()
    request = {"column": "number", "kind": "btree", **changes}
    table = lw.open(uri, runner=UnusedRunner(), sink=sink, progress=False)

    with pytest.raises(error) as refusal:
        table.create_index(request.pop("column"), **request)

    assert problem in refusal.value.problem
    assert remedy in refusal.value.remedy
    assert refusal.value.remedy
    assert listing(uri) == before
    assert list(sink.events) == []


def test_of_several_requests_one_wrong_one_refuses_all(uri: str) -> None:
    before = listing(uri)
    requests = [
        lw.IndexRequest(column="number", kind="btree", name="one"),
        lw.IndexRequest(column="price", kind="btree", name="two"),
    ]

    with pytest.raises(lw.InvalidRequestError, match="price"):
        lw.open(uri, runner=UnusedRunner(), progress=False).create_indexes(requests)

    assert listing(uri) == before


@pytest.mark.parametrize("requests", [None, 7, "number", [None], [{"column": "number", "kind": "btree"}], []])
def test_what_is_no_list_of_requests_is_refused(uri: str, requests: Any) -> None:
    with pytest.raises(lw.InvalidRequestError, match="IndexRequest"):
        lw.open(uri, runner=UnusedRunner(), progress=False).create_indexes(requests)


def test_requests_may_come_out_of_a_generator(uri: str) -> None:
    requests = (lw.IndexRequest(column=column, kind="btree") for column in ("number", "other"))

    receipt = lw.open(uri, progress=False).create_indexes(requests)

    assert [(entry.name, entry.created) for entry in receipt.indexes] == [
        ("number_idx", True),
        ("other_idx", True),
    ]


def test_what_is_no_session_is_told_before_anything_is_asked_of_it(uri: str) -> None:
    with pytest.raises(lw.InvalidRequestError, match=r"spark= is a str.*SparkSession"):
        lw.open(uri, spark="local[2]")


def test_a_table_that_went_away_can_still_be_printed(uri: str) -> None:
    table = lw.open(uri, progress=False)
    shutil.rmtree(uri)

    assert "not found" in repr(table)


def test_an_empty_table_is_refused_with_the_way_to_declare_an_index(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"id": pa.array([], pa.int64())}), uri)
    before = listing(uri)

    with pytest.raises(lw.InvalidRequestError, match=r"no rows to index.*train=False"):
        lw.open(uri, runner=UnusedRunner(), progress=False).create_index("id", kind="btree")

    assert listing(uri) == before


def test_a_table_that_is_not_there_is_told_when_it_is_opened(tmp_path: Path) -> None:
    with pytest.raises(lw.NotFoundError, match="absent"):
        lw.open(str(tmp_path / "absent"), runner=UnusedRunner())

    assert listing(str(tmp_path)) == []


def test_a_location_that_may_only_be_read_is_told_before_any_task(readable_folder: Path) -> None:
    uri = str(readable_folder / "table")
    busy_table(uri, fragments=3)
    before = listing(uri)
    for folder in [Path(uri), *(path for path in Path(uri).rglob("*") if path.is_dir())]:
        folder.chmod(0o555)
    user = {"user": NOBODY} if os.getuid() == 0 else {}

    end = outcome(start(uri=uri, column="number", kind="btree", name="ours", unused_runner=True, **user))

    assert end["error"] == "InvalidRequestError"
    assert "denied" in end["problem"].lower()
    assert "write" in end["remedy"]
    assert listing(uri) == before


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_commit_that_is_denied_leaves_nothing_of_the_finished_work(readable_folder: Path) -> None:
    uri = str(readable_folder / "table")
    busy_table(uri, fragments=3)
    before = listing(uri)
    for folder in [Path(uri), *(path for path in Path(uri).rglob("*") if path.is_dir())]:
        folder.chmod(0o555 if folder.name == "_versions" else 0o777)

    end = outcome(start(uri=uri, column="number", kind="btree", name="ours", user=NOBODY))

    assert end["error"] == "InvalidRequestError"
    assert "commit an index to" in end["problem"]
    left = [path for path in listing(uri) if path not in before]
    assert [path for path in left if not path.startswith("_transactions/")] == []


def test_a_pylance_that_is_too_old_is_told_with_the_command_that_helps() -> None:
    with pytest.raises(lw.UnsupportedError, match=r"pylance 13\.0\.0 is installed.*pip install 'pylance>=14"):
        require_lance("13.0.0")


def test_a_pylance_from_before_what_we_import_is_told_like_any_other(tmp_path: Path) -> None:
    old = tmp_path / "lance"
    old.mkdir()
    for module in ("dataset", "file"):
        (old / f"{module}.py").write_text("")
    (old / "commit.py").write_text("class CommitConflictError(Exception): ...")
    (old / "__init__.py").write_text("__version__ = '0.30.0'")
    paths = [str(tmp_path), str(Path(lw.__file__).parents[1])]

    ended = subprocess.run(
        [sys.executable, "-c", "import lancewright as lw; lw.open('nothing')"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 1
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith("lancewright.errors.UnsupportedError: pylance 0.30.0 is installed")
    assert "pip install 'pylance>=14" in last


@pytest.mark.parametrize("name", ["a`b", "``"])
def test_a_name_that_lance_cannot_index_is_told_before_any_task(tmp_path: Path, name: str) -> None:
    uri = str(tmp_path / "table")
    struct = pa.array([{name: 1}] * 3)
    lance.write_dataset(pa.table({"id": [1, 2, 3], name: [1, 2, 3], "struct": struct}), uri)
    before, table = listing(uri), lw.open(uri, runner=UnusedRunner(), progress=False)
    quoted = "`" + name.replace("`", "``") + "`"

    for column in (quoted, f"struct.{quoted}"):
        with pytest.raises(lw.UnsupportedError, match=r"backtick.*alter_columns"):
            table.create_index(column, kind="btree")

    assert listing(uri) == before


def test_what_is_no_number_of_a_version_is_told_in_our_words(uri: str) -> None:
    table = lw.open(uri, progress=False)

    for ask in (table.snapshot, table.indexes):
        with pytest.raises(lw.InvalidRequestError, match=r"version=-1.*whole number"):
            ask(-1)


@pytest.mark.parametrize("flag", ["resume", "dry_run"])
def test_a_flag_that_is_no_flag_is_not_believed(uri: str, flag: str) -> None:
    before, options = listing(uri), {flag: "no"}

    with pytest.raises(lw.InvalidRequestError, match=f"{flag}='no' is a str"):
        lw.open(uri, runner=UnusedRunner(), progress=False).create_index("number", kind="btree", **options)

    assert listing(uri) == before


def test_an_attempt_that_ends_after_its_build_takes_its_segment_away(uri: str) -> None:
    table = table_ref(uri)
    snapshot = lw.open(uri, progress=False).snapshot()
    spec = IndexSpec(name="late", kind="btree", column=snapshot.columns["number",], parameters_json="{}")
    settings = BuildSettings(
        table=table.pinned(snapshot.version), specs=(spec,), folder="_lancewright/builds/gone"
    )

    with pytest.raises(lw.ConflictError, match="ended before this task did"):
        build_index_segment(settings, BuildWork(task_id="t", spec_number=0, fragments=(0, 1), rows=200))

    assert scratch(uri) == []
