"""On an object store every verb of upkeep does what it does on a disk, also after a driver was killed in the midst of it."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

import lance
import pytest

import lancewright as lw
from lancewright.maintain.checks.findings import Fault
from support.busy_table import CASES, append, busy_rows, delete, update_rows, wrong_answers
from support.planted import rewrite_unnoticed
from support.s3 import BUCKET, S3, s3_server
from support.upkeep_program import run

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = ("btree", "label_list", "ivf_flat")


@pytest.fixture(scope="module")
def server() -> Iterator[S3]:
    with s3_server() as running:
        yield running


@pytest.fixture
def uri(server: S3, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table whose credentials are in the environment, as drivers on a cluster have them."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    uri = f"s3://{BUCKET}/{uuid.uuid4()}"
    lance.write_dataset(busy_rows(range(400)), uri, max_rows_per_file=100)
    requests = [
        lw.IndexRequest(
            column=CASES[kind].column, kind=kind, name=kind, segments=4, parameters=CASES[kind].parameters
        )
        for kind in KINDS
    ]
    more = lw.IndexRequest(column=("id", "other"), kind="key", name="key", segments=2)
    lw.open(uri, progress=False).create_indexes([*requests, more])
    return uri


def assert_sound(uri: str, *, thorough: bool = False) -> None:
    assert wrong_answers(uri, CASES["btree"]) == []
    assert lw.open(uri, progress=False).verify(samples=2, thorough=thorough).findings == ()


@pytest.mark.slow
def test_every_verb_keeps_indexes_true_on_an_object_store(uri: str) -> None:
    table = lw.open(uri, progress=False)
    append(uri)
    update_rows(uri, 20, 40)
    table.refresh()
    assert all(info.coverage.is_complete for info in table.indexes())

    table.merge(segments=1)
    assert_sound(uri)
    assert all(len(table.snapshot().segments_named(kind)) == 1 for kind in KINDS)

    delete(uri)
    table.compact(remap="reuse", rows_per_fragment=300)
    assert table.snapshot().deferred
    assert_sound(uri)
    table.catch_up()
    table.compact(rows_per_fragment=1_000)

    fragment = lance.dataset(uri).get_fragments()[0].fragment_id
    rewrite_unnoticed(uri, "number", fragment)
    report = table.verify("btree", repair=True)
    assert report.is_sound
    assert len(report.mended) == 1

    assert table.cleanup(older_than=timedelta(0), orphan_age=timedelta(0)).failed == ()
    assert not table.plan_cleanup(older_than=timedelta(0), orphan_age=timedelta(0)).files
    assert_sound(uri, thorough=True)


@pytest.mark.slow
def test_a_driver_killed_on_an_object_store_does_no_harm_and_its_verb_runs_again(uri: str) -> None:
    append(uri)
    table = lw.open(uri, progress=False)

    assert run(uri, "refresh", dies_at=3) is None
    assert_sound(uri)
    table.refresh()
    assert run(uri, "merge", dies_at=4, segments=1) is None
    assert_sound(uri)
    table.merge(segments=1)

    assert_sound(uri)
    assert all(info.coverage.is_complete for info in table.indexes())
    assert all(len(table.snapshot().segments_named(kind)) == 1 for kind in KINDS)


def test_segments_whose_objects_are_gone_are_found_and_mended(server: S3, uri: str) -> None:
    table = lw.open(uri, progress=False)
    lost = table.snapshot().segments_named("key")[0]
    server.delete(f"{uri.rpartition('/')[2]}/_indices/{lost.uuid}/rows")

    report = table.verify("key")

    assert [(finding.segment, finding.fault) for finding in report.findings] == [(lost.uuid, Fault.DAMAGED)]
    assert table.verify("key", repair=True).is_sound
