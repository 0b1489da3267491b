"""What a text search looks for: words, a phrase, or both combined. Frozen values that name no column."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from lancewright.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPERATORS = ("or", "and")
_FUZZINESS_MAX = 2


@dataclass(frozen=True, slots=True)
class Match:
    """Texts with any of the words (``operator="or"``) or with all of them (``"and"``).

    ``fuzziness`` lets each word differ by so many letters; ``boost`` multiplies the score.
    """

    text: str
    operator: str = "or"
    fuzziness: int = 0
    boost: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is no query."""
        _check_text(self.text)
        if self.operator not in _OPERATORS:
            raise InvalidRequestError(f"operator={self.operator!r} is unknown", "Pass 'or' or 'and'.")
        if isinstance(self.fuzziness, bool) or self.fuzziness not in range(_FUZZINESS_MAX + 1):
            raise InvalidRequestError(
                f"fuzziness={self.fuzziness!r} is no number of letters", f"Pass 0 to {_FUZZINESS_MAX}."
            )
        if not _is_weight(self.boost):
            raise InvalidRequestError(f"boost={self.boost!r} is no weight", "Pass a number above 0.")


@dataclass(frozen=True, slots=True)
class Phrase:
    """Texts with these words one after the other. The index must have been built ``with_position=True``."""

    text: str

    def __post_init__(self) -> None:
        """Refuse what is no query."""
        _check_text(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Boolean:
    """Texts that match all of ``must`` and none of ``must_not``; each of ``should`` that matches adds to the score.

    Without ``must``, at least one of ``should`` has to match.
    """

    must: tuple[TextQuery, ...] = ()
    should: tuple[TextQuery, ...] = ()
    must_not: tuple[TextQuery, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what is no query: one that only excludes has nothing to rank."""
        for name in ("must", "should", "must_not"):
            clauses = getattr(self, name)
            if not isinstance(clauses, tuple | list) or not all(map(is_text_query, clauses)):
                raise InvalidRequestError(
                    f"{name}={clauses!r} are no queries", "Pass a tuple of Match, Phrase and Boolean."
                )
            object.__setattr__(self, name, tuple(clauses))
        if not self.must and not self.should:
            raise InvalidRequestError(
                "A Boolean query of nothing but must_not ranks nothing", "Give it must= or should= as well."
            )


TextQuery: TypeAlias = Match | Phrase | Boolean


def is_text_query(value: object) -> bool:
    """True for a query of one of these classes."""
    return isinstance(value, Match | Phrase | Boolean)


def walk_query(query: TextQuery) -> Iterator[Match | Phrase]:
    """Every word query and phrase in it."""
    match query:
        case Boolean(must=must, should=should, must_not=must_not):
            for clause in (*must, *should, *must_not):
                yield from walk_query(clause)
        case _:
            yield query


def _is_weight(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise InvalidRequestError(f"{text!r} is no text", "Pass a str, Match, Phrase or Boolean.")
    if not text.strip():
        raise InvalidRequestError("The text to search for is empty", "Pass at least one word.")
