"""Answers who works on a build and whether that process still lives. Reads the machine, never the table."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

# A driver renews its lease many times within this span; past it, whoever held it is taken for dead.
LEASE_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Who runs a build, and when it was last heard of."""

    owner: str
    machine: str
    process_id: int
    process_started: str
    seen_at: float

    def is_live(self, now: float) -> bool:
        """True while the owner may still be working. On the owner's own machine its process tells at once."""
        if self.process_started and self.machine == this_machine():
            return process_started(self.process_id) == self.process_started
        return now - self.seen_at < LEASE_S


def take_lease(owner: str) -> Lease:
    """A lease of this process, as of now."""
    process_id = os.getpid()
    return Lease(
        owner=owner,
        machine=this_machine(),
        process_id=process_id,
        process_started=process_started(process_id),
        seen_at=time.time(),
    )


def this_machine() -> str:
    """Name where process ids mean the same: containers may share a host's name, but not its process numbers."""
    return "/".join((socket.gethostname(), _read("/proc/sys/kernel/random/boot_id"), _process_namespace()))


def process_started(process_id: int) -> str:
    """What tells a process from a later one with the same id; empty when it is gone, or the system does not say."""
    statistics = _read(f"/proc/{process_id}/stat")
    # The name in brackets may hold spaces; the state comes first after it, the start time 19 fields later.
    fields = statistics.rpartition(")")[2].split()
    return fields[19] if fields and fields[0] != "Z" else ""


def _process_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
