"""What the author of a kind says of it, so that the kit can try it: which keys and parameters, and what it is good for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewright.errors import InvalidRequestError, LancewrightError
from lancewright.kinds.contract import IndexKind, Key
from lancewright.kinds.registry import require_plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_I, _T, _F = pa.int64(), pa.string(), pa.float64()
# What a kind is tried on when its author does not say.
_USUAL_TYPES: tuple[tuple[pa.DataType, ...], ...] = (
    (_I,),
    (_T,),
    (_F,),
    (pa.bool_(),),
    (pa.int8(),),
    (pa.uint64(),),
    (pa.float32(),),
    (pa.timestamp("us"),),
    (pa.date32(),),
    (pa.decimal128(10, 2),),
    (pa.binary(),),
    (_I, _T),
    (_T, _I),
    (_F, _F),
    (pa.bool_(), _F, _T),
    (pa.uint64(), _F, pa.timestamp("ns"), _T),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One index to try: the types of its keys, and parameters."""

    types: tuple[pa.DataType, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)  # values are the kind's own

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys, named ``k0``, ``k1`` and so on."""
        return tuple(Key(name=f"k{place}", type=type_) for place, type_ in enumerate(self.types))

    def __str__(self) -> str:
        return ", ".join(map(str, self.types)) + (f" {dict(self.parameters)}" if self.parameters else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """A ranked query of a kind that searches: how it is asked, and the score of a row by the values of its keys.

    ``descending`` says that the greatest score is best. ``recall`` is how many of the best rows must be found.
    """

    query: Mapping[str, Any]  # as plan_search takes it
    score: Callable[..., float]
    descending: bool
    recall: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KindHarness:
    """A kind and what it promises. Capabilities are declared here, not skipped in tests.

    ``filters``, ``merges``, ``looks_up_many``: the kind has these. ``reads_less``: of 300,000 rows a lookup of one value reads less
    than a tenth of the bytes. ``golden``: the folder that keeps golden segments of the kind, one file for each case.
    """

    kind: Callable[[], IndexKind]
    cases: tuple[Case, ...]
    rankings: tuple[Ranking, ...] = ()
    filters: bool = True
    merges: bool = False
    looks_up_many: bool = False
    reads_less: bool = True
    golden: str | Path | None = None


def usual_harness(name: str) -> KindHarness:
    """A harness for an installed or registered kind whose author wrote none: tried on every usual type it accepts."""
    kind = require_plugin(name)
    cases = tuple(case for case in (Case(types=types) for types in _USUAL_TYPES) if _accepts(kind, case))
    if not cases:
        raise InvalidRequestError(
            f"Kind {name!r} accepts none of the usual keys without parameters",
            "Write a KindHarness with the keys and parameters it takes, and pass --index-harness module:NAME.",
        )
    return KindHarness(
        kind=type(kind),
        cases=cases,
        merges=type(kind).merge is not IndexKind.merge,
        looks_up_many=kind.looks_up_many,
    )


def _accepts(kind: IndexKind, case: Case) -> bool:
    try:
        kind.validate(case.keys, case.parameters)
    except LancewrightError:
        return False
    return True
