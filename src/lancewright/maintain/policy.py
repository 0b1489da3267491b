"""What a table is kept up by: one frozen value, and the JSON it is stored as in the table's own config. Pure.

A document says which version of this format it is. What this release does not know in it is told, never passed over.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, get_args

from lancewright.errors import InvalidRequestError, LancewrightError, UnsupportedError
from lancewright.maintain.cleanup import OLDER_THAN, ORPHAN_AGE
from lancewright.maintain.compact import DELETED_SHARE, ROWS_PER_FRAGMENT
from lancewright.maintain.compact_way import Remap

if TYPE_CHECKING:
    from collections.abc import Mapping

POLICY_KEY = "lancewright.policy"
FORMAT = 1
FRAGMENTS_MIN = 4
THOROUGH_EVERY = timedelta(days=1)
_AGES = ("older_than", "orphan_age", "thorough_every")
_FLAGS = ("compact", "catch_up", "refresh", "merge", "cleanup")
_LIMITS = ("seconds_max", "bytes_max", "tasks_max")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a table is kept up by ``maintain``: which steps, how far each goes, and what a run may take.

    ``thorough_every``: how often storage is listed for a cleanup and segments are looked into; in between a run that finds nothing due
    in the manifest ends there. ``bytes_max`` counts bytes read and written, as estimated.
    """

    compact: bool = True
    catch_up: bool = True
    refresh: bool = True
    merge: bool = True
    cleanup: bool = True
    remap: Remap | None = None
    rows_per_fragment: int = ROWS_PER_FRAGMENT
    fragments_min: int = FRAGMENTS_MIN
    deleted_share: float = DELETED_SHARE
    older_than: timedelta = OLDER_THAN
    orphan_age: timedelta = ORPHAN_AGE
    thorough_every: timedelta = THOROUGH_EVERY
    seconds_max: float | None = None
    bytes_max: int | None = None
    tasks_max: int | None = None

    def __post_init__(self) -> None:
        """Refuse what means nothing, naming the field."""
        for name in _FLAGS:
            self._require(name, isinstance(getattr(self, name), bool), "true or false")
        self._require(
            "remap", self.remap is None or self.remap in get_args(Remap), ", ".join(get_args(Remap))
        )
        self._require(
            "rows_per_fragment", _is_count(self.rows_per_fragment, 1), "a whole number of 1 or more"
        )
        self._require("fragments_min", _is_count(self.fragments_min, 2), "a whole number of 2 or more")
        is_share = _is_number(self.deleted_share) and 0 <= self.deleted_share <= 1
        self._require("deleted_share", is_share, "a number from 0 to 1")
        for name in _AGES:
            value = getattr(self, name)
            is_age = isinstance(value, timedelta) and value >= timedelta(0)
            self._require(
                name, is_age, "an age of zero or more: a timedelta; on the command line 7d, 12h, 30m, 0s"
            )
        self._require(
            "seconds_max",
            self.seconds_max is None or (_is_number(self.seconds_max) and self.seconds_max >= 0),
            "a number of seconds, or nothing",
        )
        for name in ("bytes_max", "tasks_max"):
            value = getattr(self, name)
            self._require(name, value is None or _is_count(value, 0), "a whole number, or nothing")

    def _require(self, name: str, holds: bool, wanted: str) -> None:  # noqa: FBT001 - what was looked at, in place
        if not holds:
            raise InvalidRequestError(f"{name}={getattr(self, name)!r} makes no policy", f"Give {wanted}.")

    def to_json(self) -> str:
        """The document that is stored: ages in seconds, under names that say so."""
        return json.dumps(policy_document(self))


def policy_document(policy: Policy) -> dict[str, Any]:  # Any: JSON
    """The policy as plain values."""
    document: dict[str, Any] = {"version": FORMAT}
    for field in fields(policy):
        value = getattr(policy, field.name)
        if field.name in _AGES:
            document[f"{field.name}_s"] = value.total_seconds()
        else:
            document[field.name] = value
    return document


def policy_from_json(text: str) -> Policy:
    """Read a stored document; raises, naming what is wrong, when it is none or says more than this release knows."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InvalidRequestError(f"The table's {POLICY_KEY} is no JSON: {error}", _SET_AGAIN) from error
    if not isinstance(document, dict):
        raise InvalidRequestError(f"The table's {POLICY_KEY} is no JSON object", _SET_AGAIN)
    version = document.pop("version", None)
    if _is_count(version, FORMAT + 1):
        raise UnsupportedError(
            f"The table's {POLICY_KEY} is of version {version}; this release reads version {FORMAT}",
            "Upgrade lancewright here, or set the policy again with this release.",
        )
    if version != FORMAT:
        raise InvalidRequestError(f"The table's {POLICY_KEY} has version {version!r}", _SET_AGAIN)
    try:
        return policy_from_fields({_name(key): _read(key, value) for key, value in document.items()})
    except LancewrightError as error:
        raise type(error)(f"The table's {POLICY_KEY}: {error.problem}", error.remedy) from error


def policy_from_fields(
    values: Mapping[str, Any], base: Policy | None = None
) -> Policy:  # Any: checked by the policy
    """A policy with these fields, the rest as in ``base``; raises for a name that is no field."""
    known = [field.name for field in fields(Policy)]
    unknown = [name for name in values if name not in known]
    if unknown:
        raise InvalidRequestError(
            f"A policy has no {', '.join(map(repr, unknown))}", f"It has: {', '.join(known)}."
        )
    start = base or Policy()
    return Policy(**{name: getattr(start, name) for name in known} | dict(values))


def is_age(name: str) -> bool:
    """True for the fields that hold a span of time."""
    return name in _AGES


_SET_AGAIN = "Set it again with set_policy, or take it away with set_policy(None)."


def _name(key: str) -> str:
    return key.removesuffix("_s") if key.removesuffix("_s") in _AGES else key


def _read(key: str, value: Any) -> Any:  # Any: JSON
    if key.endswith("_s") and _name(key) in _AGES and _is_number(value):
        return timedelta(seconds=value)
    return value


def _is_number(value: Any) -> bool:  # Any: whatever was given
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: Any, least: int) -> bool:  # Any: whatever was given
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
