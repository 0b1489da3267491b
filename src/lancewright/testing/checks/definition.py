"""A kind says what it is, refuses what it does not take, and keeps nothing to itself."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from lancewright.errors import InvalidRequestError
from lancewright.kinds.contract import API
from lancewright.testing.expecting import expect

if TYPE_CHECKING:
    from lancewright.testing.laboratory import Laboratory


def check_the_class_says_what_it_is(laboratory: Laboratory) -> None:
    """Name, versions and what it reads are class attributes."""
    kind = laboratory.kind
    expect(kind.name == kind.name.lower(), f"its name {kind.name!r} is in small letters")
    expect(kind.api[0] == API[0], f"it was written for version {API[0]} of the interface")
    expect(kind.writes in kind.reads, "it reads the format it writes")


def check_parameters_are_kept_as_json(laboratory: Laboratory) -> None:
    """What validate returns survives JSON, and validates to itself."""
    for case in laboratory.harness.cases:
        parameters = laboratory.kind.validate(case.keys, dict(case.parameters))
        kept = json.loads(json.dumps(parameters))
        expect(kept == parameters, f"JSON keeps the parameters {parameters!r}")
        again = laboratory.kind.validate(case.keys, kept)
        expect(again == parameters, "validate takes what it returned and returns the same")


def check_an_unknown_parameter_is_refused(laboratory: Laboratory) -> None:
    """A misspelt parameter is an error and not a silence."""
    case = laboratory.harness.cases[0]
    try:
        laboratory.kind.validate(case.keys, {**case.parameters, "no_such_parameter": 1})
    except InvalidRequestError:
        return
    expect(False, "validate raises InvalidRequestError for a parameter it does not have")  # noqa: FBT003 - a verdict


def check_the_class_can_be_imported_by_executors(laboratory: Laboratory) -> None:
    """By module and name: no code is sent."""
    kind = type(laboratory.kind)
    found: object = sys.modules.get(kind.__module__) if kind.__module__ != "__main__" else None
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    expect(found is kind, f"{kind.__module__}:{kind.__qualname__} can be imported")
