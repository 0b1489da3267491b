"""What a caller asked to have built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lancewright.errors import InvalidRequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRequest:
    """One index to build: the column, or columns where the kind takes several, the kind and how.

    ``segments`` asks for a number of final segments; without it the size decides. ``parameters`` are the kind's own.
    """

    column: str | Sequence[str]
    kind: str
    name: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)  # values are whatever the kind takes
    segments: int | None = None
    replace: bool = False
    if_not_exists: bool = False
    train: bool = True

    def __post_init__(self) -> None:
        """Refuse what only looks like a request: a wrong type would otherwise fail far from here, or be believed."""
        _require_columns(self.column)
        if not isinstance(self.column, str):
            object.__setattr__(self, "column", tuple(self.column))
        require_type("kind", self.kind, str)
        require_type("name", self.name, str, type(None))
        require_type("parameters", self.parameters, Mapping)
        for flag in ("replace", "if_not_exists", "train"):
            require_type(flag, getattr(self, flag), bool)
        if isinstance(self.segments, bool) or not isinstance(self.segments, int | None):
            raise InvalidRequestError(
                f"segments={self.segments!r} is no number of segments", "Pass a whole number."
            )
        if self.replace and self.if_not_exists:
            raise InvalidRequestError(
                "replace=True and if_not_exists=True contradict each other", "Pass one of them."
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, one or several."""
        return (self.column,) if isinstance(self.column, str) else tuple(self.column)


def _require_columns(given: object) -> None:
    if isinstance(given, str):
        return
    if not isinstance(given, Sequence) or not given or not all(isinstance(name, str) for name in given):
        raise InvalidRequestError(
            f"column={given!r} is a {type(given).__name__}",
            "Pass a str, or a list of them with at least one.",
        )


def require_type(name: str, value: object, *types: type) -> None:
    """Raise when an argument is of another type."""
    if not isinstance(value, types):
        raise InvalidRequestError(
            f"{name}={value!r} is a {type(value).__name__}", f"Pass a {types[0].__name__}."
        )
