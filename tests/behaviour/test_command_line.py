"""The command line does what the façade does, says what happened, and ends with the documented code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lancewright.cli import main
from support.tables import write_table

if TYPE_CHECKING:
    import lance


@pytest.fixture
def dataset(tmp_path: Path) -> lance.LanceDataset:
    return write_table(str(tmp_path / "table"), fragments=4, rows_per_fragment=100)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run a command in this process; return its exit code, output and errors."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    code, output, _ = run(capsys, *arguments, "--json")
    assert code == 0
    return json.loads(output)


def test_an_index_is_created_listed_and_dropped(
    dataset: lance.LanceDataset, capsys: pytest.CaptureFixture[str]
) -> None:
    created = run_json(capsys, "create-index", dataset.uri, "number", "--kind", "btree", "--local")
    listed = run_json(capsys, "indexes", dataset.uri)
    dropped = run_json(capsys, "drop-index", dataset.uri, "number_idx")

    assert created["indexes"][0]["rows"] == 400
    assert [(index["name"], index["kind"], index["covered_rows"]) for index in listed["indexes"]] == [
        ("number_idx", "btree", 400)
    ]
    assert dropped["segments"] == 1
    assert run_json(capsys, "indexes", dataset.uri)["indexes"] == []


def test_an_index_may_have_several_columns_in_order(
    dataset: lance.LanceDataset, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = ("text", "number")
    where = ("--where", "text = 'nowhere' AND number = 7")

    planned = run_json(capsys, "plan", dataset.uri, *columns, "--kind", "composite", "--local")
    run_json(
        capsys, "create-index", dataset.uri, "--kind", "composite", *columns, "--name", "both", "--local"
    )
    (listed,) = run_json(capsys, "indexes", dataset.uri)["indexes"]
    (explained,) = run_json(capsys, "explain", dataset.uri, *where)["indexes"]

    assert planned["indexes"][0]["kind"] == "composite"
    assert (listed["name"], listed["columns"]) == ("both", list(columns))
    assert explained["reason"] != "NO_LEADING_KEY"
    assert run_json(capsys, "scan", dataset.uri, *where, "--count", "--local") == {"rows": 0}


def test_rows_are_found_counted_and_explained(
    dataset: lance.LanceDataset, capsys: pytest.CaptureFixture[str]
) -> None:
    run_json(capsys, "create-index", dataset.uri, "number", "--kind", "btree", "--local")
    where = ("--where", "number = 7")

    found = run_json(capsys, "scan", dataset.uri, *where, "--column", "id", "--local")
    counted = run_json(capsys, "scan", dataset.uri, "--where", "id < 150", "--count", "--local")
    explained = run_json(capsys, "explain", dataset.uri, *where, "--analyze")
    _, text, _ = run(capsys, "explain", dataset.uri, *where)

    assert found == {"rows": [{"id": 7}]}
    assert counted == {"rows": 150}
    assert explained["indexes"][0]["index"] == "number_idx"
    assert explained["measured"]["rows"] == 1
    assert "number_idx (btree)" in text


def test_searches_are_explained(dataset: lance.LanceDataset, capsys: pytest.CaptureFixture[str]) -> None:
    run_json(capsys, "create-index", dataset.uri, "text", "--kind", "inverted", "--local")
    width = dataset.schema.field("vector").type.list_size
    vector = ("--vector", json.dumps([0.5] * width))
    words = ("--text", "word", "--text-column", "text", "--k", "3")

    near = run_json(capsys, "explain", dataset.uri, *vector, "--where", "id < 50", "--analyze")
    matched = run_json(capsys, "explain", dataset.uri, *words)
    _, both, _ = run(capsys, "explain", dataset.uri, *vector, *words)
    code, _, error = run(capsys, "explain", dataset.uri, "--vector", "0.5 0.5")
    unread, _, problem = run(capsys, "explain", dataset.uri, "--query", "near")
    unranked, _, refused = run(capsys, "explain", dataset.uri, "--query", '{"near": [4.9, 52.37]}')

    assert near["measured"]["rows"] == 10
    assert near["where"] == "id < 50"
    assert matched["indexes"][0]["reason"] == "USED"
    assert "fuse the 3 best" in both
    assert code != 0
    assert "no JSON array" in error
    assert unread != 0
    assert "no JSON object" in problem
    assert unranked != 0
    assert "ranks by near" in refused


def test_parameters_are_read_as_json_and_reach_the_kind(
    dataset: lance.LanceDataset, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = run_json(
        capsys, "plan", dataset.uri, "number", "--kind", "zonemap", "--param", "rows_per_zone=64", "--local"
    )

    assert plan["indexes"][0]["parameters"] == {"rows_per_zone": 64}


def test_a_plan_writes_nothing(dataset: lance.LanceDataset, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(Path(dataset.uri).rglob("*"))

    code, output, _ = run(capsys, "plan", dataset.uri, "text", "--kind", "fts", "--local")

    assert code == 0
    assert "inverted" in output
    assert sorted(Path(dataset.uri).rglob("*")) == before


def test_events_are_appended_as_json_lines(
    dataset: lance.LanceDataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "events.jsonl"

    run(capsys, "create-index", dataset.uri, "number", "--local", "--events", str(log))

    names = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert names[0] == "BuildPlanned"
    assert "IndexCommitted" in names


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["indexes", "{uri}-nowhere"], 3, "not found"),
        (["create-index", "{uri}", "nothing", "--local"], 2, "nothing"),
        (["create-index", "{uri}", "number", "--kind", "btre", "--local"], 2, "btree"),
        (["create-index", "{uri}", "number", "--param", "colour=red", "--local"], 2, "zone_size"),
        (["create-index", "{uri}", "number", "--param", "colour", "--local"], 2, "name=value"),
        (
            ["create-index", "{uri}", "vector", "--kind", "ivf_sq", "--segments", "2", "--local"],
            5,
            "one segment",
        ),
        (["drop-index", "{uri}", "nothing"], 3, "nothing"),
        (["no-such-command"], 2, "no-such-command"),
    ],
)
def test_an_error_says_what_happened_and_ends_with_its_code(
    dataset: lance.LanceDataset,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    says: str,
) -> None:
    ended, output, errors = run(capsys, *(part.format(uri=dataset.uri) for part in arguments))

    assert ended == code
    assert output == ""
    assert says in errors


def test_with_json_an_error_is_a_document_too(
    dataset: lance.LanceDataset, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, errors = run(capsys, "drop-index", dataset.uri, "nothing", "--json")

    document = json.loads(errors)
    assert code == 3
    assert document["error"] == "NotFoundError"
    assert document["remedy"]


def test_failed_tasks_are_told_with_their_fragments(
    dataset: lance.LanceDataset, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(dataset.uri, "data", dataset.get_fragment(2).data_files()[0].path).unlink()

    code, output, errors = run(
        capsys, "create-index", dataset.uri, "number", "--local", "--segments", "4", "--json"
    )

    document = json.loads(errors)
    assert (code, output) == (6, "")
    assert (document["error"], document["fragments"]) == ("TasksFailedError", [2])


def test_events_that_cannot_be_written_are_told_before_spark_is_asked(
    dataset: lance.LanceDataset, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["create-index", dataset.uri, "number", "--master", "no-such-master"]

    code, _, errors = run(capsys, *arguments, "--events", "/no/such/folder/events.jsonl")

    assert code == 2
    assert "Cannot append events" in errors


def test_every_kind_is_listed_with_its_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    kinds = {kind["name"]: kind for kind in run_json(capsys, "kinds")["kinds"]}

    # 18 of Lance's own, and those that come with the package; a plugin may be installed besides.
    assert len([kind for kind in kinds.values() if kind["family"] != "plugin"]) == 18
    assert set(kinds) >= {"composite", "interval", "key", "spatial"}
    assert "zone_size" in {parameter["name"] for parameter in kinds["btree"]["parameters"]}


@pytest.mark.spark
def test_workers_run_the_python_of_the_command_and_not_the_one_of_the_path(
    dataset: lance.LanceDataset,
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    environment["PATH"] = os.pathsep.join([str(Path(os.environ["JAVA_HOME"], "bin")), "/usr/bin", "/bin"])
    command = [sys.executable, "-c", "from lancewright.cli import main; main()"]
    command += ["create-index", dataset.uri, "number", "--name", "by_number", "--master", "local[1]"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)

    assert done.returncode == 0, done.stderr


@pytest.mark.spark
def test_the_demo_builds_seven_indexes_and_every_exact_answer_is_the_same(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from lancewright.cli import main; main()"]
    command += ["demo", "--rows", "20000", "--path", str(tmp_path / "demo"), "--master", "local[2]"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert done.returncode == 0, done.stderr
    assert "7 indexes in one call" in done.stdout
    assert re.search(r"^  build +\d+ tasks +[0-9.]+ s$", done.stdout, re.MULTILINE)
    assert "index status_idx (bitmap, exact)" in done.stdout  # our plan
    assert "ScalarIndexQuery" in done.stdout  # Lance's
    assert "og level" not in done.stdout + done.stderr
    assert "log4j" not in done.stdout + done.stderr
    answers = [line for line in done.stdout.splitlines() if " ms " in line]
    assert len(answers) == 6
    assert not any(line.endswith("NO") for line in answers)
