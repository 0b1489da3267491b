"""What depends on the release of pylance: the version check, segments both ways, and foreign errors in our words."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance.commit import CommitConflictError
from lance.optimize import Compaction
from pyroaring import FrozenBitMap

from lancewright.errors import (
    CorruptIndexError,
    InvalidRequestError,
    LancewrightError,
    NotFoundError,
    UnsupportedError,
)
from lancewright.model.index import Segment, SegmentFile
from lancewright.table.lance_compat import (
    is_commit_conflict,
    lance_version,
    redact_text,
    require_lance,
    segment_from_lance,
    segment_stub,
    segment_to_lance,
    translate_error,
)
from lancewright.table.location import table_ref
from lancewright.table.opening import open_dataset
from support.values import segment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLE = table_ref("s3://bucket/t")
RUST = ", /home/runner/work/lance/lance/rust/lance-io/src/object_store.rs:1576:42"
NOBODY = 65534


# --- versions ---


@pytest.mark.parametrize("version", ["14.0.0", "14.0.2", "14", "15.0.0b1", "120.3"])
def test_a_release_as_new_as_the_one_we_measured_is_accepted(version: str) -> None:
    require_lance(version)


@pytest.mark.parametrize("version", ["13.9.9", "0.20.0", "", "unknown", "v14.0.2", "-14", "²14", "²"])
def test_an_older_or_unreadable_release_is_refused_with_the_command_that_mends_it(version: str) -> None:
    with pytest.raises(UnsupportedError, match="pip install 'pylance>=14,<15'") as caught:
        require_lance(version)

    assert f"pylance {version} is installed" in caught.value.problem


def test_the_installed_release_is_accepted() -> None:
    require_lance()
    assert lance_version() == lance.__version__


# --- segments ---


@st.composite
def _segments(draw: st.DrawFn) -> Segment:
    numbers = st.integers(0, 2**31 - 1)
    names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
    return Segment(
        uuid=str(draw(st.uuids())),
        name=draw(names),
        field_ids=tuple(draw(st.lists(numbers, max_size=3))),
        dataset_version=draw(st.integers(0, 2**63)),
        fragments=FrozenBitMap(draw(st.sets(st.integers(0, 2**32 - 1), max_size=9))),
        index_version=draw(numbers),
        type_url=draw(st.sampled_from(["/lance.table.BTreeIndexDetails", "/example.Custom"])),
        details=draw(st.binary(max_size=30)),
        created_at=draw(st.none() | st.datetimes(timezones=st.just(UTC))),
        base_id=draw(st.none() | numbers),
        files=draw(
            st.none()
            | st.lists(st.builds(SegmentFile, path=names, size_bytes=st.integers(0, 2**62)), max_size=3).map(
                tuple
            )
        ),
        covering_field_ids=tuple(draw(st.lists(numbers, max_size=2))),
    )


@given(_segments())
def test_a_segment_comes_back_from_lance_as_it_went(entry: Segment) -> None:
    assert segment_from_lance(segment_to_lance(entry)) == entry


def test_a_date_without_a_zone_is_taken_for_utc() -> None:
    entry = segment({0}, created_at=datetime(2026, 1, 2, 3, 4, 5))  # noqa: DTZ001 - that is the point

    assert segment_to_lance(entry).created_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_segment_that_pylance_built_comes_back_the_same(tmp_path: Path) -> None:
    dataset = lance.write_dataset(pa.table({"a": range(20)}), tmp_path / "t", max_rows_per_file=5)
    index = dataset.create_index_uncommitted("a", "BTREE", name="ix", fragment_ids=[1, 2])

    entry = segment_from_lance(index)
    back = segment_to_lance(entry)

    assert set(entry.covered) == {1, 2}
    assert entry.type_url == "/lance.table.BTreeIndexDetails"
    assert (entry.size_bytes or 0) > 0
    for name in (
        "uuid",
        "name",
        "fields",
        "dataset_version",
        "fragment_ids",
        "index_version",
        "created_at",
        "base_id",
    ):
        assert getattr(back, name) == getattr(index, name), name
    assert tuple(back.index_details) == tuple(index.index_details)
    assert [(file.path, file.size_bytes) for file in back.files] == [
        (f.path, f.size_bytes) for f in index.files
    ]


def test_a_stub_names_the_segment_and_claims_nothing() -> None:
    entry = segment({0, 1})

    stub = segment_stub(entry)

    assert (stub.uuid, stub.name, stub.fragment_ids) == (entry.uuid, entry.name, set())


# --- errors, made by Lance itself ---


def _error_of(action: Any) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever Lance raises
        action()
    return caught.value


@pytest.fixture
def dataset(tmp_path: Path) -> lance.LanceDataset:
    return lance.write_dataset(pa.table({"a": range(10)}), tmp_path / "t")


@pytest.fixture
def private(tmp_path: Path) -> Iterator[Path]:
    """A folder this process cannot enter while the test runs, even when it is root."""
    folder = tmp_path / "private"
    folder.mkdir()
    lance.write_dataset(pa.table({"a": range(10)}), folder / "t")
    for above in [tmp_path, *tmp_path.parents]:
        if above.owner() == folder.owner() and above.stat().st_mode & 0o77 == 0:
            above.chmod(0o755)  # pytest closes its folders to others
    folder.chmod(0 if os.geteuid() else 0o700)
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    yield folder
    if user == 0:
        os.seteuid(user)
    folder.chmod(0o755)


@pytest.mark.parametrize(
    "name", ["t", "t403", "401", "forbidden", "credentials", "not supported", "timed out"]
)
def test_a_missing_table_is_not_found_whatever_it_is_called(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotFoundError, match="not found") as caught:
        open_dataset(table_ref(str(tmp_path / name)))

    assert str(tmp_path / name) in caught.value.problem
    assert "create the table" in caught.value.remedy
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("version", [403, 999])
def test_a_missing_version_is_not_found(dataset: lance.LanceDataset, version: int) -> None:
    with pytest.raises(NotFoundError, match=r"not found.*Check the version: a cleanup"):
        open_dataset(table_ref(dataset.uri, version=version))


def test_a_missing_branch_is_not_found(dataset: lance.LanceDataset) -> None:
    with pytest.raises(NotFoundError, match="tree/nope"):
        open_dataset(table_ref(dataset.uri, branch="nope"))


def test_a_file_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")

    with pytest.raises(NotFoundError):
        open_dataset(table_ref(str(tmp_path / "file")))


def test_a_folder_that_may_not_be_read_is_a_matter_of_permissions(private: Path) -> None:
    with pytest.raises(InvalidRequestError, match="access was denied") as caught:
        open_dataset(table_ref(str(private / "t")))

    assert "credentials" in caught.value.remedy


def test_a_damaged_manifest_is_corrupt(dataset: lance.LanceDataset, tmp_path: Path) -> None:
    for manifest in (tmp_path / "t" / "_versions").glob("*.manifest"):
        manifest.write_bytes(b"garbage")

    with pytest.raises(CorruptIndexError, match="earlier version"):
        open_dataset(table_ref(dataset.uri))


def test_a_scheme_lance_does_not_know_is_a_mistake_in_the_call() -> None:
    with pytest.raises(InvalidRequestError, match="foo"):
        open_dataset(table_ref("foo://bucket/t"))


def test_a_store_that_does_not_answer_is_no_reason_to_rebuild_anything() -> None:
    options = {
        "aws_endpoint": "http://127.0.0.1:9",
        "allow_http": "true",
        "aws_access_key_id": "AKIAEXAMPLE",
        "aws_secret_access_key": "hidden-value",
        "client_max_retries": "0",
        "retry_timeout": "1",
    }

    with pytest.raises(LancewrightError, match="did not answer") as caught:
        open_dataset(table_ref("s3://bucket/t", storage_options=options))

    assert not isinstance(
        caught.value, InvalidRequestError | CorruptIndexError
    )  # it is worth another attempt
    assert "rebuild" not in caught.value.remedy


def test_a_conflict_between_two_index_commits_is_known(dataset: lance.LanceDataset) -> None:
    stale = lance.dataset(dataset.uri)
    dataset.create_scalar_index("a", "BTREE", name="ix")

    error = _error_of(lambda: stale.create_scalar_index("a", "BITMAP", name="ix"))

    assert is_commit_conflict(error)


def test_a_conflict_with_a_compaction_is_known_though_it_has_no_class_of_its_own(tmp_path: Path) -> None:
    dataset = lance.write_dataset(pa.table({"a": range(10)}), tmp_path / "small", max_rows_per_file=5)
    plan = Compaction.plan(dataset, {"target_rows_per_fragment": 10})
    results = [task.execute(dataset) for task in plan.tasks]
    dataset.create_scalar_index("a", "BTREE", name="ix")

    error = _error_of(lambda: Compaction.commit(dataset, results))

    assert is_commit_conflict(error)


def test_a_full_disk_is_no_conflict() -> None:
    assert is_commit_conflict(CommitConflictError("anything"))
    assert not is_commit_conflict(OSError("No space left on device"))


def test_a_conflict_is_known_in_a_process_that_never_saw_one() -> None:
    script = "from lancewright.table.lance_compat import is_commit_conflict; print(is_commit_conflict(OSError('x')))"

    result = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, text=True)

    assert result.stdout.strip() == "False", result.stderr


@pytest.mark.parametrize(
    ("text", "class_"),
    [
        (
            "Server returned non-2xx status code: 403 Forbidden: <Error><Code>InvalidAccessKeyId</Code>",
            InvalidRequestError,
        ),
        ("Generic S3 error: status: 401 Unauthorized", InvalidRequestError),
        ("<Code>SignatureDoesNotMatch</Code>", InvalidRequestError),
        ("<Code>ExpiredToken</Code><Message>The provided token has expired.</Message>", InvalidRequestError),
        ("<Code>AccessDenied</Code>", InvalidRequestError),
        ("The operation lacked valid authentication credentials for path t", InvalidRequestError),
        ("no providers in chain provided credentials", InvalidRequestError),
        ("Failed to load AWS credentials", InvalidRequestError),
        ("LanceError(IO): Permission denied (os error 13)", InvalidRequestError),
        ("LanceError(IO): Operation not permitted (os error 1)", InvalidRequestError),
        ("Read-only file system (os error 30)", InvalidRequestError),
        ("Column credential does not exist", NotFoundError),
        ("Not found: t/data/0110.lance", NotFoundError),
        (
            "Invalid user input: file does not appear to be a Lance file (invalid magic: [0])",
            CorruptIndexError,
        ),
        ("<Code>NoSuchBucket</Code>", NotFoundError),
        ("Not found: t/403/_versions", NotFoundError),
        ("LanceError(IO): Not supported: Map data type is not enabled", UnsupportedError),
        ("LanceError(IO): 4013 bytes expected, 4010 found", CorruptIndexError),
        ("", LancewrightError),
    ],
)
def test_a_message_of_a_store_becomes_the_class_that_says_what_to_do(
    text: str, class_: type[LancewrightError]
) -> None:
    error = translate_error(OSError(text + RUST), TABLE, "open")

    assert type(error) is class_
    assert error.problem.startswith("Could not open s3://bucket/t")
    assert error.remedy


def test_places_in_the_source_of_lance_are_left_out() -> None:
    error = translate_error(OSError(f"Not found: x{RUST}{RUST}"), TABLE, "open")

    assert "/home/runner" not in str(error)


def test_an_error_without_words_is_named_by_its_class() -> None:
    assert "MemoryError" in translate_error(MemoryError(), TABLE, "read").problem


# --- redaction ---


@given(st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=8, max_size=30))
def test_no_credential_gets_into_a_message_neither_plain_nor_quoted(secret: str) -> None:
    if secret.lower() in {"true", "false"}:
        return
    table = table_ref("s3://bucket/t", storage_options={"aws_secret_access_key": secret})

    assert redact_text(f"plain {secret} end", table).startswith("plain …")
    assert redact_text(f"quoted {quote(secret, safe='')} end", table).startswith("quoted …")
    assert secret not in redact_text(f"{secret} {quote(secret, safe='')} {secret}", table)


@pytest.mark.parametrize(
    "text",
    [
        "GET https://bucket.s3.amazonaws.com/t?X-Amz-Signature=SECRET&list-type=2",
        "GET https://bucket.s3.amazonaws.com/t?list-type=2&X-Amz-Credential=SECRET",
        "GET https://account.blob.core.windows.net/t?sv=2020&sig=SECRET'",
    ],
)
def test_the_signature_of_a_request_is_removed_and_the_rest_kept(text: str) -> None:
    shown = redact_text(text, TABLE)

    assert "SECRET" not in shown
    assert text.partition("?")[0] in shown


def test_the_uri_of_a_message_becomes_the_printable_name() -> None:
    table = table_ref(
        "s3://user:the-password@bucket/t?sig=the-signature", storage_options={"region": "eu-west-1"}
    )

    shown = redact_text(f"no {table.root_uri} in eu-west-1: the-password, sig=the-signature", table)

    assert shown == "no s3://…@bucket/t?… in eu-west-1: …, …"


def test_an_error_of_a_table_on_a_branch_names_the_branch(tmp_path: Path) -> None:
    table = replace(table_ref(str(tmp_path)), branch="dev")

    assert "tree/dev" in translate_error(OSError("boom"), table, "open").problem
