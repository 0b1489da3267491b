"""Who works on a build: told at once on the same machine, by the clock from another."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from lancewright.build.lease import LEASE_S, Lease, process_started, take_lease, this_machine

NEVER = float("inf")


def _lease_of(process_id: int, **changes: object) -> Lease:
    described: dict[str, object] = {
        "owner": "x",
        "machine": this_machine(),
        "process_id": process_id,
        "process_started": process_started(process_id),
        "seen_at": time.time(),
    }
    return Lease(**{**described, **changes})  # type: ignore[arg-type] # the keys are those of the class


def test_this_process_holds_its_lease_as_long_as_it_lives_whatever_the_clock_says() -> None:
    lease = take_lease("x")

    assert lease.process_id == os.getpid()
    assert lease.is_live(lease.seen_at)
    assert lease.is_live(lease.seen_at + 1_000_000)


def test_a_process_that_ended_is_dead_at_once() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    lease = _lease_of(child.pid)
    assert lease.is_live(lease.seen_at)

    child.communicate(b"\n")

    assert not lease.is_live(lease.seen_at)


def test_a_process_that_ended_but_was_not_collected_is_dead_too() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    lease = _lease_of(child.pid)
    assert child.stdout is not None
    child.stdout.read()  # the child has closed it: it ended, and is a zombie until somebody waits for it
    deadline = time.monotonic() + 10
    while process_started(child.pid) and time.monotonic() < deadline:
        time.sleep(0.01)

    assert not lease.is_live(lease.seen_at)
    child.wait()


def test_another_process_that_got_the_same_number_does_not_hold_the_lease() -> None:
    lease = replace(take_lease("x"), process_started="12345")

    assert not lease.is_live(lease.seen_at)


@pytest.mark.parametrize(("age_s", "live"), [(0.0, True), (LEASE_S - 1, True), (LEASE_S + 1, False)])
def test_a_process_of_another_machine_lives_as_long_as_it_is_heard_of(age_s: float, live: bool) -> None:
    lease = _lease_of(os.getpid(), machine="elsewhere")

    assert lease.is_live(lease.seen_at + age_s) is live


@pytest.mark.parametrize(("age_s", "live"), [(0.0, True), (LEASE_S + 1, False)])
def test_where_the_system_does_not_tell_of_processes_the_clock_decides(age_s: float, live: bool) -> None:
    lease = _lease_of(os.getpid(), process_started="")

    assert lease.is_live(lease.seen_at + age_s) is live


def test_a_lease_from_the_future_is_live() -> None:
    lease = _lease_of(os.getpid(), machine="elsewhere", seen_at=time.time() + 3600)

    assert lease.is_live(time.time())


def test_a_process_has_one_start_and_a_missing_one_has_none() -> None:
    assert process_started(os.getpid()) == process_started(os.getpid()) != ""
    assert process_started(2**22 + 1) == ""
    assert take_lease("x").seen_at < NEVER
