"""Calls into a kind: whatever it raises becomes an error of ours that names it. A kind must never fail a query."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from lancewright.errors import CorruptIndexError, LancewrightError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lancewright.kinds.contract import IndexKind


@contextmanager
def calling(kind: IndexKind, method: str) -> Iterator[None]:
    """Errors of ours pass; everything else is the kind's, unless the machine ran out of something."""
    try:
        yield
    except (LancewrightError, MemoryError):
        raise
    except OSError as error:
        raise LancewrightError(
            f"Kind {kind.name!r} could not go on in {method}(): {error}",
            "Mend the cause named here, then run the same call again.",
        ) from error
    except Exception as error:
        raise CorruptIndexError(
            f"Kind {kind.name!r} failed in {method}(): {type(error).__name__}: {error}",
            "Rebuild the index; if it repeats, report it to the author of the kind.",
        ) from error
