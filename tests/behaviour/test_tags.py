"""A tag names a version, on the branch that has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import lancewright as lw

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t")
    dataset = lance.write_dataset(pa.table({"id": [1]}), uri)
    dataset.tags.create("start", 1)
    dataset.create_branch("dev")
    lance.write_dataset(pa.table({"id": [7]}), f"{uri}/tree/dev", mode="append")
    dataset.tags.create("trial", ("dev", lance.dataset(f"{uri}/tree/dev").version))
    lance.write_dataset(pa.table({"id": [2]}), uri, mode="append")
    return uri


def test_a_scan_reads_the_version_a_tag_names(uri: str) -> None:
    table = lw.open(uri, progress=False)

    assert table.scan(tag="start").to_arrow()["id"].to_pylist() == [1]
    assert table.scan("id > 1", tag="trial").to_arrow()["id"].to_pylist() == [7]


def test_a_tag_that_is_not_there_is_told_with_those_that_are(uri: str) -> None:
    with pytest.raises(lw.NotFoundError, match=r"Tag 'strat' is not in .*start, trial"):
        lw.open(uri, progress=False).scan(tag="strat")


def test_a_tag_and_a_version_together_are_refused(uri: str) -> None:
    with pytest.raises(lw.InvalidRequestError, match=r"version= and tag="):
        lw.open(uri, progress=False).scan(tag="start", version=1)


def test_a_blob_is_read_as_its_bytes_and_an_odd_name_comes_back_without_backticks(tmp_path: Path) -> None:
    field = pa.field("my blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    lance.write_dataset(
        pa.table([pa.array([b"abc", None], pa.large_binary())], schema=pa.schema([field])), tmp_path / "b"
    )

    found = lw.open(str(tmp_path / "b"), progress=False).scan().to_arrow()

    assert found.to_pydict() == {"my blob": [b"abc", None]}
