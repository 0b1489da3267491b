"""How a check says that a promise was broken."""

from __future__ import annotations


class BrokenPromiseError(AssertionError):
    """A kind does not do what its contract says."""


def expect(kept: object, promise: str) -> None:
    """Raise unless the promise is kept."""
    if not kept:
        raise BrokenPromiseError(f"expected that {promise}")
