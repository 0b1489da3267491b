"""Answers what a caller's parameters mean for one kind and column, or why they are wrong. Pure.

Lance ignores unknown parameters of most kinds and mistyped ones of some, so nothing reaches it unchecked.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from lancewright.errors import InvalidRequestError, UnsupportedError
from lancewright.kinds.lance_native.arrays import as_centroids, as_codebook
from lancewright.kinds.lance_native.vector import default_metric, default_sub_vectors, dimension

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lancewright.kinds.lance_native.definition import NativeKind, Parameter
    from lancewright.model.columns import Column

# More makes no sense for any parameter, and past 64 bits Lance fails on the workers.
_INT_MAX = 2**31 - 1
# With stable row ids Lance refuses a btree over JSON; zonemap, bloomfilter and fm build and then miss rows (measured).
_JSON_TARGETS_ON_STABLE_ROW_IDS = ("bitmap", "ngram")


def validate_parameters(kind: NativeKind, column: Column, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters a build takes: normalised, defaults that must not drift filled in, JSON but for arrays.

    Arrays come back as Arrow fixed size lists under ``ivf_centroids`` and ``pq_codebook``;
    ``vector_model.take_model`` moves them out. Raises InvalidRequestError with the valid names, types or ranges.
    """
    reason = kind.accepts(column)
    if reason is not None:
        problem = f"Kind {kind.name!r} cannot index column {column.path}: {reason}"
        raise InvalidRequestError(problem, "Choose another column or kind; `lancewright kinds` lists them.")
    parameters = _check_all(kind.name, kind.parameters, given)
    if kind.family == "vector":
        parameters = _complete_vector(kind, column, parameters)
    reason = kind.combine(column, parameters)
    if reason is not None:
        raise InvalidRequestError(
            f"These parameters of {kind.name!r} do not fit: {reason}",
            "Call create_index with other values for what is named.",
        )
    return parameters


def check_stable_row_ids(kind: NativeKind, parameters: Mapping[str, Any]) -> None:
    """Raise UnsupportedError if this index cannot be built on a table with stable row ids."""
    target = parameters.get("target_index_type")
    if kind.supports_stable_row_ids or target in _JSON_TARGETS_ON_STABLE_ROW_IDS:
        return
    problem = f"Kind {kind.name!r} with target {target!r} does not work on a table with stable row ids"
    raise UnsupportedError(
        problem, "Use target_index_type='bitmap' (or 'ngram' for text), or extract the key to a column."
    )


def _check_all(owner: str, known: tuple[Parameter, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    by_name = {parameter.name: parameter for parameter in known}
    for name in given:
        if name not in by_name:
            raise _unknown(owner, str(name), by_name)
    checked = {}
    for name, parameter in by_name.items():
        value = given.get(name)
        if value is None and not (parameter.nullable and name in given):
            value = parameter.default
            if value is None and parameter.required:
                raise InvalidRequestError(f"Kind {owner!r} needs {name}", f"Give it: {parameter.doc}")
            if value is None:
                continue
        checked[name] = None if value is None else _check(owner, parameter, value)
    return checked


def _unknown(owner: str, name: str, known: Iterable[str]) -> InvalidRequestError:
    names = sorted(known)
    if not names:
        return InvalidRequestError(f"Kind {owner!r} has no parameter {name!r}", "It takes none.")
    close = difflib.get_close_matches(name.lower(), names, n=1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    return InvalidRequestError(
        f"Kind {owner!r} has no parameter {name!r}", f"{hint}It takes: {', '.join(names)}."
    )


def _check(owner: str, parameter: Parameter, value: object) -> Any:  # of the parameter's own type
    name = f"{owner}.{parameter.name}"
    if parameter.type == "array":
        return value  # its shape depends on the column: `_complete_vector`
    if parameter.type == "mapping":
        return _check_mapping(name, parameter, value)
    normal = _convert(parameter.type, value)
    if normal is None:
        problem = f"{name} must be {parameter.type}, not {value!r}"
        raise InvalidRequestError(problem, f"{parameter.doc}")
    if parameter.choices:
        return _choose(name, parameter, normal)
    _check_range(name, parameter, normal)
    return normal


def _convert(type_: str, value: object) -> Any:  # None when the value has another type
    if type_ == "bool":
        return (
            bool(value) if isinstance(value, bool) or type(value).__name__ == "bool" else None
        )  # numpy.bool
    if type_ == "str":
        return value if isinstance(value, str) else None
    if type_ == "list of str":
        fits = isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)
        return list(value) if fits and isinstance(value, (list, tuple)) else None
    if isinstance(value, bool):
        return None
    if type_ == "int":
        return int(value) if isinstance(value, Integral) else None
    return float(value) if isinstance(value, Real) else None


def _choose(name: str, parameter: Parameter, value: object) -> object:
    for choice in parameter.choices:
        if choice == value or (isinstance(value, str) and str(choice).lower() == value.lower()):
            return choice
    if name.endswith(".metric") and value == "euclidean":
        return "l2"  # Lance's other name for it
    listing = ", ".join(str(choice) for choice in parameter.choices)
    raise InvalidRequestError(f"{name} cannot be {value!r}", f"Choose one of: {listing}.")


def _check_range(name: str, parameter: Parameter, value: object) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return
    low, high = parameter.low, parameter.high
    if high is None and parameter.type == "int":
        high = _INT_MAX
    # Written so that NaN, which compares false with everything, fails.
    if not ((low is None or value >= low) and (high is None or value <= high)):
        bounds = " and ".join(
            f"{words} {bound:,}"
            for words, bound in (("at least", low), ("at most", high))
            if bound is not None
        )
        raise InvalidRequestError(f"{name} cannot be {value}", f"It is {bounds}: {parameter.doc}")


def _check_mapping(name: str, parameter: Parameter, value: object) -> dict[str, Any]:
    if isinstance(value, str):
        # Lance's own form of target_index_parameters is JSON in a string.
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if not isinstance(value, Mapping):
        problem = f"{name} must be a mapping"
        raise InvalidRequestError(problem, "Write it as {'name': value}: " + parameter.doc)
    return _check_all(name, parameter.schema, value)


def _complete_vector(kind: NativeKind, column: Column, parameters: dict[str, Any]) -> dict[str, Any]:
    width = dimension(column)
    completed = {"metric": default_metric(column), **parameters}
    if "ivf_centroids" in completed:
        centroids = as_centroids(completed["ivf_centroids"], width)
        if completed.setdefault("num_partitions", len(centroids)) != len(centroids):
            problem = (
                f"ivf_centroids has {len(centroids)} rows and num_partitions is {completed['num_partitions']}"
            )
            raise InvalidRequestError(problem, "Leave num_partitions out: it follows from the centroids.")
        completed["ivf_centroids"] = centroids
    if kind.parameter("num_sub_vectors") is not None:
        codes = completed.get("num_sub_vectors") or default_sub_vectors(width)
        completed.update({"num_sub_vectors": codes} if codes else {})
        if "pq_codebook" in completed and codes:
            completed["pq_codebook"] = as_codebook(
                completed["pq_codebook"], codes, completed["num_bits"], width
            )
    return completed
