"""An S3 server of its own on loopback, in a process of its own, that checks who asks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import boto3
from botocore.exceptions import BotoCoreError

from support.sessions import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

BUCKET = "lake"
# The bucket, and each user's name, policy and key are made before the server begins to ask for credentials.
_ACTIONS_BEFORE_AUTHENTICATION = 1 + 3 * 2
_READING = ["s3:GetObject", "s3:ListBucket"]
_START_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class User:
    """Somebody the server knows."""

    key_id: str
    secret: str


@dataclass(frozen=True)
class S3:
    """A server with one bucket, a user who may do everything in it and one who may only read."""

    endpoint: str
    builder: User
    reader: User

    def options(self, user: User | None = None) -> dict[str, str]:
        """Lance's storage options for a user, the builder if none is named."""
        asking = user or self.builder
        return {
            "aws_endpoint": self.endpoint,
            "allow_http": "true",
            "aws_region": "us-east-1",
            "aws_access_key_id": asking.key_id,
            "aws_secret_access_key": asking.secret,
        }

    def environment(self) -> dict[str, str]:
        """The variables in which Lance looks for the options it is not given, for the builder."""
        named = {"allow_http": "AWS_ALLOW_HTTP"}
        return {named.get(name, name.upper()): value for name, value in self.options().items()}

    def read(self, key: str) -> bytes:
        """The content of one object."""
        client = _client("s3", self.endpoint, self.builder)
        return bytes(client.get_object(Bucket=BUCKET, Key=key)["Body"].read())

    def delete(self, key: str) -> None:
        """Take one object away."""
        _client("s3", self.endpoint, self.builder).delete_object(Bucket=BUCKET, Key=key)

    def keys(self, prefix: str) -> list[str]:
        """Every object below a prefix."""
        client = _client("s3", self.endpoint, self.builder)
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return sorted(entry["Key"] for page in pages for entry in page.get("Contents", ()))


_ANYBODY = User("anybody", "anything")


@contextmanager
def s3_server() -> Iterator[S3]:
    """Run the server; it ends by its process id."""
    endpoint = f"http://127.0.0.1:{free_port()}"
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", endpoint.rpartition(":")[2]],
        env={**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": str(_ACTIONS_BEFORE_AUTHENTICATION)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield _set_up(endpoint)
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=30)


def _set_up(endpoint: str) -> S3:
    _create_bucket(endpoint)
    return S3(endpoint, _make_user(endpoint, "builder", ["s3:*"]), _make_user(endpoint, "reader", _READING))


def _make_user(endpoint: str, name: str, actions: list[str]) -> User:
    iam = _client("iam", endpoint, _ANYBODY)
    iam.create_user(UserName=name)
    policy = {"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": actions, "Resource": "*"}}
    iam.put_user_policy(UserName=name, PolicyName="may", PolicyDocument=json.dumps(policy))
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return User(key["AccessKeyId"], key["SecretAccessKey"])


def _create_bucket(endpoint: str) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while True:
        try:
            _client("s3", endpoint, _ANYBODY).create_bucket(Bucket=BUCKET)
        except BotoCoreError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return


def _client(service: str, endpoint: str, user: User) -> Any:  # boto3 is untyped
    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=user.key_id,
        aws_secret_access_key=user.secret,
    )
