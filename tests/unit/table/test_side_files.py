"""Small files beside a table: written whole, read back, and deleted with the folders they leave empty."""

from __future__ import annotations

import threading
import traceback
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lancewright.errors import InvalidRequestError
from lancewright.table.location import table_ref
from lancewright.table.side_files import SideFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEY_ID = "AKIATALKATIVESTORE"


class TalkativeStore(BaseHTTPRequestHandler):
    """Refuses every request and, as S3 does, repeats the key it was made with."""

    def _refuse(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = f"<Error><Code>InvalidAccessKeyId</Code><AWSAccessKeyId>{KEY_ID}</AWSAccessKeyId></Error>".encode()
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _refuse  # noqa: N815 - as http.server calls them

    def log_message(self, *_asked: object) -> None:
        """Say nothing."""


@pytest.fixture
def refusing_files() -> Iterator[SideFiles]:
    """Side files on a store that lets nobody in."""
    with HTTPServer(("127.0.0.1", 0), TalkativeStore) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        options = {
            "aws_endpoint": f"http://127.0.0.1:{server.server_port}",
            "aws_region": "us-east-1",
            "allow_http": "true",
            "aws_access_key_id": KEY_ID,
            "aws_secret_access_key": "hidden-value",
        }
        yield SideFiles(table_ref("s3://bucket/t", storage_options=options))
        server.shutdown()


@pytest.fixture(params=["{}", "file://{}"])
def files(tmp_path: Path, request: pytest.FixtureRequest) -> SideFiles:
    return SideFiles(table_ref(request.param.format(tmp_path / "t")))


def test_a_file_comes_back_as_it_was_written(files: SideFiles) -> None:
    files.write("a/b.json", b"\x00one")

    assert files.read("a/b.json") == b"\x00one"
    assert files.read("a/c.json") is None
    assert files.list("a") == ("a/b.json",)
    assert files.list("nowhere") == ()


def test_a_deleted_folder_takes_its_empty_parents_along_but_never_the_table(
    files: SideFiles, tmp_path: Path
) -> None:
    files.write("_lancewright/builds/one/segments/x.json", b"1")
    files.write("_lancewright/builds/one/lease.json", b"1")

    assert files.delete_folder("_lancewright/builds/one") == 2

    assert list((tmp_path / "t").iterdir()) == []


def test_a_folder_with_a_quoted_name_is_cleared_too(tmp_path: Path) -> None:
    files = SideFiles(table_ref(f"file://{tmp_path}/a%20table"))
    files.write("_lancewright/builds/one/lease.json", b"1")

    files.delete_folder("_lancewright/builds/one")

    assert list((tmp_path / "a table").iterdir()) == []


def test_a_deleted_folder_leaves_its_neighbours(files: SideFiles, tmp_path: Path) -> None:
    files.write("_indices/one/page.lance", b"1")
    files.write("_indices/two/page.lance", b"1")

    assert files.delete_segment("one") == 1
    assert files.delete_segment("one") == 0

    assert [path.name for path in (tmp_path / "t" / "_indices").iterdir()] == ["two"]


def test_a_folder_named_relative_to_the_working_directory_is_cleared_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = SideFiles(table_ref("t"))
    files.write("_lancewright/builds/one/lease.json", b"1")

    files.delete_folder("_lancewright/builds/one")

    assert list(Path("t").iterdir()) == []


@pytest.mark.parametrize(
    "ask",
    [lambda files: files.write("a", b"1"), lambda files: files.read("a"), lambda files: files.list("a")],
    ids=["write", "read", "list"],
)
def test_what_a_store_says_of_a_credential_is_not_in_the_error_nor_in_its_cause(
    refusing_files: SideFiles, ask: Callable[[SideFiles], object]
) -> None:
    with pytest.raises(InvalidRequestError, match="access was denied") as refusal:
        ask(refusing_files)

    assert KEY_ID not in "".join(traceback.format_exception(refusal.value))
