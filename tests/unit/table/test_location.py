"""Where a table is: a value that travels, and that never shows a credential."""

from __future__ import annotations

import pickle
from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewright.observe.events import BuildPlanned
from lancewright.observe.sinks import JsonLinesSink
from lancewright.table.location import TableRef, redact_uri, table_ref

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECRET = "s3cr3t-Key"
OPTIONS = {"aws_secret_access_key": SECRET, "region": "eu-west-1"}
# What may stand in a password, quoted or not: what ends a user name in a valid URI is in it on purpose.
PASSWORDS = st.text("abcXYZ019%+=_.~!$&'()*,;:@/?#-", min_size=4, max_size=20).map(lambda text: f"Z{text}Z")


@pytest.mark.parametrize("text", [repr, str, "{}".format, lambda ref: f"{ref!r:s}", lambda ref: ref.name])
def test_no_text_of_a_reference_shows_a_storage_option(text: Callable[[TableRef], str]) -> None:
    ref = table_ref("s3://bucket/t", storage_options=OPTIONS)

    assert SECRET not in text(ref)
    assert "s3://bucket/t" in text(ref)


@given(PASSWORDS)
def test_no_text_of_a_reference_shows_the_password_of_its_uri(password: str) -> None:
    ref = table_ref(f"s3://user:{password}@bucket/folder/t", branch="dev")

    for text in (repr(ref), str(ref), ref.name):
        assert password not in text
        assert "user" not in text
    assert ref.name == "s3://…@bucket/folder/t/tree/dev"


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("s3://bucket/t", "s3://bucket/t"),
        ("s3://token@bucket/t", "s3://…@bucket/t"),
        ("s3://bucket/a@b/t", "s3://bucket/a@b/t"),
        ("hdfs://host:8020/a@b/t", "hdfs://host:8020/a@b/t"),
        ("https://host/t?sig=abc&se=1", "https://host/t?…"),
        ("https://user:pw@host/t?sig=abc", "https://…@host/t?…"),
        ("https://host/t?sig=a\nb", "https://host/t?…"),
        ("s3://key:a/b@c@bucket/t", "s3://…@bucket/t"),
        ("/data/me@home/t", "/data/me@home/t"),
        ("az://container/t", "az://container/t"),
    ],
)
def test_a_printable_name_keeps_the_place_and_nothing_else(uri: str, name: str) -> None:
    assert redact_uri(uri) == name
    assert table_ref(uri).name == name


def test_an_event_that_names_the_table_shows_no_credential(tmp_path: Path) -> None:
    ref = table_ref(f"s3://user:{SECRET}@bucket/t?sig={SECRET}", storage_options=OPTIONS)
    event = BuildPlanned(
        job_id="1",
        table=ref.name,
        version=1,
        indexes=("ix",),
        tasks=1,
        tasks_reused=0,
        rows=1,
    )

    with JsonLinesSink(tmp_path / "events.jsonl") as sink:
        sink.record(event)

    assert SECRET not in repr(event)
    assert SECRET not in (tmp_path / "events.jsonl").read_text()


def test_secrets_are_everything_no_message_may_show_longest_first() -> None:
    ref = table_ref(
        "s3://user:uri-password@bucket/t?sig=query-signature",
        storage_options={
            "aws_access_key_id": "AKIAEXAMPLE",
            "azure_storage_sas_key": "sas-token-value",
            "google_service_account": '{"private_key": "x"}',
            "connection_string": "AccountKey=abc",
            "aws_endpoint": "http://127.0.0.1:9000",
            "region": "eu-west-1",
            "allow_http": "true",
            "unsigned_payload": "true",
            "pin": "123",
        },
    )

    assert set(ref.secrets) == {
        "uri-password", "query-signature", "sig=query-signature", "AKIAEXAMPLE", "sas-token-value",
        '{"private_key": "x"}', "AccountKey=abc",
    }  # fmt: skip
    assert list(ref.secrets) == sorted(ref.secrets, key=len, reverse=True)


def test_pickling_keeps_the_credentials_a_worker_needs() -> None:
    ref = table_ref(f"s3://user:{SECRET}@bucket/t", version=3, branch="dev", storage_options=OPTIONS)

    back = pickle.loads(pickle.dumps(ref))  # noqa: S301 - our own bytes

    assert back == ref
    assert back.uri == ref.uri
    assert dict(back.storage_options) == OPTIONS
    assert back.name == ref.name


def test_references_are_equal_when_everything_is_whatever_the_order_of_the_options() -> None:
    one = table_ref("s3://b/t", version=1, storage_options={"a": "1", "b": "2"})
    other = table_ref("s3://b/t", version=1, storage_options={"b": "2", "a": "1"})

    assert one == other
    assert len({one, other}) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"uri": "s3://b/u"},
        {"version": 2},
        {"branch": "dev"},
        {"storage_options": {"a": "other"}},
        {"storage_options": {}},
    ],
)
def test_references_differ_when_anything_does(changed: dict[str, object]) -> None:
    base: dict[str, object] = {"uri": "s3://b/t", "version": 1, "storage_options": {"a": "1"}}

    assert table_ref(**base) != table_ref(**{**base, **changed})  # type: ignore[arg-type] # the keys are those of the function


def test_pinning_changes_the_version_and_nothing_else() -> None:
    ref = table_ref("s3://b/t", branch="dev", storage_options=OPTIONS)

    pinned = ref.pinned(7)

    assert pinned.version == 7
    assert pinned.latest() == ref
    assert {**asdict(pinned), "version": None} == asdict(ref)


@pytest.mark.parametrize(
    ("uri", "branch", "root"),
    [
        ("/data/t", None, "/data/t"),
        ("/data/t/", None, "/data/t"),
        ("/data/t", "dev", "/data/t/tree/dev"),
        ("/data/t/", "team/x", "/data/t/tree/team/x"),
        ("/data/t", "main", "/data/t"),
    ],
)
def test_a_branch_has_a_root_of_its_own_and_main_is_the_table(
    uri: str, branch: str | None, root: str
) -> None:
    assert table_ref(uri, branch=branch).root_uri == root


def test_a_reference_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        table_ref("/data/t").version = 3  # type: ignore[misc] # that is the point


def test_a_reference_may_be_made_without_the_helper() -> None:
    assert TableRef(uri="/data/t") == table_ref("/data/t")
