"""On an object store a build behaves as on a disk, and the credentials stay where they belong."""

from __future__ import annotations

import logging
import traceback
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lance
import pytest

import lancewright as lw
from lancewright.observe.events import SegmentReused, TaskFinished
from lancewright.observe.sinks import FanOutSink, LoggingSink, MemorySink
from lancewright.table.location import table_ref
from support.busy_table import busy_rows
from support.runners import BusyRunner, UnusedRunner
from support.s3 import BUCKET, S3, User, s3_server

if TYPE_CHECKING:
    from collections.abc import Iterator

UNKNOWN = User("AKIAUNKNOWNMARKER", "unknown-secret-marker")


@pytest.fixture(scope="module")
def server() -> Iterator[S3]:
    with s3_server() as running:
        yield running


@pytest.fixture
def uri(server: S3) -> str:
    uri = f"s3://{BUCKET}/{uuid.uuid4()}"
    dataset = lance.write_dataset(
        busy_rows(range(400)), uri, max_rows_per_file=100, storage_options=server.options()
    )
    dataset.delete("id % 17 = 3")
    return uri


def keys(server: S3, uri: str) -> list[str]:
    prefix = uri.removeprefix(f"s3://{BUCKET}/")
    return [key.removeprefix(f"{prefix}/") for key in server.keys(prefix)]


def build(server: S3, uri: str, **options: Any) -> MemorySink:
    sink = MemorySink()
    table = lw.open(uri, storage_options=server.options(), sink=sink, progress=False, **options)
    table.create_index("number", kind="btree", name="ours", segments=4)
    return sink


def test_a_build_on_s3_leaves_nothing_but_its_index_and_answers_like_a_scan(server: S3, uri: str) -> None:
    build(server, uri)

    dataset = lance.dataset(uri, storage_options=server.options())
    for predicate in ("number = 5", "NOT (number < 20)", "number IS NULL"):
        scanned = dataset.to_table(filter=predicate, use_scalar_index=False)
        assert dataset.to_table(filter=predicate).num_rows == scanned.num_rows
    table = lw.open(uri, storage_options=server.options())
    known = {segment.uuid for segment in table.snapshot().segments}
    assert {key.split("/")[1] for key in keys(server, uri) if key.startswith("_indices/")} == known
    assert not [key for key in keys(server, uri) if key.startswith("_lancewright")]


def test_a_build_on_s3_is_resumed_and_its_journal_holds_no_credential(server: S3, uri: str) -> None:
    with pytest.raises(lw.TasksFailedError):
        build(server, uri, runner=BusyRunner(failing=[2]))
    journal = [key for key in keys(server, uri) if key.startswith("_lancewright/")]
    for key in journal:
        text = server.read(f"{uri.rpartition('/')[2]}/{key}").decode()
        assert server.builder.secret not in text
        assert server.builder.key_id not in text

    sink = build(server, uri)

    assert len([key for key in journal if "/segments/" in key]) == 3
    assert len([event for event in sink.events if isinstance(event, SegmentReused)]) == 3
    built = [event.fragments for event in sink.events if isinstance(event, TaskFinished)]
    assert built == [(2,)]
    assert not [key for key in keys(server, uri) if key.startswith("_lancewright")]


def test_credentials_that_the_store_does_not_know_are_told_when_the_table_is_opened(
    server: S3, uri: str
) -> None:
    with pytest.raises(lw.InvalidRequestError, match="access was denied") as refusal:
        lw.open(uri, storage_options=server.options(UNKNOWN), runner=UnusedRunner())

    assert "credentials" in refusal.value.remedy
    told = "".join(traceback.format_exception(refusal.value))
    assert UNKNOWN.secret not in told
    assert UNKNOWN.key_id not in str(refusal.value)


def test_credentials_that_may_only_read_are_told_before_any_task(server: S3, uri: str) -> None:
    before = keys(server, uri)
    table = lw.open(uri, storage_options=server.options(server.reader), runner=UnusedRunner(), progress=False)

    with pytest.raises(lw.InvalidRequestError, match=r"Could not write .*access was denied"):
        table.create_index("number", kind="btree")

    assert keys(server, uri) == before


def test_no_credential_shows_in_what_is_printed_logged_or_told(
    server: S3, uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    memory = MemorySink()
    table = lw.open(
        uri,
        storage_options=server.options(),
        runner=BusyRunner(failing=[2]),
        sink=FanOutSink(memory, LoggingSink()),
        progress=False,
    )

    with pytest.raises(lw.TasksFailedError) as failure:
        table.create_index("number", kind="btree", segments=4)
    plan = table.create_index("number", kind="btree", name="planned", dry_run=True)

    reference = table_ref(uri, storage_options=server.options())
    shown = [repr(table), repr(reference), str(reference), repr(plan), repr(memory.events), caplog.text]
    shown += ["".join(traceback.format_exception(failure.value)), repr(failure.value), repr(table.snapshot())]
    for secret in (server.builder.secret, server.builder.key_id):
        assert not [text for text in shown if secret in text]


def test_a_cleanup_on_s3_removes_what_it_said_and_keeps_what_tags_and_branches_use(
    server: S3, uri: str
) -> None:
    options = {"storage_options": server.options()}
    build(server, uri)
    dataset = lance.dataset(uri, **options)
    dataset.tags.create("kept", dataset.version)
    lance.write_dataset(busy_rows(range(900, 960)), uri, mode="append", **options)
    branch = lance.dataset(uri, **options).create_branch("side")
    lance.write_dataset(busy_rows(range(960, 990)), branch, mode="append", **options)
    table = lw.open(uri, progress=False, **options)
    table.drop_index("ours")
    with pytest.raises(lw.TasksFailedError):
        build(server, uri, runner=BusyRunner(failing=[2]))
    dataset.create_index_uncommitted("other", "BITMAP", fragment_ids=[0])
    before = keys(server, uri)

    assert table.cleanup().files == ()
    planned = table.plan_cleanup(older_than=timedelta(0), orphan_age=timedelta(0))
    assert keys(server, uri) == before
    receipt = table.cleanup(older_than=timedelta(0), orphan_age=timedelta(0))

    assert receipt.files == planned.files
    assert receipt.failed == ()
    assert sorted(set(before) - set(keys(server, uri))) == [file.path for file in receipt.files]
    assert {"manifest", "segment", "journal"} <= {file.kind for file in receipt.files}
    assert not [key for key in keys(server, uri) if key.startswith("_lancewright/")]
    for place, version in ((uri, "kept"), (f"{uri}/tree/side", None), (uri, None)):
        found = lance.dataset(place, version=version, **options)
        scanned = found.to_table(filter="number < 9", use_scalar_index=False)
        assert found.to_table(filter="number < 9").num_rows == scanned.num_rows
    assert not table.plan_cleanup(older_than=timedelta(0), orphan_age=timedelta(0)).files
