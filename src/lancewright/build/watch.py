"""Watches a running build through its journal: tells of finished tasks as they finish, and keeps the lease alive.

Spark hands outcomes over only when its whole job ends, and Connect has no listener for tasks. The workers' own records
on storage are the one sign of progress every runner has: one listing every few seconds.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Self

from lancewright.errors import LancewrightError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from lancewright.build.journal import Journal
    from lancewright.build.spec import Written

POLL_S = 2.0
LEASE_RENEWAL_S = 20.0
_logger = logging.getLogger("lancewright")


class JournalWatch:
    """A context in which ``on_written`` hears of every new record, from another thread."""

    def __init__(
        self, journal: Journal, on_written: Callable[[Written], None], poll_s: float = POLL_S
    ) -> None:
        """Start nothing yet; records already there are not reported."""
        self._journal = journal
        self._on_written = on_written
        self._poll_s = poll_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lancewright-watch", daemon=True)

    def __enter__(self) -> Self:
        """Start watching."""
        # Many short stages in a row would otherwise never come to a renewal.
        self._journal.keep_lease()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop watching, whatever happened."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        seen: set[str] = set()
        since_renewal_s = 0.0
        while not self._stop.wait(self._poll_s):
            since_renewal_s += self._poll_s
            try:
                self._look(seen)
                if since_renewal_s >= LEASE_RENEWAL_S:
                    self._journal.keep_lease()
                    since_renewal_s = 0.0
            except LancewrightError as error:
                # Watching is a courtesy: a store that hiccups must not end the build.
                _logger.debug("could not look into the journal: %s", error)

    def _look(self, seen: set[str]) -> None:
        for path in self._journal.list_segment_records():
            if path in seen:
                continue
            seen.add(path)
            written = self._journal.read_segment_record(path)
            if written is not None:
                self._on_written(written)
